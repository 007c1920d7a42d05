"""Small reads and writes, which end in their first step: judged, on record, and nothing lost."""

import asyncio
import errno
import os

import msgspec
import pytest

import bailiwick
from bailiwick.limits import Limits
from bailiwick.stores.disk import syscalls
from tests.authority.support import governed, rule
from tests.scope import support
from tests.scope.support import granted, plant, records

disk = support.disk

RULES = rule("deny", "denied.txt") + rule("hide", "hidden.txt")

READS = {
    "whole": lambda fs: fs.read_bytes("plain.txt"),
    "range": lambda fs: fs.read_bytes("plain.txt", 1, 2),
    "beyond": lambda fs: fs.read_bytes("plain.txt", 100, 1),
    "text": lambda fs: fs.read_text("plain.txt"),
    "window": lambda fs: fs.read_text("plain.txt", line=1, limit=1),
    "link": lambda fs: fs.read_bytes("link"),
    "link to hidden": lambda fs: fs.read_bytes("link-to-hidden"),
    "link out": lambda fs: fs.read_bytes("out"),
    "missing": lambda fs: fs.read_bytes("missing"),
    "missing text": lambda fs: fs.read_text("missing"),
    "climbs": lambda fs: fs.read_bytes("../plain.txt"),
    "no path": lambda fs: fs.read_bytes(7),
    "directory": lambda fs: fs.read_bytes("d"),
    "slash": lambda fs: fs.read_bytes("plain.txt/"),
    "binary": lambda fs: fs.read_text("binary"),
    "negative": lambda fs: fs.read_bytes("plain.txt", -1),
    "no number": lambda fs: fs.read_bytes("plain.txt", "1"),
    "too long": lambda fs: fs.read_bytes("plain.txt", 0, 2**40),
    "too large": lambda fs: fs.read_bytes("large"),
    "denied": lambda fs: fs.read_bytes("denied.txt"),
    "hidden": lambda fs: fs.read_bytes("hidden.txt"),
    "hidden text": lambda fs: fs.read_text("hidden.txt"),
    "asked": lambda fs: fs.read_bytes(".env"),
}


def fill(root):
    """A tree with everything that a read can meet."""
    root.mkdir()
    (root / "d").mkdir()
    for name in ("plain.txt", "denied.txt", "hidden.txt", ".env"):
        (root / name).write_text(f"of {name}\n")
    (root / "binary").write_bytes(b"\x00\xff")
    (root / "large").write_bytes(b"x" * 200)
    (root / "link").symlink_to("plain.txt")
    (root / "link-to-hidden").symlink_to("hidden.txt")
    (root / "out").symlink_to("../secret")
    (root.parent / "secret").write_text("outside")


@pytest.mark.spec("READ-1", "AUDIT-1", "POL-1")
@pytest.mark.parametrize("name", READS)
async def test_every_read_is_on_record_once_whatever_comes_of_it(name, tmp_path):
    fill(tmp_path / "tree")
    async with governed(tmp_path, RULES, place=tmp_path / "tree") as house:
        fs = await house.scope({"read"})
        before = len(await house.operations())
        outcome = "success"
        try:
            await READS[name](fs)
        except bailiwick.PolicyError:
            outcome = "denied"
        except bailiwick.BailiwickError:
            outcome = "failed"
        assert [each.outcome for each in (await house.operations())[before:]] == [outcome]


@pytest.mark.spec("AUTH-3", "AUTH-4")
async def test_a_grant_of_less_than_everything_reads_no_more(tmp_path):
    async with governed(tmp_path, on_disk=True) as house:
        await house.plant({"a.txt": "a", "d/b.txt": "b"})
        whole = await house.scope({"read", "list"})
        part = await whole.delegate(bailiwick.AgentRun("c1", "r2"), access={"read"}, path="d")
        assert (await part.read_bytes("d/b.txt")).data == b"b"
        for narrow in (part, granted(whole, access=frozenset({"list"}))):
            with pytest.raises(bailiwick.PolicyError):
                await narrow.read_bytes("a.txt")
        await house.authority.revoke(whole.grant.id, by=bailiwick.User("me"))
        for gone in (whole, part):
            with pytest.raises(bailiwick.GrantRevoked):
                await gone.read_bytes("d/b.txt")


@pytest.mark.spec("AUTH-8")
async def test_however_it_ends_a_read_is_counted_once(tmp_path):
    async with governed(
        tmp_path, on_disk=True, options="quota = { operations_per_minute = 4 }"
    ) as house:
        await house.plant({"a.txt": "a"})
        fs = await house.scope({"read"})
        for _ in range(2):
            await fs.read_bytes("a.txt")
            with pytest.raises(bailiwick.PathNotFound):
                await fs.read_bytes("missing")
        for path in ("a.txt", "missing"):
            with pytest.raises(bailiwick.RateLimited):
                await fs.read_bytes(path)


@pytest.mark.spec("HOOK-1")
async def test_a_hook_sees_every_read(disk):
    async with disk() as fs:
        await plant(fs, {"a.txt": "a"})
        await fs.read_bytes("a.txt")
        hook = Watching()
        fs._pipeline.hooks.register(hook)
        await fs.read_bytes("a.txt")
        assert hook.seen == [("read", "a.txt", "success")]


class Watching:
    """A hook that keeps what it is shown."""

    id = "watching"

    def __init__(self):
        self.seen = []

    async def before(self, context):
        return None

    async def after(self, context, record):
        self.seen.append((context.operation, context.path, record.outcome))


@pytest.mark.spec("AUDIT-1", "LIFE-1")
async def test_whoever_ends_the_process_in_a_read_is_on_record_and_nothing_stays_open(
    disk, monkeypatch
):
    async with disk() as fs:
        await plant(fs, {"a.txt": "a"})

        async def interrupted(_handle, _offset, _length):
            raise KeyboardInterrupt

        monkeypatch.setattr(fs._pipeline.store, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await fs.read_bytes("a.txt")
        newest = records(fs)[-1]
        assert (newest.path, newest.outcome, newest.error_kind) == ("a.txt", "failed", "cancelled")


@pytest.mark.spec("LIFE-1")
async def test_a_closed_scope_reads_nothing(disk):
    async with disk() as fs:
        await plant(fs, {"a.txt": "a"})
    with pytest.raises(bailiwick.Closed):
        await fs.read_bytes("a.txt")
    with pytest.raises(bailiwick.Closed):
        await fs.read_text("a.txt")


@pytest.mark.spec("POL-1", "TREE-6")
async def test_what_one_caller_knows_of_ignore_files_is_not_told_to_another(tmp_path):
    rules = rule("hide", ".gitignore", subject="agent_run:c1/r2")
    async with governed(tmp_path, rules, on_disk=True) as house:
        await house.plant({".gitignore": "a.txt\n", "a.txt": "a"})
        seeing = await house.scope({"read"})
        blind = await house.scope({"read"}, subject=bailiwick.AgentRun("c1", "r2"))
        for _ in range(3):
            assert (await seeing.read_text("a.txt")).matched_ignore == "file"
            assert (await blind.read_text("a.txt")).matched_ignore is None


# --- writes -----------------------------------------------------------------------------------

WRITES = {
    "over": lambda fs: fs.write_bytes("plain.txt", b"new"),
    "nothing": lambda fs: fs.write_bytes("plain.txt", b""),
    "of an array": lambda fs: fs.write_bytes("plain.txt", bytearray(b"new")),
    "text": lambda fs: fs.write_text("plain.txt", "one\ntwo\n"),
    "text, keeping its form": lambda fs: fs.write_text("windows.txt", "one\ntwo\n"),
    "text over nothing": lambda fs: fs.write_text("empty", "one\n"),
    "text over what is none": lambda fs: fs.write_text("binary", "one\n"),
    "text that cannot be stored": lambda fs: fs.write_text("plain.txt", "\ud800"),
    "text in a form": lambda fs: fs.write_text("plain.txt", "one\n", line_ending="crlf"),
    "no text": lambda fs: fs.write_text("plain.txt", b"new"),
    "no bytes": lambda fs: fs.write_bytes("plain.txt", "new"),
    "no content": lambda fs: fs.write_bytes("plain.txt", None),
    "new": lambda fs: fs.write_bytes("new.txt", b"new"),
    "new in a new directory": lambda fs: fs.write_bytes("a/new.txt", b"new", parents=True),
    "in no directory": lambda fs: fs.write_bytes("a/new.txt", b"new"),
    "bad name": lambda fs: fs.write_bytes("a\nb", b"new"),
    "no flag": lambda fs: fs.write_bytes("plain.txt", b"new", parents=0),
    "create": lambda fs: fs.write_bytes("plain.txt", b"new", mode="create"),
    "replace": lambda fs: fs.write_bytes("plain.txt", b"new", mode="replace"),
    "expected": lambda fs: fs.write_bytes("plain.txt", b"new", expected_sha256="0" * 64),
    "mode": lambda fs: fs.write_bytes("plain.txt", b"new", file_mode=0o640),
    "lock": lambda fs: fs.write_bytes("plain.txt", b"new", lock_token=7),
    "too large": lambda fs: fs.write_bytes("plain.txt", b"x" * 200),
    "larger than a file may be": lambda fs: fs.write_bytes("plain.txt", b"x" * 60),
    "link": lambda fs: fs.write_bytes("link", b"new"),
    "link out": lambda fs: fs.write_text("out", "new"),
    "directory": lambda fs: fs.write_bytes("d", b"new"),
    "slash": lambda fs: fs.write_bytes("plain.txt/", b"new"),
    "climbs": lambda fs: fs.write_bytes("../secret", b"new"),
    "second name": lambda fs: fs.write_bytes("twin", b"new"),
    "ignore file": lambda fs: fs.write_bytes(".gitignore", b"*.txt"),
}


def fill_for_writes(root):
    fill(root)
    (root / "windows.txt").write_bytes(b"a\r\nb\r\n")
    (root / "empty").write_bytes(b"")
    (root / "twin").hardlink_to(root / "large")
    (root / ".gitignore").write_text("twin\n")


def standing(root):
    """Everything that stands in a tree and beside it, with its mode."""
    return {
        str(path.relative_to(root.parent)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else None,
        )
        for path in (*root.rglob("*"), root.parent / "secret")
    }


@pytest.mark.spec("WRITE-1", "WRITE-2", "AUDIT-1", "TREE-6")
@pytest.mark.parametrize("name", WRITES)
async def test_every_write_is_on_record_once_and_a_refused_one_changes_nothing(
    disk, name, tmp_path
):
    root = tmp_path / "tree"
    fill_for_writes(root)
    limits = Limits(bytes_call_max=100, max_file_bytes=50)
    async with disk(place=str(root), durability="rename", limits=limits) as fs:
        there, before, changed = standing(root), len(records(fs)), True
        try:
            await WRITES[name](fs)
        except bailiwick.BailiwickError:
            changed = False
        (record,) = records(fs)[before:]
        assert (record.outcome == "success") == changed
        assert (standing(root) != there) == changed
        assert standing(root)["secret"] == there["secret"]


class Odd:
    """What says that it is the same as anything, or that this cannot be said."""

    def __init__(self, same):
        self.same = same

    def __eq__(self, other):
        if self.same:
            return True
        raise ValueError("the truth value is ambiguous")

    __hash__ = None


@pytest.mark.spec("AUDIT-1", "ERR-1")
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("name", ["encoding", "bom", "line_ending", "parents", "mode"])
async def test_an_argument_that_is_nothing_of_the_kind_is_refused_on_record(disk, name, same):
    async with disk(durability="rename") as fs:
        await seen_before(fs)
        before = len(records(fs))
        with pytest.raises(bailiwick.ParseError):
            await fs.write_text("a.txt", "new", **{name: Odd(same)})
        assert [each.outcome for each in records(fs)[before:]] == ["failed"]
        assert (await fs.read_text("a.txt")).text == "old"
        with pytest.raises(bailiwick.ParseError):
            await fs.read_text("a.txt", encoding=Odd(same))


async def seen_before(fs):
    """A file of which it is known how it is marked."""
    await plant(fs, {"a.txt": "old"})
    await fs.read_text("a.txt")


@pytest.mark.spec("TREE-6")
async def test_ignore_files_that_come_and_go_are_noticed(disk, tmp_path):
    place = tmp_path / "tree"
    (place / "d").mkdir(parents=True)
    async with disk(place=str(place), durability="rename") as fs:
        now = [fs._ignores._monotonic_ns()]
        fs._ignores._monotonic_ns = lambda: now[0]
        await fs.write_text("d/a.txt", "a")
        for rules, mark in (
            ({}, None),
            ({".gitignore": "a.txt"}, "file"),
            ({".gitignore": "b.txt"}, None),
            ({".gitignore": "b.txt", "d/.bailiwickignore": "*.txt"}, "file"),
            ({".gitignore": "d/"}, "directory"),
            ({}, None),
        ):
            for name in (".gitignore", "d/.bailiwickignore"):
                (place / name).unlink(missing_ok=True)
            for name, text in rules.items():
                (place / name).write_text(text)
            for _ in range(2):
                now[0] += 300_000_000  # what was seen is older than a mark may be
                assert (await fs.write_text("d/a.txt", "a")).matched_ignore == mark, rules
                now[0] += 300_000_000
                assert (await fs.write_bytes("d/a.txt", b"a")).matched_ignore == mark, rules
                now[0] += 300_000_000
                assert (await fs.read_text("d/a.txt")).matched_ignore == mark, rules


@pytest.mark.spec("EVENT-1")
async def test_whoever_watches_is_told_of_a_write(disk):
    async with disk(durability="rename") as fs:
        await seen_before(fs)
        watching = fs.watch()
        first = asyncio.ensure_future(anext(watching))
        while not fs._pipeline.changes.active:
            await asyncio.sleep(0)
        result = await fs.write_bytes("a.txt", b"new")
        change = await asyncio.wait_for(first, 120)
        assert (change.kind, change.path, change.request_id) == (
            "updated", "a.txt", result.request_id,
        )  # fmt: skip
        await watching.aclose()


@pytest.mark.spec("AUTH-7")
async def test_an_untrusted_root_is_not_written(disk):
    async with disk(durability="rename") as fs:
        await seen_before(fs)
        untrusted = granted(fs, root=msgspec.structs.replace(fs.root, trusted=False))
        reading = granted(fs, access=frozenset({"read"}))
        for scope, error in (
            (untrusted, bailiwick.UntrustedWorkspace), (reading, bailiwick.MissingAccess),
        ):  # fmt: skip
            with pytest.raises(error):
                await scope.write_bytes("a.txt", b"new")
            assert records(fs)[-1].outcome == "denied"
        assert (await fs.read_bytes("a.txt")).data == b"old"


@pytest.mark.spec("WRITE-2", "LIFE-1")
@pytest.mark.parametrize("error", [OSError(errno.EIO, ""), KeyboardInterrupt()])
async def test_a_new_file_of_which_nothing_is_told_does_not_stay(disk, error, monkeypatch):
    async with disk(durability="rename") as fs:
        await seen_before(fs)
        fstat, made = os.fstat, set()
        opening = syscalls.open_at

        def open_at(*given, **more):
            made.add(fd := opening(*given, **more))
            return fd

        def failing(fd):
            if fd in made:
                raise error
            return fstat(fd)

        monkeypatch.setattr(syscalls, "open_at", open_at)
        monkeypatch.setattr(os, "fstat", failing)
        with pytest.raises((bailiwick.IoError, KeyboardInterrupt)):
            await fs.write_bytes("a.txt", b"new")
        with pytest.raises((bailiwick.IoError, KeyboardInterrupt)):
            await fs.write_bytes("new.txt", b"new")
        monkeypatch.undo()
        assert [each.name for each in (await fs.list()).entries] == ["a.txt"]
        assert (await fs.read_bytes("a.txt")).data == b"old"


@pytest.mark.spec("WRITE-2", "AUDIT-1")
@pytest.mark.parametrize("step", ["open_at", "write", "rename_over"])
async def test_a_disk_that_fails_leaves_the_old_content_and_one_record(disk, step, monkeypatch):
    async with disk(durability="rename") as fs:
        await seen_before(fs)
        before = len(records(fs))

        def full(*_, **__):
            raise OSError(errno.ENOSPC, "")

        monkeypatch.setattr(syscalls, step, full)
        with pytest.raises(bailiwick.IoError):
            await fs.write_bytes("a.txt", b"new")
        monkeypatch.undo()
        assert [each.outcome for each in records(fs)[before:]] == ["failed"]
        assert (await fs.read_bytes("a.txt")).data == b"old"
        assert [each.name for each in (await fs.list()).entries] == ["a.txt"]


@pytest.mark.spec("AUDIT-1", "LIFE-1")
async def test_whoever_ends_the_process_in_a_write_is_on_record(disk, monkeypatch):
    async with disk(durability="rename") as fs:
        await seen_before(fs)

        async def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(fs._pipeline.store, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await fs.write_bytes("a.txt", b"new")
        newest = records(fs)[-1]
        assert (newest.path, newest.outcome, newest.error_kind) == ("a.txt", "failed", "cancelled")


@pytest.mark.spec("AUDIT-1", "WRITE-1")
async def test_what_could_not_be_put_on_record_is_not_acknowledged(disk, monkeypatch):
    async with disk(durability="rename") as fs:
        await seen_before(fs)

        def full(*_):
            raise MemoryError

        monkeypatch.setattr(fs._pipeline.ledger, "settle", full)
        with pytest.raises(bailiwick.IoError, match="could not be written"):
            await fs.write_bytes("a.txt", b"new")
