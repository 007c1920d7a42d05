"""What happened to a directory: everything beneath it, newest first, page by page."""

import contextlib

import pytest

import bailiwick

pytestmark = pytest.mark.spec("PAST-3")


@pytest.fixture(params=["directory", "volume"])
def opening(request, tmp_path):
    (tmp_path / "tree").mkdir()

    def opened():
        if request.param == "volume":
            return bailiwick.open(f"sqlite:{tmp_path}/v.db")
        return bailiwick.open(tmp_path / "tree", history="on", state_dir=str(tmp_path / "state"))

    return opened


def told(found):
    return [(each.kind, str(each.path)) for each in found.versions]


async def all_pages(fs, path, limit):
    pages, cursor = [], None
    while True:
        found = await fs.history(path, limit=limit, cursor=cursor)
        assert found.truncated == (found.next_cursor is not None)
        pages.append(found.versions)
        cursor = found.next_cursor
        if cursor is None:
            return pages


async def test_everything_beneath_is_told_newest_first(opening):
    async with opening() as fs:
        await fs.write_text("a", "one")
        made = await fs.write_text("d/x/b", "two", parents=True)
        await fs.write_text("a", "three")
        await fs.move("a", "d/a")
        await fs.remove("d/x/b")
        everything = await fs.history(".")
        assert told(everything) == [
            ("deleted", "d/x/b"), ("moved", "d/a"), ("updated", "a"),
            *told(everything)[3:6], ("created", "a"),
        ]  # fmt: skip
        assert sorted(told(everything)[3:6]) == [
            ("created", "d"), ("created", "d/x"), ("created", "d/x/b"),
        ]  # fmt: skip
        written = next(each for each in everything.versions if each.path == "d/x/b" and each.size)
        assert (written.sha256, written.request_id) == (made.sha256, made.request_id)
        assert written.subject == "user:local"
        assert told(await fs.history("d/x"))[0] == ("deleted", "d/x/b")
        assert ("moved", "d/a") in told(await fs.history("d"))
        # A file has the versions that it always had.
        assert [each.path for each in (await fs.history("d/a")).versions] == ["d/a", "a", "a"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_leave_nothing_out_and_tell_nothing_twice(opening, limit):
    async with opening() as fs:
        for number in range(9):
            await fs.write_text(f"d{number % 2}/e/f{number}", str(number), parents=True)
        await fs.move("d0", "d1/d0")
        whole = (await fs.history(".")).versions
        pages = await all_pages(fs, ".", limit)
        assert [each for page in pages for each in page] == whole
        assert all(len(page) <= limit for page in pages)
        numbers = [int(each.version) for each in whole]
        assert numbers == sorted(numbers, reverse=True)


async def test_an_empty_directory_has_nothing_to_tell(opening):
    async with opening() as fs:
        assert (await fs.history(".")).versions == []
        with pytest.raises(bailiwick.PathNotFound):
            await fs.history("nothing")
        with pytest.raises(bailiwick.ParseError):
            await fs.history(".", cursor="nonsense")


async def test_what_may_not_be_seen_is_not_told(opening):
    async with opening() as fs:
        await fs.write_text("open", "1")
        await fs.write_text("closed/secret", "2", parents=True)
        await fs.write_text(".env", "3")
        agent = await fs.delegate(bailiwick.AgentRun("a", "b"), denied=["closed/**"])
        async with contextlib.aclosing(agent):
            seen = {str(each.path) for each in (await agent.history(".")).versions}
        assert seen <= {"open", "closed"}
        assert "open" in seen


async def test_a_fork_tells_what_was_before_it(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text("a", "1")
        fork = await fs.fork("try")
        async with contextlib.aclosing(fork):
            await fs.write_text("b", "main only")
            await fork.write_text("c", "fork only")
            assert told(await fork.history(".")) == [("created", "c"), ("created", "a")]
        assert told(await fs.history(".")) == [("created", "b"), ("created", "a")]


@pytest.mark.spec("VOL-5", "DISK-8")
async def test_what_somebody_did_since_a_time_is_taken_back(opening):
    async with opening() as fs:
        agent = await fs.delegate(bailiwick.AgentRun("a", "b"))
        async with contextlib.aclosing(agent):
            await agent.write_text("old", "agent")
            await fs.write_text("mine", "person")
            [before] = (await fs.history("mine")).versions
            await agent.write_text("new", "agent")
            await agent.write_text("old", "agent again")
            seen = await fs.undo(subject="agent_run:a/b", since_ns=before.time_ns, preview=True)
            assert sorted(seen.undone) == ["new", "old"]
            done = await fs.undo(subject="agent_run:a/b", since_ns=before.time_ns)
            assert (done.undone, done.conflicts) == (seen.undone, [])
            assert (await fs.read_text("old")).text == "agent"
            assert (await fs.read_text("mine")).text == "person"
            assert not await fs.exists("new")
            await fs.undo(done.request_id)
            assert (await fs.read_text("old")).text == "agent again"
            for wrong in ({"request_id": "x"}, {"version": "2"}, {}):
                with pytest.raises(bailiwick.ParseError):
                    await fs.undo(**wrong, since_ns=1)
            with pytest.raises(bailiwick.PathNotFound):
                await fs.undo(subject="agent_run:a/b", since_ns=2**62)
