"""Several servers on one state in PostgreSQL behave as one: what is made at one holds at all."""

import asyncio
import concurrent.futures
import contextlib
import threading

import httpx
import pytest

from tests.fronts.http.test_serve_command import client, process
from tests.postgres_proxy import PostgresProxy
from tests.waiting import until_blocking

pytestmark = pytest.mark.spec("SCALE-5", "SCALE-6")

CONFIG = """
[state]
url = "{dsn}"
path = "beside"

[[root]]
id = "fleet"
kind = "workspace"
volume = "{dsn}?volume=main&blobs={blobs}"
trusted = true
quota = {{bytes = 4000}}

[[token]]
name = "one"
subject = "agent_run:c/1"

[[grant]]
subject = "agent_run:c/*"
root = "workspace:fleet"
access = ["read", "list", "metadata", "write", "delete"]

[[rule]]
id = "asked"
effect = "ask"
subject = ["agent_run:*"]
access = ["write"]
path = ["asked/**"]
"""


@contextlib.contextmanager
def two_servers(postgres, tmp_path, through=lambda dsn: dsn):
    """Each with a directory of its own, and a copy of the key. ``through`` may lead the first by
    another way to the database."""
    with postgres.fresh_database() as database, contextlib.ExitStack() as stack:
        told = []
        for name in ("first", "second"):
            place = tmp_path / name
            (place / "beside").mkdir(0o700, parents=True)
            dsn = database if told else through(database)
            config = CONFIG.format(dsn=dsn, blobs=tmp_path / "blobs")
            (place / "bailiwick.toml").write_text(config)
            if told:
                key = tmp_path / "first/beside/ledger.key"
                (place / "beside/ledger.key").touch(0o600)
                (place / "beside/ledger.key").write_bytes(key.read_bytes())
            told.append(stack.enter_context(process(place, "--config", "bailiwick.toml")))
        yield told


@pytest.fixture
def servers(postgres, tmp_path):
    """A person's client at each, and the token of an agent."""
    with two_servers(postgres, tmp_path) as told, contextlib.ExitStack() as stack:
        (token,) = (each["tokens"]["one"] for _, each in told if each.get("tokens"))
        yield [stack.enter_context(client(each)) for _, each in told], token


def ask(at, method, path, body=None, token=None, **headers):
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    answer = at.request(method, path, json=body, headers=headers)
    return answer.status_code, answer.json()


def write(at, path, content, token):
    body = {"path": path, "content": content, "parents": True}
    return ask(at, "POST", "/file/write", body, token)


def test_what_is_made_at_one_holds_at_the_other(servers):
    (one, two), token = servers
    assert write(one, "a.txt", "here", token)[0] == 201
    assert ask(two, "GET", "/file?path=a.txt", token=token)[1]["content"] == "here"
    # A quota is one for both.
    assert write(two, "b.txt", "x" * 3000, token)[0] == 201
    assert write(one, "c.txt", "x" * 3000, token)[1]["errorKind"] == "quota_exceeded"
    # A key is answered the same by whichever is asked, and done once.
    body, key = {"path": "d.txt", "content": "d"}, {"idempotency-key": "k-1"}
    told = [ask(at, "POST", "/file/write", body, token, **key) for at in (one, two, one)]
    assert told[0][0] == 201
    assert told.count(told[0]) == 3
    # A lock is renewed and given back at the other.
    status, lock = ask(one, "POST", "/lock", {"path": "a.txt", "ttl": 60})
    assert status == 201, lock
    assert write(two, "a.txt", "no", token)[1]["errorKind"] == "lock_held"
    assert ask(two, "POST", f"/lock/{lock['id']}/release")[1]["held"] is True
    # What lives in one process is refused with words.
    assert ask(one, "POST", "/temp", {})[1]["errorKind"] == "unsupported"
    for at in (one, two):
        assert ask(at, "GET", "/ready")[0] == 200


def test_what_was_lost_at_one_is_held_at_none(servers):
    (one, two), token = servers
    (grant,) = {ask(at, "GET", "/capabilities", token=token)[1]["grantId"] for at in (one, two)}
    heirs = []
    for at in (one, two):
        status, made = ask(
            at, "POST", f"/grants/{grant}/delegate", {"subject": "agent_run:c/2"}, token
        )
        assert status == 201, made
        heirs.append(made["token"])
    for at in (one, two):
        assert [ask(at, "GET", "/list", token=each)[0] for each in (token, *heirs)] == [200] * 3
    assert ask(two, "POST", f"/grants/{grant}/revoke", {})[0] == 200
    for at in (one, two):
        kinds = {ask(at, "GET", "/list", token=each)[1]["errorKind"] for each in (token, *heirs)}
        assert kinds == {"grant_revoked"}


def test_a_question_put_at_one_is_answered_at_the_other(servers):
    (one, two), token = servers

    def answer():
        waiting = until_blocking(lambda: ask(two, "GET", "/approvals")[1]["approvals"])
        ask(two, "POST", f"/approvals/{waiting[0]['id']}", {"answer": "grant"})

    heard = threading.Thread(target=answer)
    heard.start()
    status, done = write(one, "asked/b.txt", "b", token)
    heard.join()
    assert status == 201, done
    assert write(two, "asked/b.txt", "again", token)[0] == 200


def test_what_both_have_recorded_is_proved_together(servers):
    (one, two), token = servers
    for number in range(6):
        assert write((one, two)[number % 2], f"{number}.txt", "n", token)[0] == 201
    for at in (one, two):
        status, proved = ask(at, "GET", "/audit/verify")
        assert status == 200, proved
        assert proved["ok"] is True


@pytest.mark.slow
@pytest.mark.spec("SCALE-3")
def test_what_a_server_was_killed_over_is_answered_by_the_other(postgres, tmp_path):
    """Each line is asked for under a key of its own, again and again until it is answered."""
    with two_servers(postgres, tmp_path) as told, contextlib.ExitStack() as stack:
        (token,) = (each["tokens"]["one"] for _, each in told if each.get("tokens"))
        killed = told[0][0]
        one, two = (stack.enter_context(client(each)) for _, each in told)
        answered, lines = [], [f"line-{number}" for number in range(40)]

        def append(line):
            body, key = {"path": "log", "content": f"{line}\n"}, {"idempotency-key": line}
            with contextlib.suppress(httpx.HTTPError):
                answered.append(ask(one, "POST", "/file/append", body, token, **key))
                return
            until_blocking(
                lambda: ask(two, "POST", "/file/append", body, token, **key)[0] in {200, 201}
            )

        with concurrent.futures.ThreadPoolExecutor(8) as several:
            asked = [several.submit(append, line) for line in lines]
            until_blocking(lambda: len(answered) >= 8)
            killed.kill()
            for each in asked:
                each.result()
        assert {status for status, _ in answered} <= {200, 201}
        assert len(answered) < len(lines)
        found = ask(two, "GET", "/file?path=log", token=token)[1]["content"].split()
        assert sorted(found) == sorted(lines)


class ProxyThread:
    """A proxy before PostgreSQL, on a loop of its own: the test itself waits."""

    def __init__(self, postgres):
        self._proxy = PostgresProxy(postgres)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self):
        self._thread.start()
        self._run(self._proxy.__aenter__())
        return self

    def __exit__(self, *_):
        self._run(self._proxy.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def through(self, dsn):
        return self._proxy.dsn.replace("/postgres", "/" + dsn.rpartition("/")[2])

    def stall(self):
        self._loop.call_soon_threadsafe(self._proxy._flows.clear)

    def flow(self):
        self._loop.call_soon_threadsafe(self._proxy._flows.set)

    def cut(self):
        self._run(self._proxy.cut())


def test_a_server_that_is_cut_off_holds_nothing_and_comes_back(postgres, tmp_path):
    with (
        ProxyThread(postgres) as proxy,
        two_servers(postgres, tmp_path, proxy.through) as told,
        contextlib.ExitStack() as stack,
    ):
        (token,) = (each["tokens"]["one"] for _, each in told if each.get("tokens"))
        one, two = (stack.enter_context(client(each)) for _, each in told)
        assert write(one, "a.txt", "a", token)[0] == 201
        grant = ask(one, "GET", "/capabilities", token=token)[1]["grantId"]
        proxy.stall()
        try:
            # Whatever the first has read is good for no longer than the other waits.
            assert ask(two, "POST", f"/grants/{grant}/revoke", {})[0] == 200
            status, refused = ask(one, "GET", "/file?path=a.txt", token=token)
            assert status >= 400, refused
            assert refused["errorKind"] in {"busy", "io_error"}
            until_blocking(lambda: ask(one, "GET", "/ready")[0] == 503)
            assert ask(two, "GET", "/ready")[0] == 200
        finally:
            proxy.flow()
        until_blocking(lambda: ask(one, "GET", "/ready")[0] == 200)
        answer = ask(one, "GET", "/file?path=a.txt", token=token)[1]
        assert answer["errorKind"] == "grant_revoked"
        # Connections that end are made anew.
        proxy.cut()
        until_blocking(lambda: ask(one, "GET", "/ready")[0] == 200)
        until_blocking(lambda: write(one, "b.txt", "b", None)[0] in {200, 201})
