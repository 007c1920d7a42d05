"""A real server for a test: uvicorn on a free port of loopback, in the loop of the test."""

import asyncio
import contextlib
import json
from pathlib import Path

import httpx
import msgspec

from bailiwick.build.governed import Authority
from bailiwick.fronts.http.application import Application
from bailiwick.fronts.http.settings import ServerSettings
from bailiwick.fronts.http.transport.server import Server, configure
from bailiwick.fronts.http.transport.sockets import bind
from bailiwick.grant import User
from tests.fronts.trust import trusted
from tests.waiting import until

PERSON = User("local")
AGENT = "agent_run:c1/r1"


ASKING = """
{state}
[[root]]
id = "{root}"
kind = "workspace"
{place}
trusted = true

[[grant]]
subject = "{agents}"
root = "workspace:{root}"
access = {access}

[[rule]]
id = "asked"
effect = "ask"
subject = ["agent_run:*"]
access = ["write"]
path = ["asked/**"]
"""


def asking_config(place, *, root="demo", agents="agent_run:*", delete=False, state="", more=""):
    """A configuration in which people are asked about what agents write in `asked`. ``place`` is
    the line that says where its root is, ``more`` what else there is."""
    access = ["read", "list", "metadata", "write", *(["delete"] if delete else ())]
    told = ASKING.format(root=root, place=place, agents=agents, access=access, state=state)
    return told + more


def fleet_config(dsn, blobs, *, more_of_root="", token="agent", delete=False):
    """That, for servers that share a database: its root is `fleet`, its agent has a token."""
    return asking_config(
        f'volume = "{dsn}?volume=main&blobs={blobs}"\n{more_of_root}', root="fleet",
        agents="agent_run:c/*", delete=delete, state=f'[state]\nurl = "{dsn}"\npath = "beside"\n',
        more=f'[[token]]\nname = "{token}"\nsubject = "agent_run:c/1"\n',
    )  # fmt: skip


class House:
    """A server and all that a test may want of it."""

    def __init__(self, authority, app, port, token, place):
        self.authority = authority
        self.app = app
        self.port = port
        self.token = token
        self.place = place
        self.url = f"http://127.0.0.1:{port}"
        self._clients = []

    def client(self, token=None, **headers):
        """A client with a token; the person's unless told, none with an empty one."""
        shown = self.token if token is None else token
        if shown:
            headers["authorization"] = f"Bearer {shown}"
        client = httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=120, verify=trusted()
        )
        self._clients.append(client)
        return client

    def also_close(self, client):
        """Have something end with the house."""
        self._clients.append(client)

    async def agent(self, *access, subject=AGENT, root="workspace:demo", path=".", **more):
        """A client for an agent that was granted something."""
        if access:
            await self.authority.add_grant(
                subject=subject, root=root, access=access, path=path, by=PERSON, **more
            )
        name = subject.replace("/", ".")
        secret = await self.authority.tokens.issue(name, subject, by=PERSON, front="test")
        return self.client(secret)

    def app_connections(self):
        """How many connections the server has open."""
        return len(self.server.server_state.connections)

    async def settled(self):
        """Once all clients have gone: the server has read what they sent, and has ended it."""
        # Connections are taken in the order in which they came, so those before this one are.
        head = self.head("GET /health HTTP/1.1", "Connection: close", token="")
        assert (await self.send(head)).startswith(b"HTTP/1.1 200")
        state = self.server.server_state
        await until(lambda: not state.connections and not state.tasks)

    async def aclose(self):
        for client in self._clients:
            await client.aclose()

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def send(self, *pieces, token=None, until_end=True):
        """Send bytes as they are; the whole answer, up to where the server ends it."""
        reader, writer = await self.connect()
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            return await asyncio.wait_for(reader.read() if until_end else reader.read(65536), 120)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def head(self, line, *headers, token=None):
        """A request's head as bytes."""
        shown = self.token if token is None else token
        lines = [line, f"Host: 127.0.0.1:{self.port}", *headers]
        if shown:
            lines.append(f"Authorization: Bearer {shown}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@contextlib.asynccontextmanager
async def serving(
    tmp_path,
    *,
    config=None,
    tokens=True,
    place=None,
    root="workspace:demo",
    lasting=True,
    room=None,
    **how,
):
    """Serve a directory (or another place, or a whole configuration) and give the house. What
    is not ``lasting`` keeps its state in memory, which is quicker. ``room`` is for how many
    connections."""
    tree = Path(tmp_path) / "tree"
    state = str(Path(tmp_path) / "state") if lasting else None
    if config is None:
        tree.mkdir(exist_ok=True)
        opening = Authority.open(state_dir=state, surface="console")
    else:
        file = Path(tmp_path) / "bailiwick.toml"
        file.write_text(config)
        opening = Authority.from_config(file, state, surface="console")
    async with opening as authority:
        if config is None:
            await authority.add_root(root, str(place or tree), trusted=True)
        token = ""
        if tokens:
            token = await authority.tokens.issue("person", str(PERSON), by=PERSON, front="test")
        app = Application(authority, msgspec.structs.replace(ServerSettings(), **how))
        listener = bind("127.0.0.1", 0)
        server = Server(configure(app, room=room), app)
        ready = asyncio.Event()
        server.on_start(ready.set)
        running = asyncio.create_task(server.serve([listener]))
        await ready.wait()
        house = House(authority, app, listener.getsockname()[1], token, tree)
        house.server = server
        try:
            yield house
        finally:
            await house.aclose()
            server.stop()
            await running
            await app.aclose()
            listener.close()


def parsed(answer):
    """Status, headers and JSON of an answer as it came over a socket."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split(" ")[1]), headers, json.loads(body)


def check_error(status, document, kind):
    """The one shape of every error."""
    required = {"errorKind", "error", "status", "requestId", "category", "retryable"}
    optional = {"hint", "path", "decidedBy", "details"}
    assert required <= document.keys() <= required | optional, document
    assert document["status"] == status
    assert document["errorKind"] == kind, document
    assert document["category"] in ("policy", "operational")
