"""A request ends in time, however many waits it is made of, and nothing is changed afterwards."""

import asyncio

import pytest

from bailiwick.client import connect
from bailiwick.finishing import to_the_end
from bailiwick.fronts.http.access import deadlines
from bailiwick.scope import Scope
from tests.fronts.http.serving import check_error, serving
from tests.fronts.http.test_lost_answers import volume
from tests.waiting import for_ever, give_a_chance

pytestmark = pytest.mark.spec("SCALE-6")

BODY = {"path": "f", "content": "x"}


@pytest.fixture(params=["sqlite", "postgres"])
def place(tmp_path, request):
    return volume(tmp_path, request)


def in_time(patched, verb, instead):
    """From here on a verb is something else, and whoever asks for it has half a second."""
    patched.setattr(Scope, verb, instead)
    patched.setattr(deadlines, "LOOK_SECONDS", 0.02)
    patched.setattr(deadlines, "seconds_of", lambda request: 0.5)


async def stuck(*given, **more):
    await for_ever()


async def test_a_read_that_does_not_end_is_busy(tmp_path, monkeypatch):
    async with serving(tmp_path) as house:
        client = house.client()
        with monkeypatch.context() as patched:
            in_time(patched, "read_text", stuck)
            told = await client.get("/file?path=f")
            check_error(told.status_code, told.json(), "busy")
            assert told.json()["details"] == {"limit": 0.5}
        assert (await client.post("/file/write", json=BODY)).status_code == 201
        assert (await client.get("/file?path=f")).json()["content"] == "x"


async def test_a_change_that_does_not_end_is_not_known_and_asked_for_again(
    place, tmp_path, monkeypatch
):
    appended = Scope.append

    async def and_stuck(*given, **more):
        await appended(*given, **more)
        await for_ever()

    async with serving(tmp_path, place=place) as house:
        client = house.client()
        await client.post("/file/write", json={"path": "f", "content": ""})
        for number, never_ends in enumerate((stuck, and_stuck)):
            key = {"idempotency-key": str(number)}
            with monkeypatch.context() as patched:
                in_time(patched, "append", never_ends)
                told = await client.post("/file/append", json=BODY, headers=key)
                check_error(told.status_code, told.json(), "io_error")
                assert told.json()["details"] == {"limit": 0.5, "unanswered": True}
            again = await client.post("/file/append", json=BODY, headers=key)
            assert again.status_code == 200, again.text
        assert (await client.get("/file?path=f")).json()["content"] == "xx"


async def test_what_has_been_begun_is_finished_and_answered(tmp_path, monkeypatch):
    """What must not be stopped half-way is not: its answer comes late, and is the true one."""
    appended, goes_on, ended = Scope.append, asyncio.Event(), asyncio.Event()

    async def held(*given, **more):
        async def whole():
            await goes_on.wait()
            return await appended(*given, **more)

        try:
            return await to_the_end(whole())
        finally:
            ended.set()

    async with serving(tmp_path) as house:
        client = house.client()
        await client.post("/file/write", json={"path": "f", "content": ""})
        in_time(monkeypatch, "append", held)
        asking = asyncio.ensure_future(client.post("/file/append", json=BODY))
        await give_a_chance(1.0)
        assert not asking.done()
        goes_on.set()
        told = await asking
        assert ended.is_set()
        assert told.status_code == 200, told.text
        monkeypatch.undo()
        for _ in range(2):  # and what comes next on the connection is not cancelled for it
            assert (await client.get("/file?path=f")).json()["content"] == "x"


async def test_the_client_asks_again_by_itself(place, tmp_path, monkeypatch):
    appended, calls = Scope.append, []

    async def and_stuck(*given, **more):
        result = await appended(*given, **more)
        calls.append(result)
        await for_ever()

    async with serving(tmp_path, place=place) as house:
        async with connect(house.url, token=house.token) as fs:
            await fs.write_text("f", "")
            in_time(monkeypatch, "append", and_stuck)
            made = await fs.append("f", "x")
            monkeypatch.undo()
            assert (await fs.read_text("f")).text == "x"
        assert [each.version for each in calls] == [made.version]
