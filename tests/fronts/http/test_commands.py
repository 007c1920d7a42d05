"""Commands over HTTP: told of line by line, found again, and nobody else's."""

import asyncio
import base64
import json
from contextlib import asynccontextmanager

import pytest

from bailiwick.fronts.http.messages import exec_lines
from bailiwick.fronts.http.routes import commands
from bailiwick.grant import User
from bailiwick.scope.execution import OwnCopy
from tests.fronts.http.serving import AGENT, check_error, serving
from tests.waiting import until

pytestmark = [pytest.mark.spec("EXEC-10"), pytest.mark.usefixtures("needs_bubblewrap")]

ME = User("local")
RUNNING = (
    "read", "write", "delete", "list", "move", "archive", "watch", "metadata", "execute",
)  # fmt: skip
ROOT = """
[[root]]
id = "demo"
kind = "workspace"
path = "tree"
trusted = true
durability = "rename"
"""
ALLOWED = ROOT + '[[rule]]\nid = "run"\noperation = ["exec"]\neffect = "allow"\n'


@asynccontextmanager
async def served(tmp_path, config=ALLOWED, **how):
    (tmp_path / "tree").mkdir(exist_ok=True)
    async with serving(tmp_path, config=config, **how) as house:
        yield house


def lines_of(text):
    return [json.loads(each) for each in text.splitlines() if each]


class Told:
    """What a stream of lines has told: the command, its pieces, and its end."""

    def __init__(self, lines):
        first, *between, last = lines
        self.exec = first["exec"]
        self.pieces = between
        self.last = last

    @property
    def result(self):
        return self.last["result"]

    @property
    def said(self):
        return b"".join(map(data_of, self.pieces))


def data_of(line):
    if line.get("encoding") == "base64":
        return base64.b64decode(line["data"])
    return line["data"].encode()


async def ran(client, path="/exec", **body):
    got = await client.post(path, json=body)
    assert got.status_code == 200, got.text
    assert got.headers["content-type"] == "application/x-ndjson"
    return Told(lines_of(got.text))


async def begun(client, path="/exec", **body):
    """A command that goes on without its client."""
    got = await client.post(path, json={**body, "detach": True})
    assert got.status_code == 200, got.text
    (line,) = lines_of(got.text)
    return line["exec"]["id"]


async def followed(client, id, since=None):
    got = await client.get(f"/exec/{id}", params={} if since is None else {"since": since})
    assert got.status_code == 200, got.text
    return Told(lines_of(got.text))


async def refused(answer, status, kind):
    got = await answer
    assert got.status_code == status, got.text
    check_error(status, got.json(), kind)
    return got.json()


async def printed(client, id, wanted, since=0):
    """Wait until a command has printed something, and leave."""
    async with client.stream("GET", f"/exec/{id}", params={"since": since}) as answer:
        async for line in answer.aiter_lines():
            if wanted in line and "seq" in line:
                return


def put(client, id, data, **query):
    return client.post(f"/exec/{id}/input", content=data, params=query)


def signalled(client, id, name):
    return client.post(f"/exec/{id}/signal", json={"signal": name})


@pytest.mark.spec("EXEC-6")
async def test_a_command_is_told_line_by_line_and_what_it_changed_is_one_request(tmp_path):
    async with served(tmp_path) as house:
        client = house.client(**{"x-request-id": "mine"})
        told = await ran(client, shell="echo out; echo err >&2; echo two > a.txt; exit 3")
        assert told.exec["requestId"] == told.result["requestId"] == "mine"
        assert (
            told.exec["command"] == "/bin/sh -c 'echo out; echo err >&2; echo two > a.txt; exit 3'"
        )
        assert [each["seq"] for each in told.pieces] == list(range(len(told.pieces)))
        assert {each["stream"]: each["data"] for each in told.pieces} == {
            "stdout": "out\n", "stderr": "err\n",
        }  # fmt: skip
        assert told.result["exitCode"] == 3
        assert [(each["path"], each["kind"]) for each in told.result["changes"]] == [
            ("a.txt", "created")
        ]
        assert (house.place / "a.txt").read_text() == "two\n"


@pytest.mark.spec("EXEC-6")
async def test_what_is_no_text_survives(tmp_path):
    async with served(tmp_path) as house:
        told = await ran(house.client(), shell="head -c 300000 /dev/urandom | tee a.bin")
        assert told.said == (house.place / "a.bin").read_bytes()
        assert {each["encoding"] for each in told.pieces} == {"base64"}
        told = await ran(house.client(), argv=["printf", "\\\\xff"])
        assert (told.said, "encoding" in told.pieces[0]) == (b"\\xff", False)


@pytest.mark.spec("EXEC-6")
async def test_who_was_cut_off_goes_on_from_any_piece_also_when_it_has_ended(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        id = await begun(client, shell="echo one; read go; echo two; read go; echo three",
                         stdinPipe=True)  # fmt: skip
        async with client.stream("GET", f"/exec/{id}") as answer:
            lines = answer.aiter_lines()
            assert json.loads(await anext(lines))["exec"]["state"] == "running"
            assert json.loads(await anext(lines))["data"] == "one\n"
        await put(client, id, b"go\n")
        await printed(client, id, "two", since=1)
        following = asyncio.ensure_future(followed(client, id, 1))
        await put(client, id, b"go\n")
        assert (await following).said == b"two\nthree\n"
        whole = await followed(client, id)
        assert whole.said == b"one\ntwo\nthree\n"
        assert whole.exec["state"] == "ended"
        assert (await followed(client, id, 2)).said == b"three\n"
        for beyond in (3, 10**9, 2**63 - 1):
            told = await followed(client, id, beyond)
            assert (told.pieces, told.result) == ([], whole.result)
        for wrong in ("-1", "x", "1.5", "", "9" * 30, "\u0661"):
            await refused(client.get(f"/exec/{id}", params={"since": wrong}), 400, "parse_error")


async def test_a_silent_command_says_that_it_goes_on_and_a_fault_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(exec_lines, "EVENT_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(exec_lines, "EVENT_BEAT_SECONDS", 0.0)
    async with served(tmp_path) as house:
        client = house.client()
        id = await begun(client, argv=["cat"], stdinPipe=True)
        async with client.stream("GET", f"/exec/{id}") as answer:
            lines = answer.aiter_lines()
            assert "exec" in json.loads(await anext(lines))
            assert [await anext(lines) for _ in range(3)] == ["", "", ""]

        async def fails(*given):
            raise OSError(28, "no room for /host/path")

        monkeypatch.setattr(OwnCopy, "_brought_back", fails)
        broken = await begun(client, argv=["true"])
        last = (await followed(client, broken)).last
        check_error(503, last["error"], "io_error")
        assert "/host" not in str(last)
        closed = (await client.delete(f"/exec/{broken}")).json()
        assert closed["result"] is None


async def test_a_command_outlives_its_client_unless_it_was_told_not_to(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        body = {"shell": "echo begun; read go; echo done > a.txt", "stdinPipe": True}
        ids = []
        for more in ({}, {"endWithClient": True}):
            async with client.stream("POST", "/exec", json={**body, **more}) as answer:
                lines = answer.aiter_lines()
                ids.append(json.loads(await anext(lines))["exec"]["id"])
                assert json.loads(await anext(lines))["data"] == "begun\n"
        goes_on, ends = ids
        await until(lambda: ends not in house.app.executions._commands)
        await refused(client.get(f"/exec/{ends}"), 404, "path_not_found")
        await put(client, goes_on, b"go\n")
        assert (await followed(client, goes_on)).result["exitCode"] == 0
        assert (house.place / "a.txt").read_text() == "done\n"


async def test_input_and_its_end(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        assert (await ran(client, argv=["cat"], stdin="héllo")).said == "héllo".encode()
        raw = bytes(range(256))
        said = base64.b64encode(raw).decode()
        assert (await ran(client, argv=["cat"], stdinBase64=said)).said == raw
        id = await begun(client, argv=["cat"], stdinPipe=True)
        got = await put(client, id, raw)
        assert got.json() == {"kind": "exec_input", "id": id, "takenBytes": 256}
        await put(client, id, b"end", end="true")
        told = await followed(client, id)
        assert told.said == raw + b"end"
        none = await begun(client, argv=["sleep", "1000"])
        for late in (
            put(client, id, b"more"), put(client, id, b"", end="true"), put(client, none, b"x"),
        ):  # fmt: skip
            told = await refused(late, 409, "closed")
            assert not told["retryable"]  # it will never read again
        for wrong in (
            {"argv": ["cat"], "stdin": "a", "stdinPipe": True},
            {"argv": ["cat"], "stdinBase64": "!"},
        ):
            await refused(client.post("/exec", json=wrong), 400, "parse_error")


@pytest.mark.spec("EXEC-6")
async def test_huge_input_is_refused_and_what_nobody_reads_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "EXEC_INPUT_SECONDS_MAX", 0.5)
    async with served(tmp_path) as house:
        client = house.client()
        id = await begun(client, argv=["sleep", "1000"], stdinPipe=True)
        await refused(put(client, id, b"x" * (2**20 + 1)), 413, "file_too_large")
        much = {"argv": ["cat"], "stdin": "x" * (2**20 + 1)}
        await refused(client.post("/exec", json=much), 413, "file_too_large")
        told = await refused(put(client, id, b"x" * 2**20), 503, "busy")
        assert told["retryable"]
        assert told["details"]["takenBytes"] == 65_536  # what a pipe holds
        told = await refused(put(client, id, b"x"), 503, "busy")
        assert told["details"]["takenBytes"] == 0


async def test_signals_by_name_to_that_command_alone(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        script = "trap 'echo caught; exit 5' TERM; echo begun; sleep 1000 & wait"
        id, other = await begun(client, shell=script), await begun(client, argv=["sleep", "1000"])
        await printed(client, id, "begun")
        for odd in ("TERM", "sigterm", "SIGRTMIN", "", "15", "SIGTERM\n", "SIG_IGN", "SIGCHLD"):
            await refused(signalled(client, id, odd), 400, "parse_error")
        for odd in (15, None, ["SIGTERM"], -9):
            await refused(signalled(client, id, odd), 400, "parse_error")
        assert (await signalled(client, id, "SIGTERM")).status_code == 200
        told = await followed(client, id)
        assert (told.result["exitCode"], told.pieces[-1]["data"]) == (5, "caught\n")
        assert (await signalled(client, id, "SIGKILL")).json()["state"] == "ended"
        (shown,) = [
            each for each in (await client.get("/exec")).json()["executions"]
            if each["state"] == "running"
        ]  # fmt: skip
        assert shown["id"] == other
        assert (await signalled(client, other, "SIGKILL")).status_code == 200
        assert (await followed(client, other)).result["signal"] == 9


async def test_closing_ends_it_and_brings_nothing_back(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        id = await begun(client, shell="echo two > a.txt; echo begun; exec sleep 1000")
        await printed(client, id, "begun")
        got = (await client.delete(f"/exec/{id}")).json()
        assert (got["kind"], got["result"]["signal"], got["result"]["changes"]) == (
            "exec_closed", 9, [],
        )  # fmt: skip
        assert not (house.place / "a.txt").exists()
        for again in (
            client.get(f"/exec/{id}"),
            client.delete(f"/exec/{id}"),
            put(client, id, b""),
        ):
            await refused(again, 404, "path_not_found")
        (left,) = (await client.get("/work")).json()["work"]
        assert left["id"] == got["result"]["workId"]


@pytest.mark.spec("HTTP-3")
async def test_what_makes_no_command_is_refused_before_anything_is_told(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        for wrong in (
            {}, {"argv": []}, {"argv": ["a"], "shell": "b"}, {"argv": "echo"}, {"argv": [1]},
            {"argv": ["a\0b"]}, {"argv": ["true"], "timeout": -1},
            {"argv": ["true"], "timeout": 1e9},
            {"argv": ["true"], "publish": "never"}, {"argv": ["true"], "network": "all"},
            {"argv": ["true"], "env": {"A B": "c"}}, {"argv": ["true"], "limits": {"none": 1}},
            {"argv": ["true"], "limits": {"processesMax": 0}}, {"argv": ["true"], "unknown": 1},
            {"argv": ["true"], "cwd": "../.."}, {"shell": "x" * 200_000},
        ):  # fmt: skip
            got = await client.post("/exec", json=wrong)
            assert got.status_code == 400, (wrong, got.text)
        for body, kind in ((b"not json", "application/json"), (b'{"argv": ["true"', "text/plain")):
            got = await client.post("/exec", content=body, headers={"content-type": kind})
            assert got.status_code in (400, 415)
        await refused(client.post("/exec", json={"argv": ["true"], "network": "host"}), 501,
                      "unsupported")  # fmt: skip
        got = await client.post("/exec", json={"argv": ["true"]}, headers={"idempotency-key": "k"})
        check_error(got.status_code, got.json(), "parse_error")
        assert (await client.get("/exec")).json()["executions"] == []


# --- whose it is -------------------------------------------------------------------------------


@pytest.mark.spec("AUTH-5", "HTTP-4")
async def test_a_command_of_another_is_as_one_that_is_not_there(tmp_path):
    async with served(tmp_path) as house:
        agent = await house.agent(*RUNNING)
        other = await house.agent(*RUNNING, subject="agent_run:c1/other")
        id = await begun(agent, argv=["cat"], stdinPipe=True)
        for guess in (id, "0" * 24, id[:-1], f"{id}0", "%2e%2e", "%00", "w" * 4_000):
            answers = {
                got.json()["error"] if got.status_code == 404 else got.status_code
                for got in (
                    await other.get(f"/exec/{guess}"),
                    await other.get(f"/exec/{guess}?since=3"),
                    await put(other, guess, b"x"),
                    await put(other, guess, b"x", end="true"),
                    await signalled(other, guess, "SIGKILL"),
                    await other.post(f"/exec/{guess}/resize", json={"rows": 1, "columns": 1}),
                    await other.delete(f"/exec/{guess}"),
                )
            }
            assert answers <= {"there is no such command", "there is no such route", 400}, guess
        assert (await other.get("/exec")).json()["executions"] == []
        assert [each["id"] for each in (await agent.get("/exec")).json()["executions"]] == [id]
        person = house.client()
        (shown,) = (await person.get("/exec")).json()["executions"]
        assert (shown["id"], shown["subject"]) == (id, AGENT)
        assert (await signalled(person, id, "SIGKILL")).status_code == 200
        assert (await followed(agent, id)).result["signal"] == 9


@pytest.mark.spec("AUTH-5")
async def test_a_name_that_somebody_chose_is_nobody_elses(tmp_path):
    async with served(tmp_path) as house:
        agent = await house.agent(*RUNNING)
        other = await house.agent(*RUNNING, subject="agent_run:c1/other")
        grant = (await other.get("/capabilities")).json()["grantId"]
        told = await other.post(
            f"/grants/{grant}/delegate", json={"subject": AGENT, "access": list(RUNNING)}
        )
        namesake = house.client(told.json()["token"])
        id = await begun(agent, argv=["sleep", "1000"])
        await refused(namesake.get(f"/exec/{id}"), 404, "path_not_found")
        assert (await namesake.get("/exec")).json()["executions"] == []
        assert (await agent.delete(f"/exec/{id}")).status_code == 200
        left = (await ran(namesake, shell="echo x > b", publish="manual")).result["workId"]
        assert (await agent.get("/work")).json()["work"] == []
        await refused(agent.get(f"/work/{left}"), 404, "path_not_found")
        assert (await namesake.get(f"/work/{left}")).status_code == 200


async def test_who_may_not_execute_is_refused(tmp_path):
    async with served(tmp_path) as house:
        agent = await house.agent("read", "write", "list")
        await refused(agent.post("/exec", json={"argv": ["true"]}), 403, "missing_access")
        await refused(agent.post("/sessions", json={}), 403, "missing_access")
        await refused(
            house.client("").post("/exec", json={"argv": ["true"]}), 401, "unauthenticated"
        )
    async with served(tmp_path, read_only=True) as house:
        await refused(house.client().post("/exec", json={"argv": ["true"]}), 403, "read_only")


async def test_programs_are_run_in_a_root_in_memory_too(tmp_path):
    async with serving(tmp_path, place="memory:", lasting=False) as house:
        client = house.client()
        done = await client.post("/exec", json={"argv": ["sh", "-c", "echo new > f"]})
        assert done.status_code == 200
        assert (await client.get("/file/raw", params={"path": "f"})).content == b"new\n"
        assert (await client.get("/work")).status_code == 200
