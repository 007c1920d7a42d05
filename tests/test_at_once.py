"""The short way of a read: its answer and its record are those of the long one, whatever comes."""

import msgspec
import pytest

import bailiwick
from bailiwick.model import Limits
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


async def outcome_of(read):
    """What comes of a read, without what no two calls have in common."""
    try:
        answer = await read
    except bailiwick.BailiwickError as error:
        return type(error), error.message, error.path, error.decided_by, error.hint, error.details
    return msgspec.structs.replace(answer, request_id="")


def told(record):
    return msgspec.structs.replace(record, time_ns=0, request_id="", duration_ns=0)


async def both_ways(fs, read, on_record, monkeypatch):
    """The outcome of a read and what is on record of it, by the short way and by the long one."""
    seen = []
    for way in (fs._pipeline.at_once, None):
        monkeypatch.setattr(fs._pipeline, "at_once", way)
        before = len(await on_record())
        outcome = await outcome_of(read(fs))
        noted = (await on_record())[before:]
        assert len(noted) == 1, "one call, one record"
        seen.append((outcome, noted[0]))
    return seen


@pytest.mark.spec("READ-1", "AUDIT-1")
@pytest.mark.parametrize("name", READS)
async def test_both_ways_are_one_for_whoever_opens_a_place(disk, name, tmp_path, monkeypatch):
    fill(tmp_path / "tree")
    async with disk(place=str(tmp_path / "tree"), limits=Limits(bytes_call_max=100)) as fs:

        async def on_record():
            return [told(each) for each in records(fs)]

        assert fs._pipeline.at_once is not None
        short, long = await both_ways(fs, READS[name], on_record, monkeypatch)
        assert short == long


@pytest.mark.spec("READ-1", "AUDIT-1", "POL-1")
@pytest.mark.parametrize("name", READS)
async def test_both_ways_are_one_under_rules(name, tmp_path, monkeypatch):
    fill(tmp_path / "tree")
    async with governed(tmp_path, RULES, place=tmp_path / "tree") as house:
        fs = await house.scope({"read"})

        async def on_record():
            shown = await house.operations()
            return [msgspec.structs.replace(told(each), seq=0) for each in shown]

        assert fs._pipeline.at_once is not None
        short, long = await both_ways(fs, READS[name], on_record, monkeypatch)
        assert short == long


@pytest.mark.spec("AUTH-3", "AUTH-4")
async def test_a_grant_of_less_than_everything_goes_the_long_way(tmp_path):
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
async def test_whichever_way_it_ends_a_read_is_counted_once(tmp_path):
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

        def interrupted(_handle, _offset, _length):
            raise KeyboardInterrupt

        monkeypatch.setattr(fs._pipeline.at_once, "_read", interrupted)
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
