"""Several workers behave as one: what is made at one of them is known at all, at once."""

import contextlib
import http.client
import json
import os
import threading

import pytest

from tests.fronts.http.serving import asking_config
from tests.fronts.http.test_serve_command import process
from tests.processes import children_of
from tests.waiting import until_blocking

WORKERS = 4
CONNECTIONS_MAX = 200


class Connection:
    """One connection, which one worker answers; ``worker`` is the id of its process."""

    def __init__(self, server, told, token=None):
        self._port = int(told["url"].rpartition(":")[2])
        self._token = told["token"] if token is None else token
        self._http = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        self.ask("GET", "/health")
        self.worker = self._answered_by(server)

    def ask(self, method, path, body=None, token=None):
        shown = {"authorization": f"Bearer {token or self._token}"}
        given = None if body is None else json.dumps(body)
        if given is not None:
            shown["content-type"] = "application/json"
        self._http.request(method, path, given, shown)
        answer = self._http.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def close(self):
        self._http.close()

    def _answered_by(self, server):
        """By the socket at the other end, which one of the processes has open."""
        ours = f":{self._http.sock.getsockname()[1]:04X}"
        with open("/proc/net/tcp", encoding="ascii") as table:
            rows = [line.split() for line in table]
        (inode,) = {
            row[9]
            for row in rows[1:]
            if row[1].endswith(f":{self._port:04X}") and row[2].endswith(ours)
        }
        (worker,) = (pid for pid in workers_of(server) if _has_open(pid, f"socket:[{inode}]"))
        return worker


def workers_of(server):
    return children_of(server.pid)


def _has_open(pid, target):
    folder = f"/proc/{pid}/fd"
    for each in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{each}") == target:
                return True
    return False


@contextlib.contextmanager
def one_at_each(server, told):
    """A connection to each worker."""
    found, held = {}, []
    try:
        while len(found) < WORKERS:
            assert len(held) < CONNECTIONS_MAX, f"only {len(found)} workers answer"
            held.append(Connection(server, told))
            found.setdefault(held[-1].worker, held[-1])
        yield list(found.values())
    finally:
        for each in held:
            each.close()


TOKENS = """
[[token]]
name = "one"
subject = "agent_run:c/1"

[[token]]
name = "hasty"
subject = "agent_run:hasty/1"

[[grant]]
subject = "agent_run:hasty/*"
root = "workspace:tree"
access = ["read", "list", "metadata"]
quota = {operations_per_minute = 40}
"""


@pytest.fixture
def house(tmp_path):
    """A connection to each worker, and the tokens of agents."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.txt").write_text("a")
    config = asking_config('path = "tree"', root="tree", agents="agent_run:c/*", more=TOKENS)
    (tmp_path / "bailiwick.toml").write_text(config)
    served = process(tmp_path, "--config", "bailiwick.toml", "--workers", WORKERS)
    with served as (server, told), one_at_each(server, told) as connections:
        yield connections, told["tokens"]


@pytest.mark.slow
@pytest.mark.spec("HTTP-1", "HTTP-4", "AUTH-5")
def test_a_grant_is_the_same_at_every_worker(house):
    house, _ = house
    grants = {each.ask("GET", "/capabilities")[1]["grantId"] for each in house}
    assert len(grants) == 1
    (grant,) = grants
    # It can be passed on at each of them, and what is passed on is known at all.
    for number, at in enumerate(house):
        status, made = at.ask(
            "POST", f"/grants/{grant}/delegate", {"subject": f"agent_run:c/{number}"}
        )
        assert status == 201, made
        heir, token = made["grant"]["id"], made["token"]
        for other in house:
            assert other.ask("GET", "/capabilities", token=token)[1]["grantId"] == heir
            assert other.ask("GET", "/file?path=a.txt", token=token)[0] == 200
            # An heir passes it on at every worker, too.
            status, made = other.ask(
                "POST", f"/grants/{heir}/delegate", {"subject": "agent_run:c/x"}, token=token
            )
            assert status == 201, made
    # Taken back at one of them it has ended at all.
    status, ended = house[0].ask("POST", f"/grants/{heir}/revoke", {})
    assert (status, ended["ended"]) == (200, 1 + WORKERS)
    for other in house:
        assert other.ask("GET", "/file?path=a.txt", token=token)[1]["errorKind"] == "grant_revoked"
    # A person's own is had anew, and is the same everywhere again.
    assert house[1].ask("POST", f"/grants/{grant}/revoke", {})[0] == 200
    for at in house:
        assert at.ask("GET", "/file?path=a.txt")[0] in (200, 403)
    again = {each.ask("GET", "/capabilities")[1]["grantId"] for each in house}
    assert len(again) == 1
    assert again != grants
    for at in house:
        assert at.ask("GET", "/file?path=a.txt")[0] == 200


@pytest.mark.slow
@pytest.mark.spec("HTTP-1", "AUTH-5")
def test_what_an_agent_lost_at_one_worker_it_has_at_none(house):
    house, token = house[0], house[1]["one"]
    (grant,) = {each.ask("GET", "/capabilities", token=token)[1]["grantId"] for each in house}
    made = [
        at.ask("POST", f"/grants/{grant}/delegate", {"subject": "agent_run:c/2"}, token=token)
        for at in house
    ]
    assert [status for status, _ in made] == [201] * WORKERS
    lost = [token, *(each["token"] for _, each in made)]
    for at in house:
        assert [at.ask("GET", "/list", token=each)[0] for each in lost] == [200] * 5
    assert house[2].ask("POST", f"/grants/{grant}/revoke", {})[0] == 200
    for at in house:
        kinds = {at.ask("GET", "/list", token=each)[1]["errorKind"] for each in lost}
        assert kinds == {"grant_revoked"}


@pytest.mark.slow
@pytest.mark.spec("HTTP-12", "AUTH-8")
def test_workers_do_not_multiply_operations_a_minute(house):
    house, token = house[0], house[1]["hasty"]
    answers = [at.ask("GET", "/file?path=a.txt", token=token)[0] for at in house * 25]
    assert set(answers) == {200, 429}
    # All of them come within a minute, or else those of two.
    assert answers.count(200) <= 80
    assert all(answers[number] == 200 for number in range(WORKERS))


@pytest.mark.slow
@pytest.mark.spec("HTTP-1", "HTTP-4")
def test_a_question_put_at_one_worker_is_answered_and_used_at_others(house):
    house, token = house[0], house[1]["one"]
    body = {"path": "asked/b.txt", "content": "b", "parents": True}
    # For this grant: whatever worker the agent calls next.
    heard = threading.Thread(target=answer_first, args=(house[1], "grant"))
    heard.start()
    status, done = house[0].ask("POST", "/file/write", body, token=token)
    heard.join()
    assert status == 201, done
    for at in house[2:]:
        again = {"path": "asked/b.txt", "content": "again"}
        assert at.ask("POST", "/file/write", again, token=token)[0] == 200


def answer_first(at, answer):
    """Answer the first question, as soon as there is one."""
    waiting = until_blocking(lambda: at.ask("GET", "/approvals")[1]["approvals"])
    assert at.ask("POST", f"/approvals/{waiting[0]['id']}", {"answer": answer})[0] == 200


@pytest.mark.slow
@pytest.mark.spec("HTTP-1", "HTTP-4")
def test_a_lock_is_renewed_and_given_back_at_any_worker(tmp_path):
    with (
        process(tmp_path, "sqlite:v.db?volume=main", "--workers", WORKERS) as (server, told),
        one_at_each(server, told) as house,
    ):
        status, lock = house[0].ask("POST", "/lock", {"path": "a", "ttl": 60})
        assert status == 201, lock
        assert house[1].ask("POST", f"/lock/{lock['id']}/renew", {"ttl": 60})[0] == 200
        assert house[2].ask("POST", f"/lock/{lock['id']}/release")[1]["held"] is True
