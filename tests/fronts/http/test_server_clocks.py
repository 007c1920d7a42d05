"""A server whose clock is wrong, among others on one state and one volume in PostgreSQL: for all of
them it is as late as the database says."""

import contextlib
import threading

import pytest

from tests.fronts.http.test_servers import ask, client, two_servers, write
from tests.waiting import until_blocking

AN_HOUR_AHEAD = """
import sys, time
from bailiwick.stores.volume import uptime

def late(of, more):
    return lambda: of() + more

time.time, time.time_ns = late(time.time, 3600), late(time.time_ns, 3600 * 10**9)
uptime._BOOT_ID = sys.argv.pop(1)
from bailiwick.fronts.cli import main

raise SystemExit(main())
"""
"""Beside its clock, the name of its start is another machine's."""


@pytest.fixture
def servers(postgres, tmp_path):
    (tmp_path / "boot").write_text("another machine\n")
    command = ("-c", AN_HOUR_AHEAD, tmp_path / "boot", "serve")
    with (
        two_servers(postgres, tmp_path, commands=(None, command)) as told,
        contextlib.ExitStack() as stack,
    ):
        (token,) = (each["tokens"]["one"] for _, each in told if each.get("tokens"))
        yield [stack.enter_context(client(each)) for _, each in told], token


@pytest.mark.spec("SCALE-5", "SCALE-6")
def test_what_lasts_for_a_while_lasts_as_long_at_a_server_whose_clock_is_wrong(servers):
    (right, ahead), token = servers
    # A question that was put at the one is open at the other, whose answer counts.
    answers = []

    def answer():
        shown = until_blocking(lambda: ask(right, "GET", "/approvals")[1]["approvals"])
        answers.append(ask(ahead, "POST", f"/approvals/{shown[0]['id']}", {"answer": "grant"}))

    heard = threading.Thread(target=answer)
    heard.start()
    status, done = write(right, "asked/b.txt", "b", token)
    heard.join()
    assert [each[0] for each in answers] == [200], answers
    assert status == 201, done
    # A lease is held.
    assert ask(right, "POST", "/lock", {"path": "a.txt", "ttl": 60})[0] == 201
    assert write(ahead, "a.txt", "no", token)[1]["errorKind"] == "lock_held"
    assert ask(ahead, "POST", "/lock", {"path": "a.txt", "ttl": 60})[1]["errorKind"] == "lock_held"
    # A grant for some minutes holds.
    grant = ask(right, "GET", "/capabilities", token=token)[1]["grantId"]
    asked = {"subject": "agent_run:c/2", "expiresIn": 600}
    status, heir = ask(right, "POST", f"/grants/{grant}/delegate", asked, token)
    assert status == 201, heir
    assert ask(ahead, "GET", "/list", token=heir["token"])[0] == 200
    # What was written there was not written in an hour.
    assert write(ahead, "c.txt", "c", token)[0] == 201
    told = [ask(right, "GET", f"/stat?path={path}")[1] for path in ("asked/b.txt", "c.txt")]
    assert abs(told[1]["modifiedMs"] - told[0]["modifiedMs"]) < 1_800_000
