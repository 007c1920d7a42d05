"""Much that is brought back at once: it is made out of sight, and undone as a whole."""

import pytest

import bailiwick
from bailiwick.errors import IoError
from bailiwick.paths import ScopedPath
from bailiwick.verbs import moves
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
