"""Versions by hand: looking back, going back, forks, merges, transactions, locks."""

import pytest

from bailiwick.errors import (
    FileAlreadyExists,
    LockHeld,
    ParseError,
    PathNotFound,
    ReadOnly,
    RootNotFound,
    Unsupported,
)
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.uptime import Uptime
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark, Undoing
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import by, open_volume, opened

pytestmark = pytest.mark.both_engines(lean=True)


def at(text):
    return ScopedPath(text)


@pytest.mark.spec("VOL-5", "AUDIT-5")
async def test_history_tells_who_changed_a_place_and_when(tmp_path):
    async with opened(tmp_path / "v.db", clock_ns=iter(range(10, 1000)).__next__) as fs:
        for number, text in enumerate((b"one", b"two"), start=1):
            origin = Mark(subject=f"user:{number}", request_id=f"r{number}", note=b"n%d" % number)
            await by(fs, origin).write("f", text)
        await fs.move("f", "g")
        await fs.write("f", b"another")
        await fs.remove("f")
        here = await fs.store.versions.history(at("f"))
        here = here.versions
        assert [each.kind for each in here] == ["deleted", "created", "moved", "updated", "created"]
        there = await fs.store.versions.history(at("g"))
        there = there.versions
        assert [each.kind for each in there] == ["moved", "updated", "created"]
        first, second = there[2], there[1]
        assert (first.subject, first.request_id) == ("user:1", "r1")
        assert (second.subject, second.verb, second.size) == ("user:2", "write", 3)
        assert first.time_ns < second.time_ns
        with pytest.raises(PathNotFound):
            await fs.store.versions.history(at("nothing"))


@pytest.mark.spec("AUDIT-3")
async def test_a_note_commits_with_its_change_and_is_drained_once(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await by(fs, Mark(note=b"one")).write("f", b"1")
        await fs.write("f", b"2")
        await by(fs, Mark(note=b"three")).make_dir("d")
        refused = by(fs, Mark(note=b"refused"))
        with pytest.raises(FileAlreadyExists):
            await refused.make_dir("d")
    async with opened(tmp_path / "v.db") as fs:
        versions = fs.store.versions
        notes = await versions.notes()
        assert [note.note for note in notes] == [b"one", b"three"]
        await versions.drained(notes[0].version)
        assert [note.note for note in await versions.notes()] == [b"three"]


@pytest.mark.spec("VOL-5", "VOL-13")
async def test_an_earlier_version_is_looked_at_and_not_changed(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        written = await fs.write("d/f", b"old", parents=True)
        await fs.symlink("l", "d/f")
        before = await tree_of(fs.store)
        version = (await fs.lstat("l")).version
        await fs.write("d/f", b"new")
        await fs.remove("l")
        await fs.move("d", "e")
        then = await fs.store.versions.as_of(version)
        old = StoreDriver(then)
        assert await tree_of(then) == before
        assert await old.read("l") == b"old"
        assert (await old.stat("d/f")).version == written.version
        for change in (old.write("d/f", b"x"), old.remove("d/f"), old.make_dir("x")):
            with pytest.raises(ReadOnly):
                await change
        assert then.description["as_of"] == version
        await then.aclose()
        for version in ("999999", "nothing"):
            with pytest.raises(PathNotFound):
                await fs.store.versions.as_of(version)


@pytest.mark.spec("VOL-5")
async def test_restoring_brings_back_what_was_there(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/a", b"a", parents=True, file_mode=0o640)
        await fs.write("d/e/b", b"b", parents=True)
        version = (await fs.write("d/c", b"c")).version
        before = await tree_of(fs.store)
        await fs.remove("d", recursive=True)
        await fs.write("d", b"a file now")
        await fs.store.versions.restore(at("d"), version)
        assert await tree_of(fs.store) == before
        assert (await fs.stat("d/a")).mode == 0o640
        await fs.write("d/a", b"changed")
        await fs.write("d/new", b"")
        await fs.store.versions.restore(at("d/a"), version)
        assert await tree_of(fs.store) == before | {"d/new": b""}
        await fs.store.versions.restore(at("."), version)
        assert await tree_of(fs.store) == before


@pytest.mark.spec("VOL-5", "AUDIT-5")
async def test_a_request_is_undone_and_what_came_after_is_reported(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("kept", b"kept")
        await fs.write("a", b"before")
        await fs.write("b", b"before")
        work = by(fs, Mark(subject="agent_run:x", request_id="r1"))
        await work.write("a", b"work")
        await work.write("b", b"work")
        await work.make_dir("d")
        await work.write("d/f", b"work")
        await work.move("kept", "d/kept")
        after = await tree_of(fs.store)
        await fs.write("b", b"somebody else")
        await fs.write("d/theirs", b"somebody else")
        versions = fs.store.versions
        plan = await versions.plan_undo(Undoing(request_id="r1"))
        assert await tree_of(fs.store) == after | {
            "b": b"somebody else", "d/theirs": b"somebody else",
        }  # fmt: skip
        by_u1 = fs.store.marked(Mark(request_id="u1")).versions
        done = await by_u1.undo(Undoing(request_id="r1"), cleared=plan)
        assert done.conflicts == plan.conflicts
        assert {each.path for each in done.conflicts} >= {"b", "d/theirs"}
        now = await tree_of(fs.store)
        assert now["a"] == b"before"
        assert now["b"] == now["d/theirs"] == b"somebody else"
        await versions.undo(Undoing(request_id="u1"))
        assert (await tree_of(fs.store))["a"] == b"work"
        for nothing in ({"request_id": "r1", "subject": "user:y"}, {"request_id": "none"}):
            with pytest.raises(PathNotFound):
                await versions.undo(Undoing(**nothing))


@pytest.mark.spec("VOL-5")
async def test_a_removed_directory_comes_back_whole_by_undo(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for number in range(20):
            await fs.write(f"d/e{number % 3}/f{number}", b"%d" % number, parents=True)
        before = await tree_of(fs.store)
        await by(fs, Mark(request_id="rm")).remove("d", recursive=True)
        await fs.write("other", b"x")
        done = await fs.store.versions.undo(Undoing(request_id="rm"))
        assert done.conflicts == []
        assert await tree_of(fs.store) == before | {"other": b"x"}
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-6", "VOL-13")
async def test_a_fork_shares_everything_until_it_differs(tmp_path):
    path = tmp_path / "v.db"
    async with opened(path) as fs:
        await fs.write("d/f", b"shared", parents=True)
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.write("d/f", b"theirs")
        await fs.write("d/g", b"ours")
        assert await tree_of(fork.store) == {"d": None, "d/f": b"theirs"}
        assert await tree_of(fs.store) == {"d": None, "d/f": b"shared", "d/g": b"ours"}
        await fork.aclose()
        assert [each.name for each in await fs.store.versions.forks()] == ["main", "work"]
        with pytest.raises(FileAlreadyExists):
            await fs.store.versions.fork("work")
        with pytest.raises(ParseError):
            await fs.store.versions.fork("no/name")
    async with opened(path, branch="work") as fork:
        assert await fork.read("d/f") == b"theirs"
    async with opened(path) as fs:
        await fs.store.versions.delete_fork("work")
        with pytest.raises(PathNotFound):
            await fs.store.versions.open_fork("work")
    with pytest.raises(RootNotFound):
        VolumeStore.open(str(path), branch="work")


@pytest.mark.spec("VOL-6", "DIFF-1")
async def test_a_diff_names_what_differs(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for name in ("same", "edited", "gone", "moved"):
            await fs.write(name, b"before")
        await fs.write("d/inside", b"x", parents=True)
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.write("edited", b"after")
        await fork.remove("gone")
        await fork.move("moved", "d/moved")
        await fork.write("new/deep", b"", parents=True)
        await fork.move("d", "e")
        await fs.write("ours", b"")
        found = await fs.store.versions.compare("work")
        assert [(each.kind, each.path, each.origin) for each in found] == [
            ("moved", "e", "d"), ("moved", "e/moved", "moved"), ("updated", "edited", None),
            ("deleted", "gone", None), ("created", "new", None), ("created", "new/deep", None),
            ("deleted", "ours", None),
        ]  # fmt: skip
        await fork.aclose()


@pytest.mark.spec("VOL-6")
async def test_a_merge_takes_over_what_only_they_changed(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for name in ("a", "b", "c", "moved"):
            await fs.write(name, b"before")
        await fs.make_dir("d")
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.write("a", b"theirs")
        await fork.remove("c")
        await fork.move("moved", "d/moved")
        await fork.write("made/by/them", b"x", parents=True)
        await fs.write("b", b"ours")
        await fs.write("moved", b"edited here")
        await fs.write("made/by/us", b"y", parents=True)
        merged = await fs.store.versions.merge("work")
        assert merged.conflicts == []
        assert await tree_of(fs.store) == {
            "a": b"theirs", "b": b"ours", "d": None, "d/moved": b"edited here", "made": None,
            "made/by": None, "made/by/them": b"x", "made/by/us": b"y",
        }  # fmt: skip
        again = await fs.store.versions.merge("work")
        assert (again.version, again.plan.touches, again.conflicts) == (None, [], [])
        await fork.write("made/by/them", b"more")
        await fork.write("made/by/later", b"z")
        await fork.write("a", b"theirs again")
        assert (await fs.store.versions.merge("work")).conflicts == []
        assert await fs.read("made/by/later") == b"z"
        assert await fs.read("a") == b"theirs again"
        assert (await fs.store.versions.check()).problems == []
        await fork.aclose()


@pytest.mark.spec("VOL-6")
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ([("write", "f", b"1")], [("write", "f", b"2")]),
        ([("write", "f", b"1")], [("remove", "f")]),
        ([("remove", "f")], [("write", "f", b"2")]),
        ([("write", "new", b"1")], [("write", "new", b"2")]),
        ([("move", "f", "g")], [("move", "f", "h")]),
        ([("move", "f", "new")], [("write", "new", b"2")]),
        ([("remove", "d")], [("write", "d/in", b"2")]),
        ([("write", "d/new", b"1")], [("remove", "d")]),
        ([("remove", "d")], [("write", "d/new", b"2")]),
        ([("move", "d", "e/d")], [("move", "e", "d/e")]),
        ([("set_mode", "f", 0o640)], [("set_mode", "f", 0o644)]),
        ([("write", "t", b"1"), ("replace", "t", "f")], [("remove", "f")]),
        ([("remove", "f")], [("write", "t", b"1"), ("replace", "t", "f")]),
        ([("write", "t", b"1"), ("replace", "t", "f")], [("write", "f", b"2")]),
    ],
)
async def test_a_conflict_is_reported_and_nothing_is_taken_over(tmp_path, theirs, ours):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"before")
        await fs.write("d/in", b"before", parents=True)
        await fs.make_dir("e")
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.write("fine", b"this alone could be taken over")
        for driver, steps in ((fork, theirs), (fs, ours)):
            for verb, *arguments in steps:
                options = {"recursive": True} if verb == "remove" else {}
                if verb == "replace":
                    verb, options = "move", {"replace": True}
                await getattr(driver, verb)(*arguments, **options)
        before = await tree_of(fs.store)
        merged = await fs.store.versions.merge("work")
        assert merged.version is None
        assert merged.conflicts
        assert await tree_of(fs.store) == before
        assert (await fs.store.versions.check()).problems == []
        await fork.aclose()


@pytest.mark.spec("VOL-6")
async def test_what_both_sides_did_alike_is_no_conflict(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"before")
        fork = StoreDriver(await fs.store.versions.fork("work"))
        for driver in (fork, fs):
            await driver.write("new", b"the same")
            await driver.remove("f")
        assert (await fs.store.versions.merge("work")).conflicts == []
        assert await tree_of(fs.store) == {"new": b"the same"}
        await fork.aclose()


@pytest.mark.spec("VOL-7")
async def test_a_transaction_appears_at_once_or_not_at_all(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"before")
        draft = await fs.store.versions.begin()
        inside = StoreDriver(draft.store)
        await inside.write("a", b"after")
        await inside.write("d/b", b"new", parents=True)
        assert await inside.read("a") == b"after"
        assert await tree_of(fs.store) == {"a": b"before"}
        await fs.write("beside", b"by another")
        with pytest.raises(PathNotFound):
            await inside.read("beside")
        assert [(each.kind, each.path) for each in (await draft.plan(Mark())).touches] == [
            ("created", "d"), ("created", "d/b"), ("updated", "a"),
        ]  # fmt: skip
        await draft.commit(Mark(request_id="t1"))
        await draft.discard()
        await draft.discard()
        done = {"a": b"after", "d": None, "d/b": b"new", "beside": b"by another"}
        assert await tree_of(fs.store) == done
        draft = await fs.store.versions.begin()
        await StoreDriver(draft.store).remove("a")
        await draft.discard()
        assert await tree_of(fs.store) == done
        draft = await fs.store.versions.begin()
        await StoreDriver(draft.store).write("a", b"mine")
        await fs.write("a", b"theirs")
        refused = await draft.commit(Mark())
        await draft.discard()
        assert (refused.version, [each.path for each in refused.conflicts]) == (None, ["a"])
        await fs.store.versions.undo(Undoing(request_id="t1"))
        assert await fs.read("a") == b"theirs"
        assert [each.name for each in await fs.store.versions.forks()] == ["main"]
        await fs.store.versions.collect(keep_days=0)
        async with fs.store.core.looking() as session:
            of_volume = "SELECT name FROM branch WHERE volume = $1"
            assert await session.rows(of_volume, fs.store.core.volume) == [("main",)]


@pytest.mark.spec("VOL-7")
async def test_a_lease_keeps_others_out_until_it_ends(tmp_path):
    now = [10**6]
    async with opened(tmp_path / "v.db", uptime=Uptime("boot", lambda: now[0])) as fs:
        await fs.write("d/f", b"x", parents=True)
        entry = await fs.store.resolve(at("d"), "entry")
        holder = fs.store.marked(Mark(subject="agent_run:1")).versions
        lease = await holder.lock(entry, 60.0)
        entry.close()
        mine = by(fs, Mark(subject="agent_run:1", lock_token=lease.token))
        guessed = by(fs, Mark(subject="agent_run:2", lock_token=lease.token))
        with pytest.raises(LockHeld):
            await guessed.write("d/f", b"y")
        assert not await fs.store.versions.release(lease)
        refused = (
            lambda driver: driver.write("d/f", b"y"), lambda driver: driver.make_dir("d/e"),
            lambda driver: driver.remove("d", recursive=True), lambda driver: driver.move("d", "e"),
            lambda driver: driver.set_mode("d/f", 0o640), lambda driver: driver.symlink("d/l", "f"),
        )  # fmt: skip
        for change in refused:
            with pytest.raises(LockHeld):
                await change(fs)
        await fs.write("beside", b"free")
        await mine.write("d/f", b"y")
        inner = await fs.store.resolve(at("d/f"), "entry")
        with pytest.raises(LockHeld):
            await fs.store.versions.lock(inner, 1.0)
        with pytest.raises(LockHeld):
            await fs.store.versions.renew(lease, 60.0)
        lease = await holder.renew(lease, 60.0)
        now[0] += 61_000
        later = await fs.store.versions.lock(inner, 60.0)
        inner.close()
        assert later.token > lease.token
        with pytest.raises(LockHeld):
            await holder.renew(lease, 60.0)
        with pytest.raises(LockHeld):
            await fs.remove("d", recursive=True)
        assert await fs.store.versions.release(later)
        assert not await fs.store.versions.release(later)
        assert await fs.remove("d", recursive=True) == 2


@pytest.mark.spec("VOL-1")
async def test_volumes_in_one_file_do_not_see_each_other(tmp_path):
    path = tmp_path / "v.db"
    async with opened(path, volume="one") as one, opened(path, volume="two") as two:
        await one.write("f", b"x" * 10_000)
        assert await tree_of(two.store) == {}
        await two.write("f", b"x" * 10_000)
        await one.remove("f")
        await one.store.versions.collect(keep_days=0)
        assert await two.read("f") == b"x" * 10_000
        assert (await two.store.versions.check()).problems == []
    for name in ("", "1a", "a-b", "a'; DROP TABLE volume", "é"):
        with pytest.raises(ParseError):
            VolumeStore.open(str(path), volume=name)


@pytest.mark.spec("VOL-1")
async def test_a_volume_is_not_opened_twice_with_different_settings(tmp_path):
    from bailiwick.stores.volume.content.blobs import FolderBlobs

    async with opened(tmp_path / "v.db"), opened(tmp_path / "v.db"):
        with pytest.raises(ParseError) as caught:
            open_volume(tmp_path / "v.db", blobs=FolderBlobs(str(tmp_path / "other")))
        assert "other" in str(caught.value)
        assert "v.db-blobs" in str(caught.value)


@pytest.mark.spec("VOL-10")
@pytest.mark.sqlite_only("about files")
async def test_files_of_others_and_of_newer_versions_are_refused(tmp_path):
    import apsw

    foreign = apsw.Connection(str(tmp_path / "foreign.db"))
    foreign.execute("CREATE TABLE mine (x)")
    foreign.close()
    with pytest.raises(Unsupported, match="another program"):
        VolumeStore.open(str(tmp_path / "foreign.db"))
    async with opened(tmp_path / "v.db"):
        pass
    newer = apsw.Connection(str(tmp_path / "v.db"))
    newer.pragma("user_version", 99)
    newer.close()
    with pytest.raises(Unsupported, match="newer"):
        VolumeStore.open(str(tmp_path / "v.db"))
