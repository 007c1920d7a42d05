"""The same story through every front that is built: Python, HTTP and the command line here."""

import asyncio
import contextlib
import json

import httpx
import pytest

from bailiwick.client import connect
from bailiwick.errors import KINDS
from bailiwick.fronts.http.application import Application
from bailiwick.fronts.http.settings import ServerSettings
from bailiwick.fronts.http.transport.server import Server, configure
from bailiwick.fronts.http.transport.sockets import bind
from bailiwick.grant import User
from bailiwick.testing.front_contract import CASES, CONFIG, ROOT, SUBJECT, Wrote, story_house
from tests.fronts.cli.places import Typed
from tests.fronts.trust import trusted

ACCESS = {"read", "list", "metadata", "write", "delete", "move"}


class PythonFront:
    """The verbs themselves."""

    def __init__(self, scope):
        self.scope = scope

    async def write(self, path, text, *, expected_sha256=None):
        done = await self.scope.write_text(
            path, text, parents=True, expected_sha256=expected_sha256
        )
        return Wrote(done.sha256, done.request_id)

    async def read(self, path):
        return (await self.scope.read_text(path)).text

    async def names(self, path):
        return [entry.name for entry in (await self.scope.list(path)).entries]

    async def edit(self, path, old, new):
        await self.scope.edit(path, old=old, new=new)

    async def remove(self, path):
        await self.scope.remove(path)

    async def undo(self, request_id):
        return [str(path) for path in (await self.scope.undo(request_id)).undone]


@contextlib.asynccontextmanager
async def python(house):
    scope = await house.authority.request_root(SUBJECT, ROOT, ACCESS, "the story")
    try:
        yield PythonFront(scope)
    finally:
        await scope.aclose()


class HttpFront:
    """The routes, by a plain client."""

    def __init__(self, client):
        self._client = client

    async def _ask(self, method, route, **more):
        got = await self._client.request(method, route, **more)
        document = got.json()
        if got.status_code >= 400:
            error = KINDS[document["errorKind"]](
                document["error"], path=document.get("path"), decided_by=document.get("decidedBy")
            )
            assert (error.retryable, error.category) == (
                document["retryable"], document["category"],
            )  # fmt: skip
            raise error
        return document

    async def write(self, path, text, *, expected_sha256=None):
        body = {"path": path, "content": text, "parents": True}
        if expected_sha256 is not None:
            body["expectedHash"] = f"sha256:{expected_sha256}"
        done = await self._ask("POST", "/file/write", json=body)
        return Wrote(done["hash"].removeprefix("sha256:"), done["requestId"])

    async def read(self, path):
        return (await self._ask("GET", "/file", params={"path": path}))["content"]

    async def names(self, path):
        entries = (await self._ask("GET", "/list", params={"path": path}))["entries"]
        return [entry["name"] for entry in entries]

    async def edit(self, path, old, new):
        await self._ask("POST", "/file/edit", json={"path": path, "oldText": old, "newText": new})

    async def remove(self, path):
        await self._ask("POST", "/remove", json={"path": path})

    async def undo(self, request_id):
        return (await self._ask("POST", "/undo", json={"requestId": request_id}))["undone"]


@contextlib.asynccontextmanager
async def served(house):
    """A server for the house; its address, and a token of who acts in the story."""
    secret = await house.authority.tokens.issue(
        "story", str(SUBJECT), by=User("local"), front="test"
    )
    app = Application(house.authority, ServerSettings())
    listener, ready = bind("127.0.0.1", 0), asyncio.Event()
    server = Server(configure(app), app)
    server.on_start(ready.set)
    running = asyncio.create_task(server.serve([listener]))
    await ready.wait()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield url, secret
    finally:
        server.stop()
        await running
        listener.close()


@contextlib.asynccontextmanager
async def http(house):
    async with served(house) as (url, secret):
        shown = {"authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(
            base_url=url, headers=shown, timeout=120, verify=trusted()
        ) as client:
            yield HttpFront(client)


class CliFront:
    """The commands, typed at a place that is a server: that is where rules and people are."""

    def __init__(self, url, secret):
        self._typed = Typed(url)
        self._secret = secret

    async def _type(self, *arguments):
        # In a thread, since a command runs a loop of its own.
        done = await asyncio.to_thread(self._typed, *arguments, "--token", self._secret, "--json")
        if done.returncode:
            assert (done.returncode, done.stdout) == (1, "")
            told = json.loads(done.stderr)
            assert told["hint"]
            raise KINDS[told["errorKind"]](
                told["error"], path=told.get("path"), decided_by=told.get("decidedBy")
            )
        assert done.stderr == ""
        return json.loads(done.stdout)

    async def write(self, path, text, *, expected_sha256=None):
        given = [] if expected_sha256 is None else ["--expect", expected_sha256]
        done = await self._type("write", path, "--text", text, "--parents", *given)
        return Wrote(done["hash"].removeprefix("sha256:"), done["requestId"])

    async def read(self, path):
        return (await self._type("cat", path))["content"]

    async def names(self, path):
        return [entry["name"] for entry in (await self._type("ls", path))["entries"]]

    async def edit(self, path, old, new):
        await self._type("edit", path, "--old", old, "--new", new)

    async def remove(self, path):
        await self._type("rm", path)

    async def undo(self, request_id):
        return (await self._type("undo", request_id))["undone"]


@contextlib.asynccontextmanager
async def cli(house):
    async with served(house) as (url, secret):
        yield CliFront(url, secret)


@contextlib.asynccontextmanager
async def client(house):
    async with served(house) as (url, secret), connect(url, token=secret, root=ROOT) as scope:
        yield PythonFront(scope)


FRONTS = {"python": python, "http": http, "cli": cli, "client": client}


@pytest.mark.spec("ERR-4", "HTTP-4", "PY-2", "PY-5", "CLI-1", "CLI-2")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("front", FRONTS)
async def test_a_front_tells_the_same_story(tmp_path, front, case):
    async with story_house(str(tmp_path)) as house, FRONTS[front](house) as driver:
        await case(driver, house)


@pytest.mark.scale
@pytest.mark.slow
@pytest.mark.spec("SCALE-1", "SCALE-5")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("front", FRONTS)
async def test_it_is_the_same_on_postgres_and_an_object_store(postgres, s3, tmp_path, front, case):
    s3.make_bucket("story")
    blobs = s3.url("story", tmp_path.name).replace("?", "%3F").replace("&", "%26")
    (tmp_path / "state").mkdir(0o700)
    with postgres.fresh_database() as dsn:
        config = CONFIG.replace("[state]", f'[state]\nurl = "{dsn}"').replace(
            "sqlite:story.db?volume=story", f"{dsn}?volume=story&blobs={blobs}"
        )
        assert config.count(dsn) == 2
        async with story_house(str(tmp_path), config) as house, FRONTS[front](house) as driver:
            await case(driver, house)
