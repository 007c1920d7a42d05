"""Several servers on one state in PostgreSQL behave as one: what is made at one holds at all."""

import concurrent.futures
import contextlib
import threading
from functools import partial

import httpx
import pytest

from bailiwick import Authority
from bailiwick.errors import Unsupported
from tests.fronts.http.serving import fleet_config
from tests.fronts.http.test_serve_command import client, process
from tests.postgres_proxy import ProxyThread
from tests.waiting import until_blocking

pytestmark = pytest.mark.spec("SCALE-5", "SCALE-6")

STARTED = ("--config", "bailiwick.toml")


def config_at(dsn, blobs):
    return fleet_config(dsn, blobs, more_of_root="quota = {bytes = 4000}", token="one", delete=True)


@contextlib.contextmanager
def two_servers(
    postgres, tmp_path, through=lambda dsn: dsn, commands=(None, None), arguments=STARTED
):
    """Each with a directory of its own, and a copy of the key. ``through`` may lead the first by
    another way to the database; ``commands`` are what they run if not the usual."""
    with postgres.fresh_database() as database, contextlib.ExitStack() as stack:
        told = []
        for name, command in zip(("first", "second"), commands, strict=True):
            place = tmp_path / name
            (place / "beside").mkdir(0o700, parents=True)
            dsn = database if told else through(database)
            config = config_at(dsn, tmp_path / "blobs")
            (place / "bailiwick.toml").write_text(config)
            if told:
                key = tmp_path / "first/beside/ledger.key"
                (place / "beside/ledger.key").touch(0o600)
                (place / "beside/ledger.key").write_bytes(key.read_bytes())
            told.append(stack.enter_context(process(place, *arguments, command=command)))
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
    for at in (one, two):
        assert ask(at, "GET", "/ready")[0] == 200


def test_a_server_that_is_started_with_the_token_of_the_others_disturbs_nobody(postgres, tmp_path):
    """As they are one after the other, where all are given the same."""
    token = "a-token-that-all-are-given"
    arguments = (*STARTED, "--token", token)
    with two_servers(postgres, tmp_path, arguments=arguments) as told, contextlib.ExitStack() as on:
        one, two = (on.enter_context(client(each, token)) for _, each in told)
        events = on.enter_context(one.stream("GET", "/events"))
        lines = events.iter_lines()
        with process(tmp_path / "second", *arguments) as (_, third):
            told_by = [one, two, on.enter_context(client(third, token))]
            for number, at in enumerate(told_by):
                assert write(at, f"{number}.txt", "", None)[0] == 201
            for number, _ in enumerate(told_by):
                assert any(f'"{number}.txt"' in line for line in lines), "the stream has ended"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/temp", {}),
        ("POST", "/exec", {"argv": ["true"]}),
        ("POST", "/sessions", {}),
        ("GET", "/work", None),
        ("GET", "/work/0123", None),
    ],
)
def test_what_lives_on_one_machine_is_refused_with_words(servers, method, path, body):
    for at in servers[0]:
        status, refused = ask(at, method, path, body)
        assert (status, refused["errorKind"]) == (501, "unsupported")
        assert refused["hint"]


async def test_a_program_on_a_shared_state_keeps_nothing_on_its_machine_either(postgres, tmp_path):
    """What they leave behind would be on the machine that ran them, and nowhere else."""
    with postgres.fresh_database() as dsn:
        file = tmp_path / "bailiwick.toml"
        file.write_text(config_at(dsn, tmp_path / "blobs"))
        async with Authority.from_config(file) as authority:
            access = {"read", "write", "execute"}
            scope = await authority.request_root("user:local", "workspace:fleet", access, "test")
            for refused in (
                lambda: scope.exec(["true"]).result(),
                scope.work,
                lambda: scope.open_work("0123"),
                scope.create_temp,
            ):
                with pytest.raises(Unsupported, match=r"no commands|no working copies|temporary"):
                    await refused()
            await scope.aclose()


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


@pytest.mark.spec("RUN-1", "RUN-3")
def test_a_run_at_both_is_one_and_is_shown_and_taken_back_at_either(servers):
    (one, two), token = servers
    assert ask(one, "POST", "/file/write", {"path": "a", "content": "1\n2\n3\n"})[0] == 201
    named = {"x-bailiwick-run": "Tidy%20up"}
    for at, path in ((one, "a"), (two, "b")):
        body = {"path": path, "content": "1\ntwo\n3\n"}
        status, done = ask(at, "POST", "/file/write", body, token, **named)
        assert status in {200, 201}, done

    def of_the_agent(at):
        runs = ask(at, "GET", "/runs")[1]["runs"]
        return [each for each in runs if each["subject"] == "agent_run:c/1" and each["calls"] == 2]

    for at in (one, two):
        (run,) = until_blocking(lambda at=at: of_the_agent(at))
        assert (run["title"], run["changed"], run["created"]) == ("Tidy up", 1, 1)
    changes = ask(two, "GET", f"/runs/{run['id']}/changes")[1]["changes"]
    assert [each["path"] for each in changes] == ["a", "b"]
    # What is listed at one goes on at the other.
    later = {"x-bailiwick-run": "Look%20on"}
    assert ask(one, "GET", "/file?path=b", None, token, **later)[0] == 200
    until_blocking(lambda: len(ask(two, "GET", "/runs")[1]["runs"]) == 2)
    first = ask(one, "GET", "/runs?limit=1")[1]
    second = ask(two, "GET", f"/runs?limit=1&cursor={first['nextCursor']}")[1]
    titles = [each["runs"][0]["title"] for each in (first, second)]
    assert (titles, second["nextCursor"]) == (["Look on", "Tidy up"], None)
    status, undone = ask(two, "POST", f"/runs/{run['id']}/undo", {"paths": ["a"]})
    assert (status, undone["undone"]) == (200, ["a"])
    assert ask(one, "GET", "/file?path=a")[1]["content"] == "1\n2\n3\n"


@pytest.mark.spec("REVIEW-1", "REVIEW-3")
def test_what_is_said_of_it_at_one_is_said_at_both(servers):
    (one, two), token = servers
    for at, path in ((one, "a"), (two, "b"), (one, "c")):
        assert write(at, path, f"{path}\n", token)[0] == 201

    def left(at):
        queue = ask(at, "GET", "/review")[1]["files"]
        return {each["path"]: [hunk["id"] for hunk in each["hunks"]] for each in queue}

    for at in (one, two):
        found = until_blocking(lambda at=at: len(left(at)) == 3 and left(at))
    assert ask(one, "POST", "/review", {"accept": found["a"]})[0] == 200
    assert left(two).keys() == {"b", "c"}
    status, said = ask(two, "POST", "/review", {"reject": found["b"], "note": "not there"})
    assert status == 200, said
    assert left(one).keys() == {"c"}
    assert ask(one, "GET", "/file?path=b")[1]["errorKind"] == "path_not_found"
    # The agent is told once, by whichever server it asks next.
    told = [ask(at, "GET", "/file?path=a", token=token)[1] for at in (one, two, one)]
    notes = [each["review"] for each in told if each.get("review")]
    assert [note["note"] for (note,) in notes] == ["not there"]


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


AFTER_A_WRITE = (
    ("GET", "/file?path=a.txt", None),
    ("GET", "/list", None),
    ("GET", "/stat?path=a.txt", None),
    ("GET", "/grep?pattern=a", None),
    ("GET", "/glob?pattern=**", None),
    ("GET", "/history?path=a.txt", None),
    ("GET", "/runs", None),
    ("GET", "/review", None),
    ("GET", "/approvals", None),
    ("GET", "/audit", None),
    ("POST", "/file/write", {"path": "w.txt", "content": "w"}),
    ("POST", "/file/edit", {"path": "a.txt", "oldText": "a", "newText": "b"}),
    ("POST", "/move", {"path": "a.txt", "destination": "b.txt"}),
    ("POST", "/snapshot", {"name": "s"}),
    ("POST", "/lock", {"path": "a.txt", "ttl": 60}),
    ("POST", "/batch", {"operations": [{"op": "write", "path": "x", "content": "x"}]}),
)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["dead", "silent", "slow"])
def test_whatever_is_asked_of_a_database_that_is_gone_ends_and_says_so(postgres, tmp_path, how):
    with (
        ProxyThread(postgres) as proxy,
        two_servers(postgres, tmp_path, proxy.through) as told,
        contextlib.ExitStack() as stack,
    ):
        one, _ = (stack.enter_context(client(each)) for _, each in told)
        assert write(one, "a.txt", "a", None)[0] == 201
        with contextlib.ExitStack() as until_back:
            if how == "dead":
                until_back.enter_context(postgres.killed())
            elif how == "silent":
                until_back.enter_context(proxy.stalled())
            else:
                proxy.slow_down(3.0)
                until_back.callback(proxy.slow_down, 0.0)
            for _ in range(2):
                with concurrent.futures.ThreadPoolExecutor(len(AFTER_A_WRITE)) as several:
                    asked = several.map(lambda each: ask(one, *each), AFTER_A_WRITE)
                    kinds = {answer.get("errorKind") for _, answer in asked}
                assert kinds <= {"busy", "io_error"}
                assert ask(one, "GET", "/ready")[0] == 503
        until_blocking(lambda: ask(one, "GET", "/ready")[0] == 200)
        until_blocking(lambda: write(one, "z.txt", "z", None)[0] in {200, 201})


def is_done(*asked):
    """Whether it was; else it can be tried again."""
    status, answer = ask(*asked)
    assert status == 200 or answer["errorKind"] == "busy", answer
    return status == 200


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
        with proxy.stalled():
            # Whatever the first has read, or holds, is good for no longer than the other waits. It
            # may have to be asked again where the machine is very busy.
            until_blocking(partial(is_done, two, "POST", f"/grants/{grant}/revoke", {}))
            status, refused = ask(one, "GET", "/file?path=a.txt", token=token)
            assert status >= 400, refused
            assert refused["errorKind"] in {"busy", "io_error"}
            until_blocking(lambda: ask(one, "GET", "/ready")[0] == 503)
            assert ask(two, "GET", "/ready")[0] == 200
        until_blocking(lambda: ask(one, "GET", "/ready")[0] == 200)
        answer = ask(one, "GET", "/file?path=a.txt", token=token)[1]
        assert answer["errorKind"] == "grant_revoked"
        # Connections that end are made anew.
        proxy.cut()
        until_blocking(lambda: ask(one, "GET", "/ready")[0] == 200)
        until_blocking(lambda: write(one, "b.txt", "b", None)[0] in {200, 201})
