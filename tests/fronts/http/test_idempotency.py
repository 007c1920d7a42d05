"""The same key is answered the same, and what was asked is done once."""

import asyncio
import re

import msgspec
import pytest

from bailiwick.errors import InternalError, IoError
from bailiwick.fronts.http.messages import idempotency
from bailiwick.fronts.http.routes import ROUTES
from bailiwick.limits import Limits
from bailiwick.scope import Scope
from bailiwick.state.idempotency import IdempotencyBook
from tests.fronts.http.serving import AGENT, PERSON, check_error, serving
from tests.fronts.http.test_crowding import heirs_of

KEY = {"idempotency-key": "one"}
GRANTED = {"root": "workspace:demo", "by": PERSON}
APPEND = {"path": "log", "content": "x"}


async def append(client, key="one", **more):
    headers = {"idempotency-key": key} if key else {}
    body = {**APPEND, **more.pop("body", {})}
    return await client.post("/file/append", json=body, headers={**headers, **more})


def log(house):
    return (house.place / "log").read_text()


# --- once ---------------------------------------------------------------------------------------


@pytest.mark.spec("HTTP-11")
async def test_the_same_key_is_answered_the_same_and_done_once(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        first = await append(client)
        again = await append(client, **{"x-request-id": "retry"})
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.content == first.content
        assert again.headers["etag"] == first.headers["etag"]
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["x-request-id"] == "retry"
        assert again.headers["cache-control"] == "no-store"
        assert log(house) == "x"
        assert (await append(client, "two")).status_code == 200
        assert log(house) == "xx"


@pytest.mark.spec("HTTP-11")
async def test_a_key_is_for_one_request(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        await append(client)
        others = [
            ("/file/append", {**APPEND, "content": "y"}, {}),
            ("/file/append?fork=f", APPEND, {}),
            ("/file/write", APPEND, {}),
            ("/file/append", APPEND, {"if-match": "*"}),
        ]
        for route, body, more in others:
            got = await client.post(route, json=body, headers={**KEY, **more})
            assert got.status_code in (400, 501), got.text
        # However it is spelled, it is the same request.
        spelled = b'{ "content":"x",\n"lockToken":null, "path":"log" }'
        named = "/roots/workspace/demo/file/append"
        headers = {**KEY, "content-type": "application/json"}
        got = await client.post(named, content=spelled, headers=headers)
        assert got.headers["idempotency-replayed"] == "true"
        assert log(house) == "x"


@pytest.mark.spec("HTTP-11")
async def test_a_condition_is_part_of_what_is_asked(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        await append(client, None)
        for _ in range(2):
            assert (await append(client, **{"if-match": "*"})).status_code == 200
        assert log(house) == "xx"


@pytest.mark.spec("HTTP-11")
async def test_keys_belong_to_their_caller(tmp_path):
    async with serving(tmp_path) as house:
        person = house.client()
        agent = await house.agent("read", "write", "metadata", "list")
        other = await house.agent("write", subject="agent_run:c2/r2")
        for client in (person, agent, other):
            for _ in range(2):
                assert (await append(client)).status_code in (200, 201)
        assert log(house) == "xxx"


@pytest.mark.spec("HTTP-11")
async def test_all_processes_and_restarts_share_the_keys(tmp_path):
    async with serving(tmp_path) as one:
        first = await append(one.client())
        async with serving(tmp_path) as two:
            again = await append(two.client())
            assert again.content == first.content
    async with serving(tmp_path) as three:
        assert (await append(three.client())).content == first.content
        assert log(three) == "x"


@pytest.mark.spec("HTTP-11")
async def test_at_the_same_time_it_is_done_once(tmp_path, monkeypatch):
    begun, go_on = asyncio.Event(), asyncio.Event()
    appended = Scope.append

    async def slowly(scope, *given, **more):
        begun.set()
        await go_on.wait()
        return await appended(scope, *given, **more)

    monkeypatch.setattr(Scope, "append", slowly)
    async with serving(tmp_path) as one, serving(tmp_path) as two:
        first = asyncio.ensure_future(append(one.client(two.token)))
        await begun.wait()
        for client in (one.client(two.token), two.client()):
            busy = await append(client)
            check_error(busy.status_code, busy.json(), "busy")
            assert busy.json()["retryable"]
        go_on.set()
        assert (await first).status_code == 201
        assert (await append(two.client())).content == (await first).content
        assert log(one) == "x"


@pytest.mark.spec("HTTP-11")
async def test_many_at_once_under_few_keys(tmp_path):
    async with serving(tmp_path) as house, serving(tmp_path) as other:
        clients = house.client(other.token), other.client()

        async def until_done(number):
            key = f"{number % 5}"
            while (await append(clients[number // 5 % 2], key)).status_code == 503:
                await asyncio.sleep(0)

        await asyncio.gather(*(until_done(number) for number in range(40)))
        assert log(house) == "x" * 5


# --- what is not known, and what is not kept ------------------------------------------------------


@pytest.mark.spec("HTTP-11")
@pytest.mark.parametrize("how", ["keeping fails", "the process ends"])
async def test_what_was_interrupted_is_not_done_again(tmp_path, monkeypatch, how):
    """It was done, and no answer was kept: nobody knows, and nobody repeats it."""

    async def lost(*given):
        raise IoError("the state could not be written")

    async with serving(tmp_path) as house:
        if how == "keeping fails":
            with monkeypatch.context() as patched:
                patched.setattr(IdempotencyBook, "keep", lost)
                got = await append(house.client())
                check_error(got.status_code, got.json(), "io_error")
        else:
            await append(house.client())
            change(house, "status = NULL, owner = '0123456789abcdef'")
        again = await append(house.client())
        check_error(again.status_code, again.json(), "internal_error")
        assert again.json()["details"] == {"interrupted": True}
        assert not again.json()["retryable"]
        assert log(house) == "x"
        assert (await append(house.client(), "two")).status_code == 200


def change(house, how):
    house.authority.idempotency._database.write_blocking(
        lambda connection: connection.execute(f"UPDATE answers SET {how}")
    )


@pytest.mark.spec("HTTP-11")
async def test_an_error_that_says_what_stands_there_is_kept(tmp_path):
    async with serving(tmp_path) as house:
        client, body = house.client(), {"path": "a", "destination": "b"}
        first = await client.post("/move", json=body, headers=KEY)
        check_error(first.status_code, first.json(), "path_not_found")
        (house.place / "a").write_text("")
        again = await client.post("/move", json=body, headers=KEY)
        assert again.content == first.content
        assert (house.place / "a").exists()


@pytest.mark.spec("HTTP-11")
async def test_a_refusal_is_not_kept(tmp_path):
    async with serving(tmp_path) as house:
        agent = await house.agent("read")
        refused = await append(agent)
        check_error(refused.status_code, refused.json(), "missing_access")
        await house.authority.add_grant(subject=AGENT, access={"write"}, **GRANTED)
        assert (await append(agent)).status_code == 201
        assert log(house) == "x"


@pytest.mark.spec("HTTP-11")
@pytest.mark.parametrize("failure", [IoError, InternalError])
async def test_what_may_have_been_done_is_kept(tmp_path, monkeypatch, failure):
    tried = []

    async def fail(*given, **more):
        tried.append(given)
        raise failure("it was done, but the record could not be written")

    async with serving(tmp_path) as house:
        with monkeypatch.context() as patched:
            patched.setattr(Scope, "append", fail)
            first = await append(house.client())
        again = await append(house.client())
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert len(tried) == 1


ASKING = """
[[root]]
id = "demo"
kind = "workspace"
path = "tree"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write"]

[[rule]]
id = "ask"
effect = "ask"
operation = ["write"]
"""


@pytest.mark.spec("HTTP-11", "ASK-1")
async def test_a_question_is_not_frozen(tmp_path):
    (tmp_path / "tree").mkdir()
    async with serving(tmp_path, config=ASKING, ask_wait_s=0.05) as house:
        agent, person = await house.agent(), house.client()
        pending = await append(agent)
        assert pending.status_code == 202, pending.text
        approval = pending.json()["approvalId"]
        answer = {"answer": "once"}
        said = await person.post(f"/approvals/{approval}", json=answer)
        assert said.status_code == 200, said.text
        done = await append(agent, body={"approval": approval})
        assert done.status_code == 201, done.text
        assert (await append(agent, body={"approval": approval})).content == done.content
        assert log(house) == "x"


# --- who may see an answer ------------------------------------------------------------------------


@pytest.mark.spec("HTTP-11", "AUTH-5")
async def test_an_answer_is_given_again_only_to_who_may_still_ask(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "log").write_text("secret")
        agent = await house.agent("read", "write")
        edit = {"path": "log", "oldText": "secret", "newText": "other"}
        first = await agent.post("/file/edit", json=edit, headers=KEY)
        assert "secret" in first.json()["diff"]
        assert (await agent.post("/file/edit", json=edit, headers=KEY)).content == first.content
        for grant in house.authority.grants():
            await house.authority.revoke(grant.id, by=PERSON, front="test")
        again = await agent.post("/file/edit", json=edit, headers=KEY)
        assert again.status_code == 403
        assert "secret" not in again.text
        # Another grant, which reaches another place alone.
        access = {"read", "write"}
        await house.authority.add_grant(subject=AGENT, access=access, path="docs", **GRANTED)
        again = await agent.post("/file/edit", json=edit, headers=KEY)
        assert again.status_code in (403, 404)
        assert "secret" not in again.text


@pytest.mark.spec("HTTP-11", "AUTH-5")
async def test_what_a_batch_told_is_told_again_only_to_who_may_do_each_part_of_it(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "log").write_text("secret")
        agent = await house.agent("read", "write")
        edit = {"op": "edit", "path": "log", "oldText": "secret", "newText": "other"}
        batch = {"operations": [edit], "atomic": False}
        first = await agent.post("/batch", json=batch, headers=KEY)
        assert "secret" in first.text
        for grant in house.authority.grants():
            await house.authority.revoke(grant.id, by=PERSON, front="test")
        await house.authority.add_grant(subject=AGENT, access={"write"}, **GRANTED)
        again = await agent.post("/batch", json=batch, headers=KEY)
        check_error(again.status_code, again.json(), "missing_access")
        assert "secret" not in again.text


@pytest.mark.spec("HTTP-11", "POL-1")
async def test_a_rule_that_came_since_holds_for_an_answer_too(tmp_path):
    (tmp_path / "tree").mkdir()
    free = ASKING.partition("[[rule]]")[0]
    async with serving(tmp_path, config=free) as house:
        agent = await house.agent()
        secret = agent.headers["authorization"]
        assert (await append(agent)).status_code == 201
        assert (await append(agent)).headers["idempotency-replayed"] == "true"
    async with serving(tmp_path, config=ASKING.replace('"ask"', '"deny"')) as house:
        agent = house.client("", authorization=secret)
        denied = await append(agent)
        check_error(denied.status_code, denied.json(), "policy_denied")
        assert log(house) == "x"


@pytest.mark.spec("HTTP-11")
async def test_what_holds_a_secret_or_is_a_stream_takes_no_key(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        for method, address in (("PUT", "/file/raw?path=f"), ("POST", "/file/upload?path=f")):
            got = await client.request(method, address, content=b"x", headers=KEY)
            check_error(got.status_code, got.json(), "parse_error")
        assert not (house.place / "f").exists()
        body = {"subject": "agent_run:c1/r8"}
        got = await client.post("/grants/none/delegate", json=body, headers=KEY)
        check_error(got.status_code, got.json(), "parse_error")
        # Reading changes nothing, with or without a key.
        assert (await client.get("/list", headers=KEY)).status_code == 200
    refusing = {each.name for each in ROUTES if each.changes and not idempotency.takes_key(each)}
    assert refusing == {
        "putFile", "uploadFile", "delegateGrant", "makeToken", "exec", "sessionExec", "execInput",
    }  # fmt: skip
    kept = b"".join(each.read_bytes() for each in (tmp_path / "state").glob("authority.db*"))
    assert b"bwk_" not in kept


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.spec("HTTP-11", "HTTP-2")
@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "ü", "x" * 20_000, "a\tb"])
async def test_a_key_that_is_none_is_refused(tmp_path, key):
    async with serving(tmp_path) as house:
        body = msgspec.json.encode(APPEND)
        head = house.head(
            "POST /file/append HTTP/1.1", "Content-Type: application/json", "Connection: close",
            f"Content-Length: {len(body)}", f"Idempotency-Key: {key}",
        )  # fmt: skip
        answer = await house.send(head, body)
        assert re.match(rb"HTTP/1\.1 4(00|31)", answer), answer
        twice = head.replace(b"\r\n\r\n", b"\r\nIdempotency-Key: k\r\n\r\n")
        assert re.match(rb"HTTP/1\.1 4(00|31)", await house.send(twice, body))
        assert not (house.place / "log").exists()


@pytest.mark.spec("HTTP-11")
async def test_what_is_kept_is_bounded_and_collected(tmp_path):
    (tmp_path / "tree").mkdir()
    few = "limits = {idempotency_keys_max = 2, idempotency_answer_bytes_max = 600}\n"
    config = ASKING.partition("[[rule]]")[0].replace("trusted = true\n", "trusted = true\n" + few)
    async with serving(tmp_path, config=config) as house:
        client, agent = house.client(), await house.agent()
        for key in ("one", "two"):
            assert (await append(agent, key)).status_code in (200, 201)
        full = await append(agent, "three")
        check_error(full.status_code, full.json(), "quota_exceeded")
        assert log(house) == "xx"
        assert (await append(agent, "one")).status_code == 201, "what is kept is still answered"
        # What one caller keeps is no other's loss.
        operations = [{"op": "append", **APPEND}] * 5
        large = {"operations": operations, "atomic": False}
        done = await client.post("/batch", json=large, headers=KEY)
        assert (done.status_code, log(house)) == (200, "x" * 7)
        again = await client.post("/batch", json=large, headers=KEY)
        check_error(again.status_code, again.json(), "file_too_large")
        assert log(house) == "x" * 7
        change(house, f"created_ns = created_ns - {int(Limits().idempotency_seconds * 1e9) + 1}")
        assert (await append(agent, "three")).status_code == 200
        assert (await append(agent, "one")).status_code == 200, "after a day it is another request"
        assert log(house) == "x" * 9
        rows = house.authority.idempotency._database.read("SELECT count(*) FROM answers")
        assert rows == [(2,)]


@pytest.mark.spec("HTTP-11")
async def test_what_is_kept_of_one_root_takes_no_room_of_others(tmp_path, monkeypatch):
    (tmp_path / "tree").mkdir()
    monkeypatch.setattr(idempotency, "Limits", lambda: Limits(idempotency_keys_max=2))
    async with serving(tmp_path, config=ASKING.partition("[[rule]]")[0]) as house:
        client = house.client()
        for key in ("one", "two"):
            assert (await append(client, key)).status_code in (200, 201)
        grant = {"subject": "agent_run:c/9", "root": "workspace:main", "access": ["read"]}
        keys = [{"idempotency-key": f"of-no-root-{number}"} for number in range(3)]
        told = [await client.post("/grants", json=grant, headers=key) for key in keys]
        assert [each.status_code for each in told] == [201, 201, 507]


@pytest.mark.spec("HTTP-11", "HTTP-12")
async def test_who_delegates_to_itself_keeps_no_more_answers(tmp_path):
    (tmp_path / "tree").mkdir()
    few = "limits = {idempotency_keys_max = 2}\n"
    config = ASKING.partition("[[rule]]")[0].replace("trusted = true\n", "trusted = true\n" + few)
    async with serving(tmp_path, config=config) as house:
        agent = await house.agent()
        heirs = [house.client(each) for each in await heirs_of(house, agent, 2)]
        assert [(await append(each)).status_code for each in (agent, *heirs)] == [201, 200, 507]
        for each in heirs:
            full = await append(each, "two")
            check_error(full.status_code, full.json(), "quota_exceeded")
