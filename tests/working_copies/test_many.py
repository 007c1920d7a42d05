"""Much that is brought back at once: it is made out of sight, and undone as a whole."""

import pytest

import bailiwick
from bailiwick.errors import IoError
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import DiskStore
from bailiwick.verbs.working_copies import moves
from tests.working_copies.support import CopyByHand
from tests.working_copies.test_bringing_back import opened  # noqa: F401

MANY = 40


async def much(fs, copy):
    await fs.make_dir("there")
    await copy.make_dir("n", 0o750)
    await copy.make_dir("n/closed", 0o500)
    for number in range(MANY):
        await copy.write(f"n/f{number}", b"%d" % number, 0o755 if number % 2 else 0o600)
        await copy.write(f"n/closed/f{number}", b"", 0o400)
        await copy.write(f"there/f{number}", b"there")
    await copy.link("n/link", "f1")


@pytest.mark.spec("EXEC-7")
async def test_it_comes_as_it_was_left(opened):  # noqa: F811
    async with opened() as fs:
        copy = CopyByHand(fs)
        await much(fs, copy)
        result = await fs.with_request("r-1")._bring_back(copy, "atomic")
        assert not result.conflicts
        assert not result.withheld
        assert (await fs.stat("n")).mode & 0o777 == 0o750
        assert (await fs.stat("n/closed")).mode & 0o777 == 0o500
        assert (await fs.stat("n/f3")).mode & 0o777 == 0o755
        assert (await fs.stat("n/closed/f3")).mode & 0o777 == 0o400
        assert (await fs.read_bytes(f"n/f{MANY - 1}")).data == b"%d" % (MANY - 1)
        assert (await fs.read_bytes("there/f7")).data == b"there"
        assert await fs.readlink("n/link") == "f1"
        if "history" in fs.powers:
            await fs.undo("r-1")
            assert not await fs.exists("n")
            assert (await fs.list("there")).entries == []


@pytest.mark.spec("EXEC-8")
async def test_what_fails_in_the_end_undoes_all_of_it(opened):  # noqa: F811
    async with opened() as fs:
        await fs.write_text("z", "old\n")
        copy = CopyByHand(fs)
        await much(fs, copy)
        await copy.write("z", b"new\n")

        async def content(path, plain=copy.content):
            if path == "z":
                raise IoError("it cannot be read")
            async for chunk in plain(path):
                yield chunk

        copy.content = content
        with pytest.raises(IoError):
            await fs._bring_back(copy, "atomic")
        assert not await fs.exists("n")
        assert (await fs.list("there")).entries == []
        assert (await fs.read_text("z")).text == "old\n"


@pytest.mark.spec("EXEC-8")
async def test_what_others_put_there_at_the_last_moment_stays(opened):  # noqa: F811
    async with opened() as fs:
        copy = CopyByHand(fs)
        await much(fs, copy)
        once = iter([True])

        async def content(path, plain=copy.content):
            if path == "there/f5" and next(once, False):
                await fs.write_text("there/f39", "a person's\n")
            async for chunk in plain(path):
                yield chunk

        copy.content = content
        result = await fs._bring_back(copy, "atomic")
        assert [str(each.path) for each in result.conflicts] == ["there/f39"]
        assert not await fs.exists("n")
        assert [each.name for each in (await fs.list("there")).entries] == ["f39"]


async def old_and_new(fs, copy):
    """Much that goes, much that becomes another, and some that comes."""
    for number in range(MANY):
        await fs.write_bytes(f"d{number % 8}/f{number}", b"old %d" % number, parents=True)
        await fs.write_bytes(f"k/f{number}", b"old %d" % number, parents=True)
    for number in range(MANY):
        await copy.remove(f"d{number % 8}/f{number}")
        await copy.write(f"k/f{number}", b"new %d" % number, 0o600)
        await copy.write(f"k/n{number}", b"come")
    for number in range(8):
        await copy.remove(f"d{number}")


async def all_of(fs):
    found = (await fs.find(".")).matches
    return {
        str(each.path): (await fs.read_bytes(each.path)).data if each.type == "file" else None
        for each in found
    }


@pytest.mark.spec("EXEC-7", "EXEC-9")
async def test_what_goes_and_what_is_rewritten_is_changed_together(opened, monkeypatch):  # noqa: F811
    """Counted, not timed: a file by itself is neither removed nor written."""
    single = []
    for name in ("remove", "write_stream"):
        plain = getattr(DiskStore, name)

        def counted(store, entry, *rest, plain=plain, **how):
            single.append(entry.path)
            return plain(store, entry, *rest, **how)

        monkeypatch.setattr(DiskStore, name, counted)
    async with opened() as fs:
        copy = CopyByHand(fs)
        await old_and_new(fs, copy)
        before = await all_of(fs)
        single.clear()
        result = await fs.with_request("r-1")._bring_back(copy, "atomic")
        assert not result.conflicts
        assert not result.withheld
        assert single == []
        assert len(result.changes) == 3 * MANY + 8
        assert sorted(await all_of(fs)) == sorted(
            ["k", *(f"k/{kind}{number}" for kind in "fn" for number in range(MANY))]
        )
        assert (await fs.read_bytes("k/f3")).data == b"new 3"
        assert (await fs.stat("k/f3")).mode & 0o777 == 0o600
        if "history" in fs.powers:
            await fs.undo("r-1")
            assert await all_of(fs) == before


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("history", ["on", "off"])
@pytest.mark.parametrize("path", ["d3/f3", "k/f7", "d3/theirs"])
async def test_what_others_change_while_much_is_changed_stays(tmp_path, path, history):
    (tmp_path / "p").mkdir()
    state = str(tmp_path / "s")
    async with bailiwick.open(tmp_path / "p", state_dir=state, history=history) as fs:
        copy = CopyByHand(fs)
        await old_and_new(fs, copy)
        before = await all_of(fs)
        once = iter([True])

        async def content(asked, plain=copy.content):
            if asked == "k/n5" and next(once, False):
                await fs.write_text(path, "a person's\n")
            async for chunk in plain(asked):
                yield chunk

        copy.content = content
        result = await fs._bring_back(copy, "atomic")
        told = {str(each.path) for each in result.conflicts}
        assert told == {path if path != "d3/theirs" else "d3"}
        assert await all_of(fs) == {**before, path: b"a person's\n"}


@pytest.mark.spec("EXEC-8")
async def test_what_fails_after_much_was_changed_undoes_that_too(opened):  # noqa: F811
    async with opened() as fs:
        await fs.write_bytes("z", bytes(300_000))
        copy = CopyByHand(fs)
        await old_and_new(fs, copy)
        await copy.write("z", bytes(400_000))
        before = await all_of(fs)

        async def content(path, plain=copy.content):
            if path == "z":
                raise IoError("it cannot be read")
            async for chunk in plain(path):
                yield chunk

        copy.content = content
        with pytest.raises(IoError):
            await fs._bring_back(copy, "atomic")
        assert await all_of(fs) == before


@pytest.mark.spec("EXEC-7")
async def test_what_lies_beyond_a_link_is_changed_one_by_one(tmp_path):
    """A directory that others have moved, and linked to from where it was."""
    (tmp_path / "p" / "d").mkdir(parents=True)
    for number in range(MANY):
        (tmp_path / "p" / "d" / f"f{number}").write_text("old")
    async with bailiwick.open(tmp_path / "p", state_dir=str(tmp_path / "s")) as fs:
        copy = CopyByHand(fs)
        for number in range(MANY):
            await copy.remove(f"d/f{number}")
        await copy.write("n", b"new")
        (tmp_path / "p" / "d").rename(tmp_path / "p" / "e")
        (tmp_path / "p" / "d").symlink_to("e")
        result = await fs._bring_back(copy, "partial")
        assert (tmp_path / "p" / "n").read_text() == "new"
        gone = {str(each.path) for each in result.changes if each.kind == "deleted"}
        left = {f"d/{each.name}" for each in (tmp_path / "p" / "e").iterdir()}
        assert gone.isdisjoint(left)
        assert len(gone) + len(left) == MANY


@pytest.mark.spec("EXEC-7")
async def test_a_file_that_becomes_a_directory_and_back_with_much_else(opened):  # noqa: F811
    async with opened() as fs:
        await fs.write_text("a", "file\n")
        await fs.write_text("b/x", "in it\n", parents=True)
        copy = CopyByHand(fs)
        await old_and_new(fs, copy)
        await copy.make_dir("a", 0o500)
        await copy.write("a/y", b"in it")
        await copy.remove("b/x")
        await copy.write("b", b"file")
        result = await fs._bring_back(copy, "atomic")
        assert not result.conflicts
        assert (await fs.read_bytes("a/y")).data == b"in it"
        assert (await fs.stat("a")).mode & 0o777 == 0o500
        assert (await fs.read_bytes("b")).data == b"file"


@pytest.mark.spec("EXEC-9")
async def test_many_directories_that_were_renamed_are_looked_at_once_each(monkeypatch):
    """Counted, not timed: what is looked at grows as what was renamed does."""
    looked = 0
    plain = moves._Forest.beneath

    def beneath(self, top):
        nonlocal looked
        found = plain(self, top)
        looked += len(found)
        return found

    monkeypatch.setattr(moves._Forest, "beneath", beneath)
    async with bailiwick.open("memory:") as fs:
        copy = CopyByHand(fs)
        for number in range(MANY * 5):
            for name, text in (("a", b"same"), ("b", b"%d" % number)):
                await fs.write_bytes(f"d{number}/{name}", text, parents=True, file_mode=0o644)
            await fs.set_mode(f"d{number}", 0o755)
            for path in (f"d{number}/a", f"d{number}/b", f"d{number}"):
                await copy.remove(path)
            await copy.make_dir(f"e{number}")
            await copy.write(f"e{number}/a", b"same")
            await copy.write(f"e{number}/b", b"%d" % number)
        result = await fs._bring_back(copy, "atomic")
        assert {(str(each.origin), each.path) for each in result.changes} == {
            (f"d{number}", ScopedPath(f"e{number}")) for number in range(MANY * 5)
        }
        assert looked <= MANY * 5 * 2 * 6


@pytest.mark.spec("EXEC-7")
async def test_more_than_is_brought_back_stays_in_the_copy(tmp_path):
    (tmp_path / "p").mkdir()
    limits = bailiwick.Limits(exec_changes_bytes_max=100_000)
    async with bailiwick.open(tmp_path / "p", state_dir=str(tmp_path / "s"), limits=limits) as fs:
        script = "truncate -s 900M big; echo small > small"
        result = await fs.exec(shell=script, publish="partial").result()
        assert [(each.path, each.error_kind) for each in result.withheld] == [
            ("big", "unsupported")
        ]
        assert [str(each.path) for each in result.changes] == ["small"]
        assert result.work_id is not None
        async with await fs.open_work(result.work_id) as work:
            await work.discard()
        assert await fs.work() == []
