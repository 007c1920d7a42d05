"""Single stages of the pipeline, each where nothing after it would notice that it is missing."""

import asyncio

import pytest

import bailiwick
from bailiwick import operations
from bailiwick.call import Target
from bailiwick.limits import Limits
from tests import clocks
from tests.authority.support import governed
from tests.scope.support import granted, records
from tests.waiting import loop_turns


def places(tmp_path):
    """A directory to open, and one for what is kept of it."""
    found = tmp_path / "tree", tmp_path / "state"
    for place in found:
        place.mkdir()
    return found


# --- whether it may still go on -------------------------------------------------------------------


@pytest.mark.spec("LIFE-2")
async def test_nothing_is_begun_any_more_while_closing_waits():
    async with bailiwick.open("memory:") as fs:
        store, reached, go_on = fs._pipeline.store, asyncio.Event(), asyncio.Event()
        resolve = store.resolve

        async def slow(*what, **how):
            store.resolve = resolve
            reached.set()
            await go_on.wait()
            return await resolve(*what, **how)

        store.resolve = slow
        under_way = asyncio.create_task(fs.write_text("f", "x"))
        await reached.wait()
        closing = asyncio.create_task(fs.aclose())
        await loop_turns(5)
        with pytest.raises(bailiwick.Closed):
            await fs.list()
        go_on.set()
        await closing
        assert (await under_way).created


@pytest.mark.spec("LIFE-2")
async def test_a_stream_ends_with_its_own_scope(tmp_path):
    """The root stays open for others."""
    async with governed(tmp_path) as house:
        await house.plant({"f": b"x" * 2 * Limits().stream_chunk_bytes})
        fs, other = await house.scope(), await house.scope()
        chunks = [scope.stream("f") for scope in (fs, other)]
        for each in chunks:
            await anext(each)
        await fs.aclose()
        with pytest.raises(bailiwick.Closed):
            await anext(chunks[0])
        await anext(chunks[1])
        await chunks[1].aclose()
        assert [each.error_kind for each in await house.operations()] == ["closed", None]


@pytest.mark.spec("AUTH-5", "WRITE-3")
async def test_an_upload_whose_grant_ends_meanwhile_is_refused(monkeypatch):
    clock = clocks.put_in_place(monkeypatch)
    async with bailiwick.open("memory:") as fs:
        brief = granted(fs, expires_at=clock.time_ns() / 1e9 + 3600)

        async def slow():
            yield b"x"
            clock.advance(3601)

        with pytest.raises(bailiwick.GrantExpired):
            await brief.write_stream("f", slow())
        assert await fs.exists("f") is False


@pytest.mark.spec("PATH-5")
async def test_a_name_that_stands_there_is_not_a_new_one(tmp_path):
    tree, state = places(tmp_path)
    (tree / "a\tb").write_text("x")
    async with bailiwick.open(str(tree), state_dir=str(state)) as fs:
        assert (await fs.read_text("a\tb")).text == "x"
        assert not (await fs.write_text("a\tb", "y")).created
        with pytest.raises(bailiwick.ParseError):
            await fs.write_text("c\td", "y")


@pytest.mark.spec("AUDIT-1", "LINE-5")
async def test_what_fails_while_a_call_lets_go_is_what_it_failed_of():
    def fails():
        raise bailiwick.IoError("broken")

    async def prepare(call):
        call.hold().callback(fails)
        raise bailiwick.PathNotFound("nothing there")

    async with bailiwick.open("memory:") as fs:
        with pytest.raises(bailiwick.IoError):
            await fs._run(operations.READ, "planted", Target(".", "object"), prepare)
        assert records(fs)[-1].error_kind == "io_error"


# --- what is being changed ------------------------------------------------------------------------


def begun_in_flight(fs):
    """The places that are said to be changed from here on; what is noticed there is ours."""
    in_flight, begun = fs._pipeline.changes.in_flight, []
    begin = in_flight.begin

    def noted(path, *, parents=False):
        begun.append(path)
        begin(path, parents=parents)

    in_flight.begin = noted
    return begun


@pytest.mark.spec("EVENT-2")
@pytest.mark.parametrize("followed", [False, True])
async def test_what_is_being_changed_is_known_until_it_is_told(followed):
    """What is only read, and what nobody follows, is left to whoever notices it."""
    async with bailiwick.open("memory:") as fs:
        await fs.write_text("f", "x")
        if followed:
            fs._pipeline.changes.subscribe(lambda change: None)
        begun = begun_in_flight(fs)
        await fs.read_text("f")
        await fs.move("f", "moved")
        assert begun == (["f", "moved"] if followed else [])
        assert not any(fs._pipeline.changes.in_flight.covers(path) for path in begun)


@pytest.mark.spec("EVENT-2")
async def test_all_that_is_put_back_at_once_is_being_changed(tmp_path):
    tree, state = places(tmp_path)
    options = {"history": "on", "durability": "rename", "state_dir": str(state)}
    async with bailiwick.open(str(tree), **options) as fs:
        written = fs.with_request("mine")
        await written.write_text("a", "x")
        await written.write_text("b", "x")
        fs._pipeline.changes.subscribe(lambda change: None)
        begun = begun_in_flight(fs)
        await fs.undo("mine")
        assert {"a", "b"} <= set(begun)
        assert not any(fs._pipeline.changes.in_flight.covers(path) for path in begun)
