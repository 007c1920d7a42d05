"""The feed of a volume: its own log, told once, in order, whoever made the change."""

import asyncio
import contextlib
import io
import random
import subprocess
import sys
import tarfile

import pytest

import bailiwick
from bailiwick.build.log_feed import StoreFeed
from bailiwick.errors import BailiwickError
from bailiwick.stores.volume.versions import change_log
from tests.feeds import any_path
from tests.laws.repository import ROOT
from tests.stores.volume.trees import tree_of
from tests.waiting import give_a_chance, until

pytestmark = pytest.mark.spec("EVENT-1")


@contextlib.asynccontextmanager
async def followed(fs, since=None, **options):
    """What a scope is told from now on, gathered in a list."""
    told = []
    cursor = await fs.change_cursor() if since is None else since

    async def gather():
        async for change in fs.watch(since=cursor, **options):
            told.append(change)  # noqa: PERF401 (seen while it goes on)

    task = asyncio.create_task(gather())
    try:
        yield told
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def brief(told):
    return [
        (each.kind, str(each.path), *((str(each.origin),) if each.origin else ())) for each in told
    ]


async def settled(told, count):
    await until(lambda: len(told) >= count)
    await give_a_chance()  # to more
    return told


# --- what each verb tells -----------------------------------------------------------------------


async def test_own_changes_are_told_with_subject_and_request(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs, followed(fs) as told:
        written = await fs.with_request("r1").write_text("a/b/f", "x", parents=True)
        await settled(told, 3)
        assert brief(told) == [("created", "a"), ("created", "a/b"), ("created", "a/b/f")]
        assert [each.type for each in told] == ["directory", "directory", "file"]
        assert told[2].version == written.version
        assert {(each.subject, each.request_id) for each in told} == {("user:local", "r1")}


async def test_each_verb_tells_what_it_did(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text("d/e/f", "x", parents=True)
        await fs.write_text("g", "x")
        async with followed(fs) as told:
            await fs.write_text("g", "y")
            await fs.append("g", b"z")
            await fs.set_mode("g", 0o640)
            await fs.set_times("d", 10**18)
            await fs.move("d", "m")
            await fs.copy("m", "c", recursive=True)
            await fs.symlink("l", "g")
            await fs.move("g", "l", replace=True)
            await fs.make_dir("x/y", parents=True)
            await fs.remove("m", recursive=True)
            await fs.remove("l")
            await settled(told, 12)
    assert brief(told) == [
        ("updated", "g"), ("updated", "g"), ("updated", "g"), ("updated", "d"),
        ("moved", "m", "d"), ("created", "c"), ("created", "l"), ("moved", "l", "g"),
        ("created", "x"), ("created", "x/y"), ("deleted", "m"), ("deleted", "l"),
    ]  # fmt: skip
    whole = {(each.kind, each.beneath) for each in told if each.subtree}
    assert whole == {(kind, ("e/", "e/f")) for kind in ("moved", "created", "deleted")}
    assert told[0].version != told[1].version == told[2].version


async def test_what_changes_versions_is_told_by_what_it_changes(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.with_request("first").write_text("d/f", "x", parents=True)
        before = (await fs.stat("d/f")).version
        await fs.write_text("d/f", "y")
        await fs.with_request("gone").remove("d", recursive=True)
        async with followed(fs) as told:
            await fs.undo("gone")
            await settled(told, 1)
            assert brief(told) == [("created", "d")]
            assert (told[0].subtree, told[0].beneath) == (True, ("f",))
            await fs.restore("d/f", before)
            await settled(told, 2)
            assert brief(told[1:]) == [("updated", "d/f")]
            async with fs.transaction() as inner:
                await inner.write_text("d/g", "x")
                await inner.remove("d/f")
            await settled(told, 4)
            assert sorted(brief(told[2:])) == [("created", "d/g"), ("deleted", "d/f")]


async def test_a_directory_in_the_place_of_another_is_told_with_what_both_hold(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text("c/x", "1", parents=True)
        await fs.snapshot("s")
        await fs.remove("c", recursive=True)
        await fs.write_text("c/y", "1", parents=True)
        async with followed(fs) as told, followed(fs, expand=True) as all_of_it:
            await fs.restore("c", "s")
            await settled(told, 2)
            assert brief(told) == [("deleted", "c"), ("created", "c")]
            assert [each.beneath for each in told] == [("y",), ("x",)]
            assert brief(all_of_it) == [
                ("deleted", "c"), ("deleted", "c/y"), ("created", "c"), ("created", "c/x"),
            ]  # fmt: skip


async def test_a_directory_that_others_put_in_the_place_of_another_is_told_so(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text("c/x", "1", parents=True)
        await fs.write_text("c/out", "1")
        async with followed(fs, expand=True) as told:
            async with fs.transaction() as inner:
                await inner.move("c/out", "out")
                await inner.remove("c", recursive=True)
                await inner.write_text("c/z", "1", parents=True)
            await settled(told, 5)
            assert sorted(brief(told)) == [
                ("created", "c"), ("created", "c/z"), ("deleted", "c"), ("deleted", "c/x"),
                ("moved", "out", "c/out"),
            ]  # fmt: skip
            assert brief(told).index(("deleted", "c")) < brief(told).index(("created", "c"))


async def test_what_an_undo_takes_away_is_told_once(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        one = fs.with_request("one")
        await one.make_dir("p/q", parents=True)
        await one.write_text("p/q/f", "1")
        async with followed(fs) as told, followed(fs, expand=True) as all_of_it:
            await fs.undo("one")
            await settled(all_of_it, 3)
            assert brief(told) == [("deleted", "p")]
            assert brief(all_of_it) == [("deleted", "p"), ("deleted", "p/q"), ("deleted", "p/q/f")]
            assert [each.type for each in all_of_it] == ["directory", "directory", "file"]


async def test_a_link_in_a_directory_that_is_told_whole_is_told_as_a_link(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text("c/in/x", "1", parents=True)
        await fs.symlink("c/in/l", "x")
        async with followed(fs, expand=True) as told, followed(fs, path="c/in") as inside:
            await fs.write_text("c/in/x", "2")  # told to both: both have found their directory
            await settled(told, 1)
            await settled(inside, 1)
            await fs.move("c", "c2")
            await fs.remove("c2", recursive=True)
            await settled(told, 9)
            await settled(inside, 2)
            links = [str(each.path) for each in told if each.type == "symlink"]
            assert links == ["c2/in/l", "c2/in/l"]
            assert [each.beneath_links for each in inside] == [(), ("l",)]
        async with fs.transaction() as inner:
            await inner.symlink("top", "x")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_a_follower_who_is_told_everything_knows_every_path(tmp_path, seed):
    """The tree rebuilt from the feed alone is the tree, after whatever changes many paths at once;
    and nothing is told that is so already."""
    rng = random.Random(seed)
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        known = {}
        async with followed(fs, expand=True) as told:
            for number in range(30):
                await change_many(fs, rng, number)
                await fs.write_text("told", "all of it")  # comes last
                await until(lambda: told and str(told[-1].path) == "told")
                follow(told, known)
                assert known == await types_of(fs)


async def types_of(fs):
    """Every path and what it is."""
    types = {type(None): "directory", str: "symlink", bytes: "file"}
    tree = await tree_of(fs._pipeline.store)
    return {path: types[type(content)] for path, content in tree.items()}


def follow(told, known):
    """Take up what was told since, all of a version at once: what goes makes room for the rest."""
    while told:
        version = [each for each in told if each.time_ns == told[0].time_ns]
        del told[: len(version)]
        for each in version:
            if each.kind in ("deleted", "moved"):
                path = str(each.origin or each.path)
                assert known.pop(path, None) == each.type, (path, brief(version))
        for each in version:
            if each.kind != "deleted":
                known[str(each.path)] = each.type
        came = [str(each.path) for each in version if each.kind in ("created", "moved")]
        assert len(came) == len(set(came)), brief(version)


async def change_many(fs, rng, number):
    """Something that changes many paths at once, or a few changes for it to work on."""
    mine = fs.with_request(f"r{number}")
    with contextlib.suppress(BailiwickError):
        match rng.randrange(5):
            case 0:
                await mine.undo(f"r{rng.randrange(number + 1)}")
            case 1:
                await mine.restore(any_path(rng), f"s{rng.randrange(number + 1)}")
            case 2:
                async with mine.transaction() as inner:
                    for _ in range(4):
                        await change_one(inner, rng)
            case _:
                for _ in range(3):
                    await change_one(mine, rng)
    await fs.snapshot(f"s{number}")


async def change_one(fs, rng):
    path = any_path(rng)
    with contextlib.suppress(BailiwickError):
        match rng.randrange(5):
            case 0:
                await fs.remove(path, recursive=True)
            case 1:
                await fs.move(path, any_path(rng))
            case 2:
                await fs.symlink(path, "x")
            case _:
                await fs.write_text(path, "x", parents=True)


async def test_what_is_staged_is_not_told_until_it_appears(tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("t/one", "t/two"):
            archive.addfile(tarfile.TarInfo(name))
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_bytes("a.tar", packed.getvalue())
        async with followed(fs) as told:
            await fs.extract_archive("a.tar", "out")
            await settled(told, 1)
            assert brief(told) == [("created", "out")]
            assert told[0].beneath == ("t/", "t/one", "t/two")
            await fs.remove("out/t/one")
            await fs.extract_archive("a.tar", "out", overwrite=True)
            await settled(told, 4)
            assert sorted(brief(told[2:])) == [("created", "out/t/one"), ("updated", "out/t/two")]


# --- once, in order, from anywhere ----------------------------------------------------------------


class Model:
    """A tree as someone knows it who only hears of changes."""

    def __init__(self):
        self.tree = {}

    def apply(self, told):
        path = str(told.path)
        if told.kind == "deleted":
            assert self._take(path), told
        elif told.kind == "moved":
            taken = self._take(str(told.origin))
            assert taken, told
            self._take(path)
            self.tree.update({path + rest: kept for rest, kept in taken.items()})
        else:
            assert told.kind in ("created", "updated"), told
            assert (path in self.tree) == (told.kind == "updated"), told
            self.tree[path] = told.type
            for name in told.beneath:
                self.tree[f"{path}/{name}".rstrip("/")] = (
                    "directory" if name.endswith("/") else None
                )

    def _take(self, path):
        taken = {
            name[len(path) :]: kept
            for name, kept in self.tree.items()
            if name == path or name.startswith(path + "/")
        }
        for rest in taken:
            del self.tree[path + rest]
        return taken


async def step(fs, rng):
    path, other = any_path(rng), any_path(rng)
    verbs = (
        lambda: fs.write_bytes(path, rng.randbytes(9)),
        lambda: fs.write_bytes(path, rng.randbytes(9), parents=True),
        lambda: fs.make_dir(path),
        lambda: fs.symlink(path, "x"),
        lambda: fs.remove(path, recursive=True),
        lambda: fs.move(path, other, replace=True),
        lambda: fs.copy(path, other, recursive=True),
        lambda: fs.set_mode(path, 0o700),
        lambda: fs.append(path, b"more"),
    )
    with contextlib.suppress(BailiwickError):
        await rng.choice(verbs)()


@pytest.mark.parametrize("seed", range(4))
async def test_who_only_hears_of_changes_knows_the_tree(tmp_path, seed):
    """Two places on one file, each changing it: both are told all of it, once, in one order."""
    rng, place = random.Random(seed), f"sqlite:{tmp_path}/v.db"
    async with (
        bailiwick.open(place) as one,
        bailiwick.open(place) as two,
        followed(one) as first,
        followed(two) as second,
    ):
        for _ in range(120):
            await asyncio.gather(step(one, rng), step(two, rng))
        await one.write_text("the-end", "x")
        await until(lambda: first and first[-1].path == "the-end")
        await until(lambda: second and second[-1].path == "the-end")
        found = (await one.find(include_ignored=True, limit=50_000)).matches
    model = Model()
    for change in first:
        model.apply(change)
    assert set(model.tree) == {str(entry.path) for entry in found}
    types = {str(entry.path): entry.type for entry in found}
    assert all(kept in (None, types[path]) for path, kept in model.tree.items())
    assert first == second
    places = [int(each.cursor.split(".")[1]) for each in first]
    assert places == sorted(set(places))


OTHER = """
import asyncio, sys
import bailiwick

async def main():
    async with bailiwick.open(sys.argv[1]) as fs:
        for number in range(int(sys.argv[3])):
            request = f"{sys.argv[2]}-{number}"
            await fs.with_request(request).write_text(f"{sys.argv[2]}/{number}", "x", parents=True)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_what_other_processes_change_is_told_once_and_in_order(tmp_path):
    place = f"sqlite:{tmp_path}/v.db"

    def other(name):
        command = [sys.executable, "-c", OTHER, place, name, "40"]
        subprocess.run(command, cwd=ROOT, check=True)

    async with bailiwick.open(place) as fs:
        heard = []
        stop = await fs.on_change(heard.append)
        async with followed(fs) as told:
            for number in range(5):
                await fs.write_text(f"own{number}", "x")
            await asyncio.gather(*(asyncio.to_thread(other, name) for name in "ab"))
            await settled(told, 87)
        await until(lambda: len(heard) >= 87)
        stop()
    assert heard == told
    assert len(told) == 87
    for name in "ab":
        mine = [each for each in told if str(each.path).startswith(f"{name}/")]
        assert [each.request_id for each in mine] == [f"{name}-{number}" for number in range(40)]
        assert {each.subject for each in mine} == {"user:local"}


async def test_a_cursor_in_the_middle_of_an_operation_goes_on_there(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        async with followed(fs) as told:
            await fs.write_text("a/b/c/f", "x", parents=True)
            await fs.move("a", "z")
            await settled(told, 5)
        for number, each in enumerate(told):
            async with followed(fs, each.cursor) as again:
                await settled(again, len(told) - number - 1)
            assert again == told[number + 1 :]
        async with followed(fs, told[3].cursor, expand=True) as parts:
            await settled(parts, 4)
        assert brief(parts) == [
            ("moved", "z", "a"), ("moved", "z/b", "a/b"), ("moved", "z/b/c", "a/b/c"),
            ("moved", "z/b/c/f", "a/b/c/f"),
        ]  # fmt: skip
        async with followed(fs, parts[1].cursor, expand=True) as rest:
            await settled(rest, 2)
        assert brief(rest) == brief(parts)[2:]


async def test_what_nobody_sees_keeps_no_follower_busy(tmp_path, monkeypatch):
    """Versions that have nothing to tell: the follower waits, it does not spin."""
    reads = []
    read = StoreFeed.read
    monkeypatch.setattr(StoreFeed, "read", lambda *given: reads.append(1) or read(*given))
    monkeypatch.setattr(change_log._Telling, "changes", lambda *_: nothing())
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs, followed(fs) as told:
        await fs.write_text("f", "x")
        await until(lambda: reads)
        await give_a_chance(0.3)
        assert told == []
        assert len(reads) < 10


async def nothing():
    return []


async def test_a_version_that_changed_too_much_is_told_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(change_log, "CHANGES_MAX", 3)
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs, followed(fs) as told:
        await fs.write_text("f", "x")
        await fs.write_text("a/b/c/d", "x", parents=True)
        await fs.write_text("g", "x")
        await settled(told, 3)
        assert brief(told) == [("created", "f"), ("rescan", "."), ("created", "g")]


@pytest.mark.spec("VOL-8")
async def test_a_cursor_from_before_what_is_kept_gets_reset(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db", keep_versions_days=0) as fs:
        async with followed(fs) as told:
            for number in range(5):
                await fs.write_text("f", str(number))
            await settled(told, 5)
        store = fs._lent.pipeline.store
        await store.versions.collect(keep_days=0)
        async with followed(fs, told[0].cursor) as again:
            await settled(again, 1)
            await fs.write_text("g", "x")
            await settled(again, 2)
        assert brief(again) == [("reset", "."), ("created", "g")]


async def test_each_fork_has_a_feed_of_its_own(tmp_path):
    place = f"sqlite:{tmp_path}/v.db"
    async with bailiwick.open(place) as fs:
        await fs.write_text("f", "x")
        fork = await fs.fork("try")
        async with bailiwick.open(f"{place}?branch=try") as opened:
            async with followed(fs) as main, followed(opened) as tried:
                await fork.write_text("f", "y")
                await fs.write_text("g", "x")
                await settled(main, 1)
                await settled(tried, 1)
            assert (brief(main), brief(tried)) == ([("created", "g")], [("updated", "f")])
            async with followed(opened, main[0].cursor) as other:
                await settled(other, 1)
            assert brief(other) == [("reset", ".")]
        await fork.aclose()
