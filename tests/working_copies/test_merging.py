"""What a program and others have made of one text is joined where that is asked for."""

import pytest

import bailiwick
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.waiting import until
from tests.working_copies.support import CopyByHand
from tests.working_copies.test_bringing_back import opened

__all__ = ["opened"]

TEXT = "one\ntwo\nthree\nfour\nfive\n"
LONG = "".join(f"line {number}\n" for number in range(40))


@pytest.fixture
def needs_bubblewrap():
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")


@pytest.mark.spec("EXEC-8")
async def test_lines_that_lie_apart_are_joined(opened):
    async with opened() as fs:
        await fs.write_text("a", TEXT)
        copy = CopyByHand(fs)
        await copy.write("a", TEXT.replace("one", "ONE").encode(), 0o755)
        await fs.write_text("a", TEXT.replace("five", "FIVE"))
        assert [each.path for each in (await fs._bring_back(copy, "partial")).conflicts] == ["a"]
        result = await fs.with_request("r-1")._bring_back(copy, "atomic", merge=True)
        assert not result.conflicts
        assert [(each.path, each.kind) for each in result.changes] == [("a", "updated")]
        assert (await fs.read_text("a")).text == "ONE\ntwo\nthree\nfour\nFIVE\n"
        assert (await fs.stat("a")).mode & 0o777 == 0o755
        assert copy.altered == {}
        if "history" in fs.powers:
            await fs.undo("r-1")
            assert (await fs.read_text("a")).text == TEXT.replace("five", "FIVE")


@pytest.mark.spec("EXEC-8")
async def test_lines_that_overlap_stay_a_conflict_and_nothing_is_written(opened):
    async with opened() as fs:
        for name in ("a", "b"):
            await fs.write_text(name, TEXT)
        copy = CopyByHand(fs)
        for name in ("a", "b"):
            await copy.write(name, TEXT.replace("one", "ONE").encode())
        await fs.write_text("a", TEXT.replace("one", "eins"))
        result = await fs._bring_back(copy, "atomic", merge=True)
        assert [each.path for each in result.conflicts] == ["a"]
        assert "joined" in result.conflicts[0].reason
        assert result.changes == []
        assert (await fs.read_text("a")).text == TEXT.replace("one", "eins")
        assert (await fs.read_text("b")).text == TEXT
        assert copy.contents["a"] == TEXT.replace("one", "ONE").encode()


@pytest.mark.spec("EXEC-8")
async def test_what_is_binary_or_has_no_base_is_not_joined(opened):
    async with opened() as fs:
        await fs.write_bytes("binary", b"one\n\0\nthree\nfour\n")
        await fs.write_text("unknown", TEXT)
        copy = CopyByHand(fs)
        await copy.write("binary", b"ONE\n\0\nthree\nfour\n")
        await copy.write("unknown", TEXT.replace("one", "ONE").encode())
        await copy.write("new", b"ours\n")
        copy.bases.pop("unknown")
        await fs.write_bytes("binary", b"one\n\0\nthree\nFOUR\n")
        await fs.write_text("unknown", TEXT.replace("five", "FIVE"))
        await fs.write_text("new", "theirs\n")
        result = await fs._bring_back(copy, "partial", merge=True)
        assert {each.path for each in result.conflicts} == {"binary", "unknown", "new"}
        assert result.changes == []


@pytest.mark.spec("EXEC-8")
async def test_single_hunks_are_brought_back_and_given_up(opened):
    async with opened() as fs:
        await fs.write_text("a", LONG)
        copy = CopyByHand(fs)
        changed = LONG.replace("line 3\n", "3\n").replace("line 20\n", "20\n")
        changed = changed.replace("line 35\n", "35\n")
        await copy.write("a", changed.encode(), 0o600)
        result = await fs._bring_back(copy, "atomic", (), hunks={"a": [2]})
        assert [each.path for each in result.changes] == ["a"]
        assert (await fs.read_text("a")).text == LONG.replace("line 20\n", "20\n")
        assert list(copy.altered) == ["a"]
        wanted = fs._asked("partial", (), {"a": [1]})
        assert await fs._give_up(copy, wanted) == ["a"]
        assert copy.contents["a"].decode() == changed.replace("3\n", "line 3\n", 1)
        result = await fs._bring_back(copy, "atomic", (), hunks={"a": [1]})
        assert not result.conflicts
        assert copy.altered == {}
        assert (await fs.read_text("a")).text == changed.replace("3\n", "line 3\n", 1)
        with pytest.raises(bailiwick.ParseError):
            fs._asked("partial", None, {"a": [True]})


async def test_a_hunk_that_there_is_not(opened):
    async with opened() as fs:
        await fs.write_text("a", TEXT)
        copy = CopyByHand(fs)
        await copy.write("a", TEXT.replace("one", "ONE").encode())
        with pytest.raises(bailiwick.ParseError, match="no such hunk"):
            await fs._bring_back(copy, "atomic", hunks={"a": [2]})


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("meanwhile", [True, False])
async def test_what_a_command_and_a_person_have_changed(tmp_path, needs_bubblewrap, meanwhile):
    """The person writes while the command runs, or when it has ended."""
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    place = root / "a"
    place.write_text(TEXT)
    async with bailiwick.open(root, state_dir=str(state)) as fs:
        words = ["sh", "-c", "sed -i s/one/ONE/ a && read line"]
        execution = await fs.exec(words, stdin="pipe", publish="manual")
        if meanwhile:
            await until(lambda: list(state.rglob("bases.pack")))
            place.write_text(TEXT.replace("five", "FIVE"))
        await execution.write(b"\n")
        result = await execution.result()
        if not meanwhile:
            async with await fs.open_work(result.work_id) as work:
                await work.changes()
            place.write_text(TEXT.replace("five", "FIVE"))
        async with await fs.open_work(result.work_id) as work:
            assert [each.path for each in (await work.changes()).conflicts] == ["a"]
            assert "ONE" in (await work.diff("a")).text
            assert not (await work.apply(merge=True)).conflicts
        assert place.read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
        assert await fs.work() == []


@pytest.mark.spec("EXEC-8")
async def test_hunks_of_what_a_command_left(tmp_path, needs_bubblewrap):
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").write_text(LONG)
    async with bailiwick.open(root, state_dir=str(tmp_path / "state")) as fs:
        shell = "sed -i 's/^line 3$/3/; s/^line 20$/20/; s/^line 35$/35/' a"
        result = await fs.exec(shell=shell, publish="manual").result()
        async with await fs.open_work(result.work_id) as work:
            await work.apply(hunks={"a": [1]})
            assert await work.discard(hunks={"a": [2]}) == ["a"]
            assert (await work.diff("a")).text.count("@@ ") == 1
        assert (root / "a").read_text() == LONG.replace("line 3\n", "3\n")
        async with await fs.open_work(result.work_id) as work:
            await work.apply()
        assert (root / "a").read_text().count("line") == 38


@pytest.mark.spec("EXEC-9")
async def test_a_directory_with_another_name_and_something_else_in_its_place(
    tmp_path, needs_bubblewrap
):
    root = tmp_path / "root"
    (root / "d" / "inner").mkdir(parents=True)
    (root / "d" / "inner" / "a").write_text("as it was\n")
    async with bailiwick.open(root, state_dir=str(tmp_path / "state")) as fs:
        result = await fs.exec(shell="mv d e; echo new > d").result()
        assert not result.withheld
    assert (root / "e" / "inner" / "a").read_text() == "as it was\n"
    assert (root / "d").read_text() == "new\n"
