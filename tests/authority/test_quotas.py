"""Quotas and trust through real verbs: nothing passes a bound, and what fails is given back."""

import asyncio
import errno
import io
import itertools
import logging
import tarfile

import pytest

import bailiwick
from bailiwick.paths import REMOVED, RESERVED_PREFIX
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.store import DiskStore
from bailiwick.testing.faults import device_fault
from tests.authority.support import EVERYTHING, ME, governed, refusal, rule
from tests.waiting import until

CHILD = bailiwick.AgentRun("c1", "child")

_count = itertools.count(1)


async def _chunks(*chunks):
    for chunk in chunks:
        yield chunk


def on_root(**quota):
    inner = ", ".join(f"{key} = {value}" for key, value in quota.items())
    return {"options": f"quota = {{{inner}}}"}


def on_grant(**quota):
    """A second grant, for one agent, with a quota of its own."""
    inner = ", ".join(f"{key} = {value}" for key, value in quota.items())
    return {
        "more": f"""
[[grant]]
subject = "automation:x"
root = "workspace:demo"
access = {list(EVERYTHING)!r}
quota = {{{inner}}}
""",
        "rules": rule("allow", subject="automation:*"),
    }


class Bounded:
    """A house whose root or grant has a quota, and what is really there."""

    def __init__(self, house, fs, where):
        self.house, self.fs, self.where = house, fs, where

    async def real(self):
        files = [each for each in (await self.house.tree()).values() if isinstance(each, bytes)]
        return sum(map(len, files)), len(files)

    def counted(self):
        meter = self.fs._pipeline.meter
        if self.where == "root":
            used = meter.used_by_root("workspace:demo")
        else:
            used = meter.used_by_grant(self.fs.grant.parent)
        return tuple(used) if used is not None else None

    async def is_settled(self):
        return self.counted() == await self.real()


async def bounded(tmp_path, where, use, *, on_disk=False, **quota):
    options = on_root(**quota) if where == "root" else on_grant(**quota)
    subject = bailiwick.AgentRun("c1", "r1") if where == "root" else bailiwick.Automation("x")
    state = tmp_path / f"state-{next(_count)}" if on_disk else None
    async with governed(tmp_path, on_disk=on_disk, state_dir=state, **options) as house:
        await use(Bounded(house, await house.scope(subject=subject), where))


WHERE = pytest.mark.parametrize("where", ["root", "grant"])

ADDING = {
    # each adds 60 bytes in one file to what there is
    "write_bytes": lambda fs: fs.write_bytes("n", b"x" * 60),
    "write_text": lambda fs: fs.write_text("d/n", "x" * 60, parents=True),
    "write_stream": lambda fs: fs.write_stream("n", _chunks(b"x" * 20, b"x" * 40)),
    "append": lambda fs: fs.append("n", b"x" * 60),
    "copy": lambda fs: fs.copy("full", "n"),
    "copy_from": lambda fs: fs.copy_from(fs, "full", "n"),
    "copy tree": lambda fs: fs.copy("tree", "n", recursive=True),
    "copy_from tree": lambda fs: fs.copy_from(fs, "tree", "n", recursive=True),
    "extract": lambda fs: fs.extract_archive("a.tar", "n"),
}


def _tar():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo("packed")
        entry.size = 60
        archive.addfile(entry, io.BytesIO(b"x" * 60))
    return made.getvalue()


PLANTED = {"full": b"x" * 60, "tree/in/file": b"y" * 60, "a.tar": _tar()}
PLANTED_BYTES, PLANTED_FILES = 120 + len(_tar()), 3


@pytest.mark.spec("AUTH-8")
async def test_what_cannot_be_unpacked_for_want_of_room_is_named(tmp_path):
    async with governed(tmp_path, **on_root(files=1)) as house:
        await house.plant({"a.tar": _tar()})
        error = await refusal((await house.scope()).extract_archive("a.tar", "n"))
        assert isinstance(error, bailiwick.QuotaExceeded)
        assert error.path == "a.tar"


@pytest.mark.spec("AUTH-8")
@WHERE
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("of", ["bytes", "files"])
@pytest.mark.parametrize("name", ADDING)
async def test_what_would_pass_a_bound_is_refused_and_leaves_nothing(
    tmp_path, name, of, where, on_disk
):
    """A root's bound counts what was there before it; a grant's only what was added under it."""
    before = {"bytes": PLANTED_BYTES, "files": PLANTED_FILES} if where == "root" else {}
    room = {"bytes": 60, "files": 1}[of] + before.get(of, 0)

    async def refuses(house):
        await house.house.plant(PLANTED)
        planted = await house.house.tree()
        error = await refusal(ADDING[name](house.fs))
        assert (error.kind, error.details["of"]) == ("quota_exceeded", of)
        assert (error.details["limit"], error.details["bound"]) == (room - 1, where)
        assert await house.house.tree() == planted
        counted = house.counted()
        assert counted in (None, (0, 0), (PLANTED_BYTES, PLANTED_FILES))

    async def admits(house):
        await house.house.plant(PLANTED)
        await ADDING[name](house.fs)
        real = await house.real()
        if where == "root":
            assert house.counted() == real
        else:
            assert house.counted() == (real[0] - PLANTED_BYTES, real[1] - PLANTED_FILES)

    if room > 1:
        await bounded(tmp_path, where, refuses, on_disk=on_disk, **{of: room - 1})
    await bounded(tmp_path, where, admits, on_disk=on_disk, **{of: room})


@pytest.mark.spec("AUTH-8")
@WHERE
async def test_what_is_taken_away_is_given_back(tmp_path, where):
    async def use(house):
        fs = house.fs
        await fs.write_bytes("a", b"x" * 50)
        await fs.write_bytes("d/b", b"x" * 40, parents=True)
        assert house.counted() == (90, 2)
        assert (await refusal(fs.write_bytes("c", b"x" * 20))).kind == "quota_exceeded"
        await fs.write_bytes("a", b"x" * 10)
        assert house.counted() == (50, 2)
        await fs.truncate("d/b", 20)
        await fs.edit("a", old="xxxxxxxxxx", new="y")
        assert house.counted() == (21, 2)
        await fs.move("a", "d/b", replace=True)
        assert house.counted() == (1, 1)
        await fs.truncate("d/b", 90)
        assert (await refusal(fs.append("d/b", b"x" * 11))).kind == "quota_exceeded"
        assert house.counted() == (90, 1)
        await fs.remove("d", recursive=True)
        assert house.counted() == (0, 0)
        await fs.write_bytes("c", b"x" * 100)
        await fs.write_bytes("c", b"y" * 100)
        assert house.counted() == await house.real() == (100, 1)
        await fs.remove("c")
        assert house.counted() == (0, 0)

    await bounded(tmp_path, where, use, bytes=100, files=3)


@pytest.mark.spec("AUTH-8", "WRITE-3")
@WHERE
async def test_what_fails_or_is_cancelled_is_given_back(tmp_path, where):
    async def use(house):
        fs = house.fs
        await fs.write_bytes("there", b"x" * 10)
        counted = house.counted()
        await fs.make_dir("dir")

        async def broken():
            yield b"x" * 30
            raise OSError("the line is dead")

        async def hanging():
            yield b"x" * 30
            started.set()
            await asyncio.Event().wait()

        for work in (
            fs.write_stream("n", broken()),
            fs.write_bytes("there", b"y" * 40, mode="replace", expected_sha256="0" * 64),
            fs.write_bytes("there", b"y" * 40, mode="create"),
            fs.append("there", b"y" * 40, expected_sha256="0" * 64),
            fs.write_bytes("no/n", b"y" * 40),
            fs.write_stream("n", _chunks(b"x" * 80, b"x" * 80)),
            fs.copy("there", "dir"),
            fs.remove("nowhere"),
            fs.edit("there", old="nothing", new="something"),
        ):
            assert await refusal(work) is not None
            assert house.counted() == counted
        started = asyncio.Event()
        upload = asyncio.ensure_future(fs.write_stream("n", hanging()))
        await started.wait()
        assert house.counted() == (40, 2)  # counted while it comes, so that nobody else takes it
        upload.cancel()
        await asyncio.wait((upload,))
        assert house.counted() == counted

    await bounded(tmp_path, where, use, bytes=100)


@pytest.mark.spec("AUTH-8", "TREE-2")
@WHERE
async def test_of_a_removal_that_ends_halfway_what_is_gone_is_given_back(
    tmp_path, where, monkeypatch
):
    unlink, left = syscalls.unlink, 5

    def failing(name, *, dir_fd):
        nonlocal left
        if left == 0:
            raise OSError(errno.EIO, "refused")
        left -= 1
        unlink(name, dir_fd=dir_fd)

    async def use(house):
        fs = house.fs
        for number in range(9):
            await fs.write_bytes(f"d/{number % 3}/{number}", b"x" * 10, parents=True)
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(syscalls, "unlink", failing)
            assert (await refusal(fs.remove("d", recursive=True))).kind == "io_error"
        assert house.counted() == await house.real() == (40, 4)
        await fs.remove("d", recursive=True)
        assert house.counted() == (0, 0)

    await bounded(tmp_path, where, use, on_disk=True, bytes=100, files=10)


@pytest.mark.spec("AUTH-8", "TREE-2")
@WHERE
async def test_of_a_removal_that_fails_when_all_is_gone_all_is_given_back(
    tmp_path, where, monkeypatch
):
    remove = DiskStore.remove

    async def failing(*given, **named):
        await remove(*given, **named)
        raise device_fault()

    async def use(house):
        fs = house.fs
        await fs.write_bytes("d/n", b"x" * 10, parents=True)
        monkeypatch.setattr(DiskStore, "remove", failing)
        assert (await refusal(fs.remove("d", recursive=True))).kind == "io_error"
        assert house.counted() == await house.real() == (0, 0)

    await bounded(tmp_path, where, use, on_disk=True, bytes=100, files=10)


@pytest.mark.spec("AUTH-8", "DISK-9")
async def test_what_a_killed_removal_has_left_counts_as_nothing(tmp_path):
    place = tmp_path / "tree"
    rest = place / REMOVED / f"{RESERVED_PREFIX}0123456789ab-1"
    rest.mkdir(parents=True)
    (rest / "f").write_bytes(b"x" * 5_000)
    (place / "d/in").mkdir(parents=True)
    (place / "d/in/f").write_bytes(b"x" * 300)
    options = {"on_disk": True, "place": place, "state_dir": tmp_path / "state"}
    async with governed(tmp_path, **options, **on_root(bytes=100)) as house:
        fs = await house.scope()
        assert (await refusal(fs.write_bytes("n", b"x"))).kind == "quota_exceeded"
        # A place that is too full can be emptied, and of two who do it one gives back.
        twice = fs.remove("d", recursive=True), fs.remove("d", recursive=True)
        ends = await asyncio.gather(*twice, return_exceptions=True)
        assert [getattr(each, "kind", None) for each in ends] == [None, "path_not_found"]
        assert tuple(fs._pipeline.meter.used_by_root("workspace:demo")) == (0, 0)
        assert (await refusal(fs.write_bytes("n", b"x" * 101))).kind == "quota_exceeded"
        await fs.write_bytes("n", b"x" * 100)
    assert (rest / "f").exists()


async def _closed_at(work, waits):
    """Close a coroutine where it waits for the so manieth time; whether it had ended before."""
    for _ in range(waits):
        try:
            waited_for = work.send(None)
        except StopIteration:
            return True
        if waited_for is not None:
            waited_for._asyncio_future_blocking = False
            await asyncio.wait((waited_for,))
    work.close()
    return False


@pytest.mark.spec("AUTH-8", "LINE-5")
@WHERE
async def test_what_is_closed_is_given_back(tmp_path, where):
    async def use(house):
        fs = house.fs
        await fs.write_bytes("there", b"x" * 10)
        for begin in (
            lambda: fs.write_bytes("new", b"y" * 200_000),
            lambda: fs.write_stream("streamed", _chunks(b"y" * 10, b"y" * 10)),
            lambda: fs.append("there", b"y"),
        ):
            ended, waits = False, 0
            while not ended:
                ended = await _closed_at(begin(), waits)
                await until(house.is_settled)
                waits += 1
            assert waits > 2

    await bounded(tmp_path, where, use, bytes=100_000_000)


@pytest.mark.spec("AUTH-8")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@WHERE
async def test_parallel_writers_do_not_pass_a_bound_together(tmp_path, where, on_disk):
    async def use(house):
        async def write(number):
            done = 0
            for step in range(10):
                name = f"{number}-{step}"
                ways = (
                    house.fs.write_bytes(name, b"x" * 10),
                    house.fs.write_stream(name, _chunks(b"x" * 5, b"x" * 5)),
                    house.fs.append(name, b"x" * 10),
                )
                work = ways[(number + step) % 3]
                for other in ways:
                    if other is not work:
                        other.close()
                error = await refusal(work)
                assert error is None or error.kind == "quota_exceeded"
                done += error is None
            return done

        done = sum(await asyncio.gather(*(write(number) for number in range(16))))
        assert await house.real() == house.counted() == (done * 10, done)
        assert done == 100  # exactly at the bound

    await bounded(tmp_path, where, use, on_disk=on_disk, bytes=1009, files=100)


@pytest.mark.spec("AUTH-8", "WRITE-6")
@pytest.mark.parametrize("way", ["write_bytes", "truncate", "write_stream"])
async def test_parallel_writers_of_one_file_give_back_only_once(tmp_path, way):
    async def use(house):
        fs = house.fs
        await fs.write_bytes("a", b"x" * 500)
        await fs.write_bytes("b", b"x" * 500)
        acts = {
            "write_bytes": lambda: fs.write_bytes("a", b"1"),
            "truncate": lambda: fs.truncate("a", 1),
            "write_stream": lambda: fs.write_stream("a", _chunks(b"1")),
        }
        await asyncio.gather(*(acts[way]() for _ in range(16)))
        await refusal(fs.write_bytes("c", b"x" * 900))
        assert (await house.real())[0] <= 1000
        assert house.counted() == await house.real()

    await bounded(tmp_path, "root", use, bytes=1000)


@pytest.mark.spec("AUTH-8")
async def test_a_stream_may_replace_as_much_as_there_was(tmp_path):
    async def use(house):
        await house.fs.write_bytes("c", b"x" * 100)
        await house.fs.write_bytes("c", b"y" * 100)
        await house.fs.write_stream("c", _chunks(b"z" * 100))
        assert (await house.fs.stat("c")).size == 100
        assert (await refusal(house.fs.append("c", b"!"))).kind == "quota_exceeded"

    await bounded(tmp_path, "root", use, bytes=100)


@pytest.mark.spec("AUTH-5", "AUTH-8")
async def test_a_grant_and_all_that_come_from_it_share_its_quota(tmp_path):
    async def use(house):
        child = await house.fs.delegate(bailiwick.Automation("y"))
        other = await house.house.scope(subject=bailiwick.Automation("x"))
        await house.fs.write_bytes("a", b"x" * 40)
        await other.write_bytes("b", b"x" * 40)
        assert (await refusal(child.write_bytes("c", b"x" * 40))).kind == "quota_exceeded"
        await child.write_bytes("c", b"x" * 20)
        assert house.counted() == (100, 3)

    await bounded(tmp_path, "grant", use, bytes=100)


@pytest.mark.spec("AUTH-8")
async def test_a_root_is_measured_when_it_is_first_written(tmp_path):
    place = tmp_path / "tree"
    place.mkdir()
    (place / "old").write_bytes(b"x" * 90)
    options = {"on_disk": True, "place": place, "state_dir": tmp_path / "state"}
    async with governed(tmp_path, **options, **on_root(bytes=100)) as house:
        fs = await house.scope()
        assert (await refusal(fs.write_bytes("new", b"x" * 11))).kind == "quota_exceeded"
        await fs.write_bytes("new", b"x" * 10)
    async with governed(tmp_path, **options, **on_root(bytes=100)) as house:
        fs = await house.scope()
        assert (await refusal(fs.append("new", b"x"))).kind == "quota_exceeded"
        await fs.remove("old")
        await fs.append("new", b"x" * 90)
    (place / "new").unlink()
    async with governed(tmp_path, **options, **on_root(bytes=100)) as house:
        fs = await house.scope()
        await fs.write_stream("new", _chunks(b"x" * 100))


@pytest.mark.spec("AUTH-8", "AUDIT-1")
@WHERE
async def test_operations_a_minute(tmp_path, where):
    async def use(house):
        fs = house.fs
        await house.house.plant({"f": "x"})
        for number in range(10):
            await (fs.read_text("f") if number % 2 else fs.write_text("g", "y"))
        for work in (fs.read_text("f"), fs.write_text("g", "z"), fs.list(), fs.remove("g")):
            error = await refusal(work)
            assert (error.kind, error.retryable) == ("rate_limited", True)
            assert 0 < error.details["retry_after_s"] <= 60
        assert (await house.house.tree())["g"] == b"y"
        denied = [each for each in await house.house.operations() if each.outcome == "denied"]
        assert [each.error_kind for each in denied] == ["rate_limited"] * 4

    await bounded(tmp_path, where, use, operations_per_minute=10)


@pytest.mark.spec("AUTH-7", "AUDIT-1")
async def test_trust_is_looked_at_before_every_change(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "bailiwick")
    async with governed(tmp_path) as house:
        await house.plant({"f": "x"})
        fs = await house.scope()
        child = await fs.delegate(CHILD)

        def warnings():
            return [each for each in caplog.records if "not trusted" in each.getMessage()]

        for round in (1, 2):
            await fs.write_text("f", "trusted")
            await house.authority.set_trust("workspace:demo", False, by=ME)
            for scope in (fs, child, fs, child):
                assert (await refusal(scope.write_text("f", "no"))).kind == "untrusted_workspace"
                assert (await refusal(scope.remove("f"))).kind == "untrusted_workspace"
                await scope.read_text("f")
            assert len(warnings()) == round  # once, until it was trusted again
            await house.authority.set_trust("workspace:demo", True, by=ME)
        assert (await house.tree())["f"] == b"trusted"
        trusts = [each for each in await house.records() if each.operation == "trust"]
        assert [each.subject for each in trusts] == ["user:me"] * 4
