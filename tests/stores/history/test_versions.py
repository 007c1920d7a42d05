"""Looking back at a real directory, and restoring what was."""

import os

import apsw
import pytest

from bailiwick.errors import PathNotFound, ReadOnly
from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Undoing
from tests.stores.history.places import by, opened
from tests.stores.history.test_undo import everything

pytestmark = pytest.mark.spec("DISK-8", "VOL-5")


async def history(fs, path, **options):
    return (await fs.store.versions.history(ScopedPath(path), **options)).versions


async def past(fs, version):
    return StoreDriver(await fs.store.versions.as_of(version))


async def restore(fs, path, version):
    return await by(fs, "user:me", "restore").store.versions.restore(ScopedPath(path), version)


async def test_history_tells_who_did_what_and_what_others_did(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "a.txt").write_text("found")
        await by(fs, "agent:run", "r1").write("a.txt", b"one")
        (tree / "a.txt").write_text("foreign!")
        await by(fs, "user:me", "r2").write("a.txt", b"two")
        await by(fs, "user:me", "r3").move("a.txt", "b.txt")
        await by(fs, "user:me", "r4").remove("b.txt")
        told = await history(fs, "b.txt")
        assert [(v.kind, v.path, v.subject, v.request_id, v.size) for v in told] == [
            ("deleted", "b.txt", "user:me", "r4", 0),
            ("moved", "b.txt", "user:me", "r3", 3),
            ("updated", "a.txt", "user:me", "r2", 3),
            ("updated", "a.txt", "", "", 8),
            ("updated", "a.txt", "agent:run", "r1", 3),
            ("created", "a.txt", "", "", 5),
        ]  # fmt: skip
        assert [each.verb for each in told] == ["remove", "move", "write", None, "write", None]
        numbers = [int(each.version) for each in told]
        assert numbers == sorted(numbers, reverse=True)
        assert all(each.time_ns is not None for each in told)

        pages, before = [], None
        while True:
            page = await fs.store.versions.history(ScopedPath("b.txt"), before=before, limit=1)
            pages += page.versions
            if not page.more:
                break
            before = page.versions[-1].version
        assert pages == told
        with pytest.raises(PathNotFound):
            await history(fs, "never.txt")


async def test_each_version_can_be_read_and_restored(tmp_path):
    tree = tmp_path / "tree"
    large = os.urandom(300_000)
    async with opened(tmp_path) as fs:
        (tree / "a").write_bytes(large)
        contents = [b"one", large[:200_000], b"", b"four"]
        for content in contents:
            await fs.write("a", content)
        (tree / "a").write_bytes(b"foreign")
        await fs.append("a", b"!")
        told = await history(fs, "a")
        expected = [b"foreign!", b"foreign", *reversed(contents), large]
        assert len(told) == len(expected)
        for version, content in zip(told, expected, strict=True):
            then = await past(fs, version.version)
            assert await then.read("a") == content
            assert (await then.read("a", 1, 2)) == content[1:3]
            await then.aclose()
            done = await restore(fs, "a", version.version)
            assert (tree / "a").read_bytes() == content
            assert (done.version is None) == (content == b"foreign!")
        await fs.store.versions.undo(Undoing(request_id="restore"))
        assert (tree / "a").read_bytes() == b"foreign!"


async def test_a_removed_directory_is_restored(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "d/e").mkdir(parents=True)
        (tree / "d/e/f").write_text("f")
        os.symlink("e/f", tree / "d/link")
        before = everything(tree)
        await fs.remove("d", recursive=True)
        gone, was = await history(fs, "d")
        assert (gone.kind, was.kind, was.type) == ("deleted", "created", "directory")
        assert [each.kind for each in await history(fs, "d/e/f")] == ["deleted", "created"]
        await restore(fs, "d/e/f", was.version)
        assert everything(tree) == {"d": None, "d/e": None, "d/e/f": b"f"}
        await restore(fs, "d", was.version)
        assert everything(tree) == before
        await restore(fs, "d", gone.version)
        assert everything(tree) == {}


async def test_restoring_a_directory_leaves_what_history_does_not_know(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "d").mkdir()
        (tree / "d/theirs").write_text("theirs")
        await fs.write("d/a", b"1")
        (first,) = await history(fs, "d/a")
        await fs.write("d/a", b"2")
        await fs.write("d/b", b"b")
        await restore(fs, "d", first.version)
        assert everything(tree) == {"d": None, "d/a": b"1", "d/theirs": b"theirs"}


async def test_the_past_shows_the_tree_as_it_was(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        (tree / "d").mkdir()
        (tree / "d/a").write_text("a")
        (tree / "d/still").write_text("still")
        os.utime(tree / "d/still", ns=(1, 1))
        await fs.write("d/b", b"b")
        (version,) = await history(fs, "d/b")
        await fs.remove("d/b")
        await fs.write("d/a", b"changed")
        await fs.move("d", "e")
        await fs.write("e/c", b"c")
        then = await past(fs, version.version)
        assert [each.name for each in await then.entries(".")] == ["d"]
        assert [each.name for each in await then.entries("d")] == ["a", "b", "still"]
        assert await then.read("d/a") == b"a"
        assert await then.read("d/b") == b"b"
        assert await then.read("d/still") == b"still"
        assert (await then.stat("d/a")).size == 1
        for path in ("e/c", "e", "d/c"):
            with pytest.raises(PathNotFound):
                await then.stat(path)
        with pytest.raises(ReadOnly):
            await then.write("d/a", b"x")
        await then.aclose()
        (tree / "e/still").write_text("by another program")
        then = await past(fs, version.version)
        with pytest.raises(PathNotFound):
            await then.read("d/still")


@pytest.mark.parametrize("version", ["99", "x", "-1", "1.5", "²"])
async def test_a_version_that_never_was(tmp_path, version):
    async with opened(tmp_path) as fs:
        await fs.write("a", b"1")
        for verb in (fs.store.versions.as_of, lambda v: restore(fs, "a", v)):
            with pytest.raises(PathNotFound):
                await verb(version)


async def test_what_is_too_large_is_changed_and_said_not_to_be_kept(tmp_path):
    tree = tmp_path / "tree"
    limits = Limits(history_bytes_max=100_000, history_entries_max=5)
    async with opened(tmp_path, limits=limits) as fs:
        with (tree / "sparse").open("wb") as file:
            file.truncate(4 << 40)
        (tree / "many").mkdir()
        for number in range(9):
            (tree / f"many/{number}").write_text("x")
        await by(fs, "a", "rm").remove("sparse")
        await by(fs, "a", "rm-many").remove("many", recursive=True)
        assert everything(tree) == {}
        done = await fs.store.versions.undo(Undoing(request_id="rm"))
        assert done.version is None
        (conflict,) = done.plan.conflicts
        assert conflict.reason == (
            "what stood there was not kept: it was larger than history_bytes_max"
        )
        with pytest.raises(PathNotFound, match="larger than history_bytes_max"):
            await restore(fs, "sparse", (await history(fs, "sparse"))[-1].version)
        done = await fs.store.versions.undo(Undoing(request_id="rm-many"))
        assert "4 more places were changed" in done.plan.conflicts[0].reason
        kept = sum(path.stat().st_size for path in (tmp_path / "state").rglob("*"))
        assert kept < 10_000_000


async def test_a_huge_file_is_moved_and_dressed_without_being_read(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        with (tree / "sparse").open("wb") as file:
            file.truncate(4 << 40)
        agent = by(fs, "a", "run")
        await agent.set_mode("sparse", 0o600)
        await agent.move("sparse", "elsewhere")
        await agent.set_mode("elsewhere", 0o640)
        done = await fs.store.versions.undo(Undoing(request_id="run"))
        assert done.plan.conflicts == ()


def everything_named(tree):
    return sorted(os.listdir(tree))


async def test_special_files_and_links_go_and_are_said_not_to_be_kept(tmp_path):
    tree = tmp_path / "tree"
    (tmp_path / "secret").write_text("secret")
    async with opened(tmp_path) as fs:
        (tree / "d").mkdir()
        os.mkfifo(tree / "d/fifo")
        os.symlink("../../secret", tree / "d/out")
        (tree / "d/file").write_text("x")
        os.link(tree / "d/file", tree / "d/twin")
        await by(fs, "a", "rm").remove("d", recursive=True)
        done = await fs.store.versions.undo(Undoing(request_id="rm"))
        assert {each.path: each.reason for each in done.plan.conflicts} == {
            "d/fifo": "what stood there was not kept: it was neither file, directory nor link",
            "d/out": "what stood there was not kept: it was a link that leads outside",
        }
        assert everything(tree) == {"d": None, "d/file": b"x", "d/twin": b"x"}


async def test_what_another_has_just_changed_can_be_undone_and_looked_back_at(tmp_path):
    """Two stores on one directory, as two processes have them."""
    async with opened(tmp_path) as fs, opened(tmp_path) as other:
        await by(fs, "agent:run", "r1").write("a.txt", b"one")
        assert [each.size for each in await history(other, "a.txt")] == [3]
        await by(fs, "agent:run", "r2").write("a.txt", b"two, longer")
        undone = await by(other, "user:me", "u1").store.versions.undo(Undoing(request_id="r2"))
        assert undone.plan.conflicts == ()
        assert everything(tmp_path / "tree") == {"a.txt": b"one"}


@pytest.mark.spec("REVIEW-6")
async def test_a_look_at_one_place_does_not_go_through_all_changes(tmp_path):
    async with opened(tmp_path) as fs:
        for number in range(100):
            await fs.write(f"{number}", b"1")
            await fs.write(f"{number}", b"2")
        reader, asked = fs.store._core.ledger._reader, []
        await history(fs, "50")
        reader.trace_v2(apsw.SQLITE_TRACE_PROFILE, asked.append)
        newest, oldest = await history(fs, "50")
        for version, data in ((newest, b"2"), (oldest, b"1")):
            assert await (await past(fs, version.version)).read("50") == data
        reader.trace_v2(0)
        assert len(asked) > 10
        read = {
            each["sql"]: each["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"] for each in asked
        }
        assert [sql for sql, steps in read.items() if steps > 10] == []
