"""Taking back what was done in a real directory, and nothing else."""

import os

import pytest

from bailiwick.errors import PathNotFound
from bailiwick.paths import ScopedPath, parse
from bailiwick.store import Staged
from bailiwick.versions import Stale, Undoing
from tests.stores.history.places import by, opened

pytestmark = pytest.mark.spec("DISK-8", "VOL-5")


def everything(tree):
    """All that stands in a directory: bytes of files, text of links, None for directories."""
    found = {}
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


async def undo(fs, request_id=None, *, by_request="undo", **what):
    return await by(fs, "user:me", by_request).store.versions.undo(
        Undoing(request_id=request_id, **what)
    )


def told(plan):
    return {str(each.path): each.kind for each in plan.touches}


async def test_a_run_among_the_work_of_a_person(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "src").mkdir()
        (tree / "src/app.py").write_text("one\n")
        (tree / "notes.txt").write_text("mine\n")
        (tree / "both.txt").write_text("both\n")
        (tree / "gone.txt").write_text("was here\n")
        agent, person = by(fs, "agent:run", "run-1"), by(fs, "user:me", "edit-1")
        await agent.write("src/app.py", b"two\n")
        await person.write("src/other.py", b"theirs\n")
        await agent.write("src/new/deep.py", b"new\n", parents=True)
        await agent.remove("gone.txt")
        await agent.write("both.txt", b"agent\n")
        await agent.write("src/app.py", b"three\n")
        (tree / "both.txt").write_text("person, by another program\n")
        await person.write("notes.txt", b"still mine\n")

        done = await undo(fs, "run-1")

        assert everything(tree) == {
            "src": None,
            "src/app.py": b"one\n",
            "src/other.py": b"theirs\n",
            "notes.txt": b"still mine\n",
            "both.txt": b"person, by another program\n",
            "gone.txt": b"was here\n",
        }
        assert [(each.path, each.reason) for each in done.plan.conflicts] == [
            ("both.txt", "it was changed since")
        ]
        assert done.plan.subjects == {"agent:run"}
        assert told(done.plan) == {
            "gone.txt": "created",
            "src/app.py": "updated",
            "src/new": "deleted",
            "src/new/deep.py": "deleted",
        }


async def test_an_undo_can_be_undone(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "a.txt").write_text("one")
        os.chmod(tree / "a.txt", 0o640)
        agent = by(fs, "agent:run", "run-1")
        await agent.write("a.txt", b"two")
        await agent.make_dir("d")
        await agent.write("d/b.txt", b"b")
        await agent.symlink("d/link", "b.txt")
        before = everything(tree)
        await undo(fs, "run-1", by_request="u1")
        assert everything(tree) == {"a.txt": b"one"}
        assert (tree / "a.txt").stat().st_mode & 0o777 == 0o640
        done = await undo(fs, "u1", by_request="u2")
        assert done.plan.conflicts == ()
        assert everything(tree) == before
        await undo(fs, "u2", by_request="u3")
        assert everything(tree) == {"a.txt": b"one"}


async def test_a_removed_tree_comes_back_at_once(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "project/deep/er").mkdir(parents=True)
        (tree / "project/deep/er/x.bin").write_bytes(os.urandom(200_000))
        (tree / "project/empty").mkdir(mode=0o750)
        (tree / "project/a.txt").write_text("a")
        os.chmod(tree / "project/a.txt", 0o755)
        os.symlink("a.txt", tree / "project/link")
        os.chmod(tree / "project", 0o755)
        before = everything(tree)
        await by(fs, "agent:run", "rm").remove("project", recursive=True)
        assert everything(tree) == {}
        plan = await fs.store.versions.plan_undo(Undoing(request_id="rm"))
        assert {str(each.path): each.beneath for each in plan.touches} == {
            name: name != "project" for name in before
        }
        done = await undo(fs, "rm")
        assert done.plan.conflicts == ()
        assert everything(tree) == before
        assert (tree / "project").stat().st_mode & 0o777 == 0o755
        assert (tree / "project/empty").stat().st_mode & 0o777 == 0o750
        assert (tree / "project/a.txt").stat().st_mode & 0o777 == 0o755


async def test_moves_are_taken_back_with_what_others_put_in(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "d").mkdir()
        (tree / "d/a").write_text("one")
        (tree / "d/untouched").write_text("never seen")
        agent = by(fs, "agent:run", "run-1")
        await agent.write("d/a", b"two")
        await agent.move("d", "e")
        await agent.write("e/a", b"three")
        await agent.move("e/a", "f")
        (tree / "e/theirs").write_text("theirs")
        plan = await fs.store.versions.plan_undo(Undoing(request_id="run-1"))
        assert ("d/untouched", "moved", "e/untouched") in [
            (each.path, each.kind, each.origin) for each in plan.touches
        ]
        done = await undo(fs, "run-1")
        assert done.plan.conflicts == ()
        assert everything(tree) == {
            "d": None, "d/a": b"one", "d/untouched": b"never seen", "d/theirs": b"theirs",
        }  # fmt: skip
        done = await undo(fs, "undo", by_request="u2")
        assert done.plan.conflicts == ()
        assert everything(tree) == {
            "e": None, "f": b"three", "e/untouched": b"never seen", "e/theirs": b"theirs",
        }  # fmt: skip


async def test_a_file_that_a_move_replaced_comes_back(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "a").write_text("a")
        (tree / "b").write_text("b")
        await by(fs, "agent:run", "mv").move("a", "b", replace=True)
        done = await undo(fs, "mv")
        assert done.plan.conflicts == ()
        assert everything(tree) == {"a": b"a", "b": b"b"}


async def test_every_verb_can_be_undone(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "d").mkdir()
        for name in ("grow", "cut", "mode", "time", "copied", "stream"):
            (tree / f"d/{name}").write_text(f"{name} {name}")
        os.utime(tree / "d/time", ns=(5, 5))
        agent = by(fs, "agent:run", "run")
        before = everything(tree)

        async def chunks():
            yield b"x" * 50_000
            yield b"y"

        await agent.append("d/grow", b" more")
        await agent.append("d/grow", b" and more")
        await agent.append("d/fresh", b"new")
        await agent.truncate("d/cut", 2)
        await agent.set_mode("d/mode", 0o700)
        await agent.set_times("d/time", 7_000_000_000)
        await agent.copy("d", "e", recursive=True)
        await agent.copy("d/copied", "copied")
        await agent.write_stream("d/stream", chunks())
        await agent.symlink("l", "d")
        await agent.make_dir("p/q/r", parents=True)
        done = await undo(fs, "run")
        assert done.plan.conflicts == ()
        assert everything(tree) == before
        assert (tree / "d/time").stat().st_mtime_ns == 5


async def staged(fs, place, steps, *, replace=None):
    store = fs.store
    handle = await store.resolve(parse(place).path, "entry")
    try:
        stage = await store.stage(handle, size_max=1000)
        try:
            await stage.add(steps)
            await (stage.publish() if replace is None else stage.merge(replace=replace))
        finally:
            await stage.discard()
    finally:
        handle.close()


async def test_what_was_unpacked_is_taken_back(tmp_path):
    tree = tmp_path / "tree"
    steps = [
        Staged(ScopedPath("a/b.txt"), "file"), b"b", b"!",
        Staged(ScopedPath("c"), "directory"),
        Staged(ScopedPath("old.txt"), "file"), b"new",
        Staged(ScopedPath("twin"), "copy", target="a/b.txt"),
        Staged(ScopedPath("link"), "symlink", target="c"),
    ]  # fmt: skip
    async with opened(tmp_path) as fs:
        (tree / "here/c").mkdir(parents=True)
        (tree / "here/old.txt").write_text("old")
        before = everything(tree)
        await staged(by(fs, "agent:run", "merge"), "here", steps, replace=True)
        await staged(by(fs, "agent:run", "publish"), "there", steps)
        assert everything(tree)["there/twin"] == b"b!"
        assert everything(tree)["here/old.txt"] == b"new"
        for request in ("merge", "publish"):
            done = await undo(fs, request)
            assert done.plan.conflicts == ()
        assert everything(tree) == before


async def test_what_others_changed_in_between_is_a_conflict(tmp_path):
    """Two changes of one run with a person's in between are taken back together or not at all."""
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        await by(fs, "agent:run", "run").write("a", b"1")
        await by(fs, "user:me", "mine").write("a", b"2")
        await by(fs, "agent:run", "run").write("a", b"3")
        done = await undo(fs, "run")
        assert done.version is None
        assert [each.path for each in done.plan.conflicts] == ["a"]
        assert everything(tree) == {"a": b"3"}


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda tree: (tree / "made/theirs").write_text("x"), "it holds something"),
        (lambda tree: (tree / "made").rmdir(), "it is gone"),
        (lambda tree: (tree / "removed").write_text("again"), "something else stands there now"),
        (lambda tree: (tree / "moved").write_text("not that one"), "it was changed since"),
        (lambda tree: (tree / "source").write_text("taken"), "something else stands where it was"),
    ],
)
async def test_conflicts_leave_what_others_did(tmp_path, spoil, reason):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "removed").write_text("r")
        (tree / "source").write_text("s")
        agent = by(fs, "agent:run", "run")
        await agent.make_dir("made")
        await agent.remove("removed")
        await agent.move("source", "moved")
        spoil(tree)
        kept = everything(tree)
        done = await undo(fs, "run")
        (conflict,) = done.plan.conflicts
        assert conflict.reason.startswith(reason)
        after = everything(tree)
        for path in (str(conflict.path), "made/theirs"):
            assert after.get(path) == kept.get(path)


async def test_versions_and_subjects_select(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        for number in range(4):
            subject = "agent:a" if number % 2 else "agent:b"
            await by(fs, subject, f"r{number}").write(f"f{number}", b"x")
        versions = [
            (await fs.store.versions.history(ScopedPath(f"f{number}"))).versions[0].version
            for number in range(4)
        ]
        await undo(fs, first=versions[1], last=versions[2], subject="agent:a")
        assert sorted(everything(tree)) == ["f0", "f2", "f3"]
        await undo(fs, first=versions[2], last=versions[2])
        assert sorted(everything(tree)) == ["f0", "f3"]
        with pytest.raises(PathNotFound):
            await undo(fs, "no such request")
        with pytest.raises(PathNotFound):
            await undo(fs, "r0", subject="agent:nobody")


async def test_a_plan_that_was_cleared_is_carried_out_or_stale(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "a").write_text("one")
        (tree / "b").write_text("one")
        agent = by(fs, "agent:run", "run")
        await agent.write("a", b"two")
        await agent.write("b", b"two")
        versions = fs.store.versions
        what = Undoing(request_id="run")
        cleared = await versions.plan_undo(what)
        assert everything(tree) == {"a": b"two", "b": b"two"}
        (tree / "b").write_text("someone")
        with pytest.raises(Stale):
            await versions.undo(what, cleared=cleared)
        assert everything(tree) == {"a": b"two", "b": b"someone"}
        cleared = await versions.plan_undo(what)
        done = await versions.undo(what, cleared=cleared)
        assert done.plan.covers(cleared)
        assert everything(tree) == {"a": b"one", "b": b"someone"}


async def test_a_touched_file_is_still_what_it_was(tmp_path):
    """The same bytes under another time are no change: a copy back, a touch."""
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        await by(fs, "agent:run", "run").write("a", b"x" * 100_000)
        os.utime(tree / "a")
        done = await undo(fs, "run")
        assert done.plan.conflicts == ()
        assert everything(tree) == {}
