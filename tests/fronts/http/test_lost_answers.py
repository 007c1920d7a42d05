"""An answer that was lost is made again from what was changed; what was not done is done now."""

import asyncio
import contextlib
import hashlib

import httpx
import pytest

from bailiwick.errors import Busy, IoError
from bailiwick.scope import Scope
from bailiwick.scope.versions import Lease
from bailiwick.state.idempotency import IdempotencyBook
from tests.fronts.http.serving import PERSON, check_error, serving
from tests.fronts.http.test_idempotency import change
from tests.postgres_proxy import PostgresProxy

pytestmark = pytest.mark.spec("SCALE-3", "HTTP-11")

KEY = {"idempotency-key": "one"}
DEAD = "status = NULL, headers = NULL, body = NULL, bytes = 0, owner = '0123456789abcdef'"
"""What a server leaves that dies between a change and its answer."""
TEXT = "one\ntwo\nthree\n"
PLANTED = f"sha256:{hashlib.sha256(b'planted').hexdigest()}"

CALLS = {
    "write": ("/file/write", {"path": "new/deep.txt", "content": TEXT, "parents": True}),
    "overwrite": ("/file/write", {"path": "d/f", "content": "other\r\n", "mode": "overwrite"}),
    "large": ("/file/write", {"path": "d/f", "content": "line\n" * 30_000}),
    "edit": ("/file/edit", {"path": "d/f", "oldText": "two", "newText": "2"}),
    "edits": (
        "/file/edit",
        {
            "path": "d/f",
            "edits": [{"oldText": "one", "newText": "1"}, {"oldText": "three", "newText": "3"}],
        },
    ),
    "append": ("/file/append", {"path": "d/f", "content": "x"}),
    "truncate": ("/file/truncate", {"path": "d/f", "size": 3}),
    "dir": ("/dir", {"path": "a/b/c", "parents": True}),
    "move": ("/move", {"path": "d", "destination": "moved"}),
    "move over": ("/move", {"path": "d/f", "destination": "g", "replace": True}),
    "remove": ("/remove", {"path": "d/f"}),
    "remove all": ("/remove", {"path": "d", "recursive": True}),
    "symlink": ("/symlink", {"path": "link", "target": "d/f"}),
    "mode": ("/mode", {"path": "d/f", "fileMode": "0600"}),
    "times": ("/times", {"path": "d/f", "modifiedNs": 1_000_000_000}),
    "copy": ("/copy", {"path": "d/f", "destination": "copied"}),
    "copy over": ("/copy", {"path": "d/f", "destination": "g", "expectedDestinationHash": PLANTED}),
    "copy all": ("/copy", {"path": "d", "destination": "copied", "recursive": True}),
    "restore": ("/restore", {"path": "g", "version": "before"}),
    "undo": ("/undo", {"requestId": "planted"}),
    "merge": ("/merge", {"name": "line"}),
    "batch": (
        "/batch",
        {
            "operations": [
                {"op": "write", "path": "d/f", "content": "1"},
                {"op": "append", "path": "d/f", "content": "2"},
                {"op": "move", "path": "d/in", "destination": "out"},
                {"op": "remove", "path": "g"},
            ]
        },
    ),
}  # fmt: skip

VERBS = {
    "/file/write": "write_text", "/dir": "make_dir", "/mode": "set_mode", "/times": "set_times",
    "/batch": "_commit",
}  # fmt: skip
"""Where it is not the last word of the route."""


def volume(tmp_path, request):
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/v.db"
    dsn = request.getfixturevalue("postgres").dsn
    name = "v" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]
    return f"{dsn}?volume={name}&blobs={tmp_path}/blobs"


@pytest.fixture(params=["sqlite", "postgres"])
def place(tmp_path, request):
    return volume(tmp_path, request)


async def planted(house):
    client = house.client()
    for path, content in (("d/f", TEXT), ("d/in/g", "g"), ("g", "g")):
        body = {"path": path, "content": content, "parents": True}
        assert (await client.post("/file/write", json=body)).status_code == 201
    # Something to go back to, and on a line beside something to be merged.
    assert (await client.post("/snapshot", json={"name": "before"})).status_code == 201
    assert (await client.post("/fork", json={"name": "line"})).status_code == 201
    body = {"path": "of the line", "content": "x"}
    assert (await client.post("/file/write?fork=line", json=body)).status_code == 201
    body, named = {"path": "g", "content": "planted"}, {"x-request-id": "planted"}
    assert (await client.post("/file/write", json=body, headers=named)).status_code == 200
    return client


async def tree(client):
    """All that can be seen, and how often it was changed."""
    found = (await client.get("/glob?pattern=**")).json()["matches"]
    versions = (await client.get("/history?path=.")).json()["versions"]
    return found, len(versions)


@pytest.mark.parametrize("call", CALLS)
async def test_it_is_answered_as_it_was(place, tmp_path, call, monkeypatch):
    route, body = CALLS[call]

    async def lost(*given):
        """The server dies before it has kept it."""

    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        with monkeypatch.context() as patched:
            patched.setattr(IdempotencyBook, "keep", lost)
            first = await client.post(route, json=body, headers={**KEY, "x-request-id": "r"})
        assert first.status_code < 300, first.text
        stands = await tree(client)
        again = await client.post(route, json=body, headers={**KEY, "x-request-id": "r"})
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers.get("etag") == first.headers.get("etag")
        assert again.headers["idempotency-replayed"] == "true"
        assert await tree(client) == stands
        # It is kept from now on, also when something else stands there.
        await client.post("/remove", json={"path": "d", "recursive": True})
        last = await client.post(route, json=body, headers={**KEY, "x-request-id": "r"})
        assert last.content == again.content


@pytest.mark.parametrize("call", CALLS)
async def test_what_was_not_done_is_done_now(place, tmp_path, call, monkeypatch):
    """The first died before it did anything."""
    route, body = CALLS[call]
    verb = VERBS.get(route, route.rpartition("/")[2])

    async def lost(*given, **more):
        raise IoError("the database cannot be reached")

    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        with monkeypatch.context() as patched:
            patched.setattr(Scope, verb, lost)
            failed = await client.post(route, json=body, headers=KEY)
            check_error(failed.status_code, failed.json(), "io_error")
        before = await tree(client)
        done = await client.post(route, json=body, headers=KEY)
        assert done.status_code < 300, done.text
        assert "idempotency-replayed" not in done.headers
        assert await tree(client) != before
        assert (await client.post(route, json=body, headers=KEY)).content == done.content


@pytest.mark.parametrize("failure", [IoError, Busy])
async def test_what_was_done_and_failed_to_be_told_is_known(place, tmp_path, monkeypatch, failure):
    appended = Scope.append

    async def and_lost(*given, **more):
        await appended(*given, **more)
        raise failure("the database does not answer")

    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        body = {"path": "d/f", "content": "x"}
        with monkeypatch.context() as patched:
            patched.setattr(Scope, "append", and_lost)
            got = await client.post("/file/append", json=body, headers=KEY)
            assert got.status_code >= 500
        again = await client.post("/file/append", json=body, headers=KEY)
        assert again.status_code == 200, again.text
        read = await client.get("/file?path=d/f")
        assert read.json()["content"] == TEXT + "x"


async def test_of_several_who_ask_again_one_goes_on(place, tmp_path):
    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        body = {"path": "d/f", "content": "x"}
        await client.post("/file/append", json=body, headers=KEY)
        change(house, DEAD)
        told = await asyncio.gather(
            *(client.post("/file/append", json=body, headers=KEY) for _ in range(6))
        )
        assert {each.status_code for each in told} <= {200, 503}
        assert 200 in {each.status_code for each in told}
        assert (await client.get("/file?path=d/f")).json()["content"] == TEXT + "x"


async def test_it_is_told_only_to_who_may_still_ask(place, tmp_path):
    async with serving(tmp_path, place=place) as house:
        await planted(house)
        agent = await house.agent("read", "write")
        edit = {"path": "d/f", "oldText": "two", "newText": "2"}
        assert (await agent.post("/file/edit", json=edit, headers=KEY)).status_code == 200
        change(house, DEAD)
        for grant in house.authority.grants():
            await house.authority.revoke(grant.id, by=PERSON, front="test")
        again = await agent.post("/file/edit", json=edit, headers=KEY)
        assert again.status_code == 403
        assert "two" not in again.text


async def test_who_may_not_read_is_not_told_what_stands_there(place, tmp_path):
    async with serving(tmp_path, place=place) as house:
        await planted(house)
        agent = await house.agent("write")
        body = {"path": "d/f", "content": "x"}
        first = await agent.post("/file/append", json=body, headers={**KEY, "x-request-id": "r"})
        assert first.json().get("sha256") is None, first.text
        change(house, DEAD)
        again = await agent.post("/file/append", json=body, headers={**KEY, "x-request-id": "r"})
        assert again.json() == first.json()


async def test_a_key_may_be_used_again_when_its_time_is_up(place, tmp_path, clock):
    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        body = {"path": "d/f", "content": "x"}
        for _ in range(2):
            assert (await client.post("/file/append", json=body, headers=KEY)).status_code == 200
            clock.advance(25 * 3600)
        assert (await client.get("/file?path=d/f")).json()["content"] == TEXT + "xx"


async def test_where_the_answer_cannot_be_told_it_is_said_that_it_was_done(place, tmp_path):
    """What came out of an archive is known to who took it out, and to nobody since."""
    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        pack = {"paths": ["d"], "destination": "d.zip"}
        for route, body in (
            ("/archive/create", pack), ("/archive/extract", {"path": "d.zip", "destination": "e"}),
        ):  # fmt: skip
            key = {"idempotency-key": route}
            first = await client.post(route, json=body, headers=key)
            assert first.status_code < 300, first.text
            stands = await tree(client)
            change(house, DEAD)
            again = await client.post(route, json=body, headers=key)
            check_error(again.status_code, again.json(), "internal_error")
            assert again.json()["details"] == {"done": True}
            assert await tree(client) == stands


APART = {
    "snapshot": ("POST", "/snapshot", {"name": "kept"}),
    "delete a snapshot": ("DELETE", "/snapshots/before", None),
    "fork": ("POST", "/fork", {"name": "tried"}),
    "delete a fork": ("DELETE", "/forks/line", None),
    "lock": ("POST", "/lock", {"path": "d", "ttl": 60}),
    "a file from another root": (
        "POST", "/copy",
        {"path": "d/f", "destination": "n/e/w", "parents": True, "fromRoot": "workspace:demo"},
    ),
    "a tree from another root": (
        "POST", "/copy",
        {"path": "d", "destination": "e", "recursive": True, "fromRoot": "workspace:demo"},
    ),
    "one by one": (
        "POST", "/batch",
        {"atomic": False, "operations": [
            {"op": "append", "path": "d/f", "content": "x"},
            {"op": "edit", "path": "d/f", "oldText": "two", "newText": "two two"},
            {"op": "move", "path": "d/in", "destination": "out"},
        ]},
    ),
}  # fmt: skip
"""What is no version of its own, or was many."""


@pytest.mark.parametrize("call", APART)
async def test_what_was_made_apart_is_answered_as_it_was(place, tmp_path, call):
    method, route, body = APART[call]
    async with serving(tmp_path, place=place) as house:
        client = await planted(house)

        async def ask():
            told = await client.request(
                method, route, json=body, headers={**KEY, "x-request-id": "r"}
            )
            assert told.status_code < 300, told.text
            return told.status_code, told.json(), await tree(client)

        first = await ask()
        change(house, DEAD)
        assert await ask() == first
        assert await ask() == first  # it is kept from now on


async def test_a_lock_is_renewed_and_given_back_by_who_lost_the_answer(place, tmp_path):
    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        lock = (await client.post("/lock", json={"path": "d", "ttl": 60})).json()["id"]
        for what, body in (("renew", {"ttl": 60}), ("release", None)):
            for key in ({"idempotency-key": what}, {**KEY, "idempotency-try": "2"}):
                for _ in range(2):
                    told = await client.post(f"/lock/{lock}/{what}", json=body, headers=key)
                    assert told.status_code == 200, told.text
                    change(house, DEAD)
        assert told.json()["held"] is False  # it was given back by the first


async def test_what_may_be_done_again_is_where_the_database_failed(place, tmp_path, monkeypatch):
    """Nothing is kept of the failure: a lock that could not be given back is."""

    async def lost(*given):
        raise IoError("the database cannot be reached")

    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        lock = (await client.post("/lock", json={"path": "d", "ttl": 60})).json()["id"]
        with monkeypatch.context() as patched:
            patched.setattr(Lease, "release", lost)
            failed = await client.post(f"/lock/{lock}/release", headers=KEY)
            check_error(failed.status_code, failed.json(), "io_error")
        told = await client.post(f"/lock/{lock}/release", headers=KEY)
        assert (told.status_code, told.json()["held"]) == (200, True)


async def test_a_batch_that_a_server_ended_in_goes_on_where_it_was(place, tmp_path, monkeypatch):
    """What failed before that is not done after what was to follow it."""
    operations = [
        {"op": "append", "path": "d/f", "content": "x"},
        {"op": "write", "path": "g", "content": "not done", "mode": "create"},
        {"op": "remove", "path": "g"},
        {"op": "write", "path": "last", "content": "x", "mode": "create"},
    ]
    removed = Scope.remove

    class Ended(BaseException):
        pass

    async def and_ends(*given, **more):
        await removed(*given, **more)
        raise Ended

    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        body = {"operations": operations, "atomic": False}
        with monkeypatch.context() as patched:
            patched.setattr(Scope, "remove", and_ends)
            with contextlib.suppress(httpx.HTTPError, Ended):
                await client.post("/batch", json=body, headers=KEY)
        told = await client.post("/batch", json=body, headers=KEY)
        assert told.status_code == 200, told.text
        results = told.json()["results"]
        assert [each["ok"] for each in results] == [True, False, True, True]
        assert results[1]["error"]["details"] == {"done": False}
        found = {each for each in (await tree(client))[0] if "/" not in each}
        assert found == {"d", "last"}
        assert (await client.get("/file?path=d/f")).json()["content"] == TEXT + "x"
        assert (await client.post("/batch", json=body, headers=KEY)).json() == told.json()


async def test_of_two_who_copy_to_one_place_one_is_told_that_it_is_taken(place, tmp_path):
    """What comes from another root appears at once."""
    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        body = {"path": "d", "destination": "e", "recursive": True, "fromRoot": "workspace:demo"}
        told = await asyncio.gather(*(client.post("/copy", json=body) for _ in range(3)))
        assert sorted(each.status_code for each in told) == [200, 409, 409]
        assert set((await tree(client))[0]) >= {"e/f", "e/in/g"}


async def test_the_key_of_another_opens_nothing(place, tmp_path):
    """Not under another grant, nor for another subject; the control is that its own caller is
    answered."""
    body = {"path": "d/f", "content": "x"}
    async with serving(tmp_path, place=place) as house:
        client = await planted(house)
        agent = await house.agent("read", "write")
        other = await house.agent("read", "write", subject="agent_run:c2/r2")
        reader = await house.agent("read", subject="agent_run:c3/r3")
        first = await agent.post("/file/append", json=body, headers=KEY)
        assert first.status_code == 200
        change(house, DEAD)
        for stranger in (client, other):
            done = await stranger.post("/file/append", json=body, headers=KEY)
            assert done.status_code == 200
            assert "idempotency-replayed" not in done.headers
            assert done.json()["version"] != first.json()["version"]
        refused = await reader.post("/file/append", json=body, headers=KEY)
        check_error(refused.status_code, refused.json(), "missing_access")
        control = await agent.post("/file/append", json=body, headers=KEY)
        assert control.headers["idempotency-replayed"] == "true"
        assert control.json()["version"] == first.json()["version"]
        assert (await client.get("/file?path=d/f")).json()["content"] == TEXT + "xxx"


async def test_a_directory_keeps_no_keys(tmp_path, monkeypatch):
    async def lost(*given):
        raise IoError("the state could not be written")

    async with serving(tmp_path) as house:
        client = house.client()
        with monkeypatch.context() as patched:
            patched.setattr(IdempotencyBook, "keep", lost)
            await client.post("/file/write", json={"path": "f", "content": "x"}, headers=KEY)
        again = await client.post("/file/write", json={"path": "f", "content": "x"}, headers=KEY)
        assert again.json()["details"] == {"interrupted": True}


@pytest.mark.parametrize("cut", [False, True])
async def test_whatever_answer_of_the_database_is_lost_it_is_done_once(postgres, tmp_path, cut):
    """The connection ends after one trip or the other, and with ``cut`` all others with it."""
    name = "v" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]
    async with PostgresProxy(postgres) as proxy:
        place = f"{proxy.dsn}?volume={name}&blobs={tmp_path}/blobs"
        async with serving(tmp_path, place=place) as house:
            client = await planted(house)
            for trip in range(1, 9):
                proxy.lose_answer(trip)
                headers = {"idempotency-key": f"{trip}"}
                body = {"path": "log", "content": f"{trip}\n"}
                got = await client.post("/file/append", json=body, headers=headers)
                if cut:
                    await proxy.cut()
                while got.status_code >= 500:
                    assert got.json()["errorKind"] in {"busy", "io_error"}, got.text
                    got = await client.post("/file/append", json=body, headers=headers)
                assert got.status_code in {200, 201}, got.text
            read = await client.get("/file?path=log")
            while read.status_code >= 500:  # its connection was cut as well
                read = await client.get("/file?path=log")
            assert read.json()["content"].split() == [str(trip) for trip in range(1, 9)]
