"""What one server was in the middle of when it ended, or was told to, goes on at another."""

import concurrent.futures
import contextlib
import json
import signal

import httpx
import pytest

from tests.fronts.http.test_servers import ask, client, two_servers, write
from tests.waiting import until_blocking

pytestmark = [pytest.mark.spec("SCALE-5", "SCALE-6"), pytest.mark.slow]


@contextlib.contextmanager
def struck(postgres, tmp_path):
    """Clients at two servers, the process of the first, and an agent's token."""
    with two_servers(postgres, tmp_path) as told, contextlib.ExitStack() as stack:
        (token,) = (each["tokens"]["one"] for _, each in told if each.get("tokens"))
        one, two = (stack.enter_context(client(each)) for _, each in told)
        yield one, two, told[0][0], token


def open_questions(at):
    return ask(at, "GET", "/approvals?state=pending")[1]["approvals"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_question_outlives_the_server_that_put_it(postgres, tmp_path, how, when):
    """It ends before the answer, or after."""
    body = {"path": "asked/a.txt", "content": "once\n", "parents": True}
    key = {"idempotency-key": "k-1"}
    with (
        struck(postgres, tmp_path) as (one, two, server, token),
        concurrent.futures.ThreadPoolExecutor(1) as other,
    ):

        def append():
            with contextlib.suppress(httpx.HTTPError):
                return ask(one, "POST", "/file/append", body, token, **key)

        asked = other.submit(append)
        (question,) = until_blocking(lambda: open_questions(two))
        if when == "before":
            server.send_signal(how)
            server.wait()
        answered = ask(two, "POST", f"/approvals/{question['id']}", {"answer": "grant"})
        assert answered[0] == 200, answered
        if when == "after":
            server.send_signal(how)
            server.wait()
        asked.result()
        shown = []

        def is_done():
            shown.append(ask(two, "POST", "/file/append", body, token, **key))
            return shown[-1][1].get("errorKind") != "busy"

        until_blocking(is_done)
        assert shown[-1][0] == 201, shown[-1]
        assert ask(two, "GET", "/file?path=asked/a.txt")[1].get("content") == "once\n"
        assert open_questions(two) == []


def test_of_two_servers_that_are_given_a_key_at_once_one_does_it(postgres, tmp_path):
    with (
        struck(postgres, tmp_path) as (one, two, _, token),
        concurrent.futures.ThreadPoolExecutor(4) as several,
    ):
        lines = [f"{number}\n" for number in range(30)]
        for line in lines:
            body = {"path": "log", "content": line}
            key = {"idempotency-key": f"k-{line.strip()}"}
            told = list(
                several.map(
                    lambda at, body=body, key=key: ask(
                        at, "POST", "/file/append", body, token, **key
                    ),
                    (one, two, one, two),
                )
            )
            done = [each for each in told if each[0] in {200, 201}]
            assert done, [each[1] for each in told]
            assert all(each == done[0] for each in done), told
            kinds = {each[1]["errorKind"] for each in told if each not in done}
            assert kinds <= {"busy"}
        assert ask(two, "GET", "/file?path=log")[1]["content"] == "".join(lines)


def test_a_lease_outlives_the_server_of_its_holder_and_ends_in_its_time(postgres, tmp_path):
    with struck(postgres, tmp_path) as (one, two, server, token):
        status, lock = ask(one, "POST", "/lock", {"path": "a.txt", "ttl": 60})
        status, short = ask(one, "POST", "/lock", {"path": "b.txt", "ttl": 1})
        assert status == 201, short
        server.kill()
        server.wait()
        assert write(two, "a.txt", "no", token)[1]["errorKind"] == "lock_held"
        assert ask(two, "POST", f"/lock/{lock['id']}/renew", {"ttl": 60})[0] == 200
        assert write(two, "a.txt", "no", token)[1]["errorKind"] == "lock_held"
        assert ask(two, "POST", f"/lock/{lock['id']}/release")[1]["held"] is True
        assert write(two, "a.txt", "yes", token)[0] == 201
        until_blocking(lambda: write(two, "b.txt", "yes", token)[0] == 201)


def test_a_stream_that_is_read_at_one_ends_when_its_grant_is_revoked_at_another(postgres, tmp_path):
    with struck(postgres, tmp_path) as (one, two, _, _):
        asked = {
            "subject": "agent_run:c/9",
            "root": "workspace:fleet",
            "access": ["read", "list", "watch"],
        }
        status, grant = ask(one, "POST", "/grants", asked)
        assert status == 201, grant
        status, made = ask(two, "POST", "/tokens", {"name": "nine", "subject": "agent_run:c/9"})
        assert status == 201, made
        shown = {"authorization": f"Bearer {made['token']}"}
        with one.stream("GET", "/events", headers=shown) as events:
            assert events.status_code == 200, events.read()
            lines = events.iter_lines()
            assert write(two, "a.txt", "a", None)[0] == 201
            while "a.txt" not in next(lines):
                pass
            assert ask(two, "POST", f"/grants/{grant['id']}/revoke", {})[0] == 200
            assert write(two, "secret.txt", "a", None)[0] == 201
            rest = list(lines)
            assert "secret" not in json.dumps(rest)


def say(at, token, method, number, **params):
    """A message of MCP, as a client sends it that was given no session."""
    answer = at.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": number, "method": method, "params": params},
        headers={
            "authorization": f"Bearer {token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
        },
    )
    assert answer.status_code == 200, answer.text
    assert "mcp-session-id" not in answer.headers
    (data,) = (line for line in answer.text.splitlines() if line.startswith("data:"))
    return json.loads(data.removeprefix("data:"))["result"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_was_asked_over_mcp_at_one_is_done_at_another_once_a_person_agreed(
    postgres, tmp_path, is_killed
):
    wanted = {"name": "write_file", "arguments": {"path": "asked/m.txt", "content": "m"}}
    with struck(postgres, tmp_path) as (one, two, server, token):
        about = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        say(one, token, "initialize", 0, protocolVersion="2025-06-18", **about)
        for number, at in enumerate((one, two, one), start=1):
            told = say(at, token, "tools/call", number, **wanted)
            assert "approval_pending" in told["content"][0]["text"]
        (question,) = open_questions(two)
        if is_killed:
            server.kill()
            server.wait()
        assert ask(two, "POST", f"/approvals/{question['id']}", {"answer": "once"})[0] == 200
        done = say(two, token, "tools/call", 4, **wanted)
        assert not done.get("isError"), done
        assert ask(two, "GET", "/file?path=asked/m.txt")[1]["content"] == "m"
        assert open_questions(two) == []
        # The person agreed to one call.
        changed = {"name": "write_file", "arguments": {"path": "asked/m.txt", "content": "n"}}
        told = say(two, token, "tools/call", 5, **changed)
        assert "approval_pending" in told["content"][0]["text"]
