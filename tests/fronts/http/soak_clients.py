"""The clients of the soak: those who work, each in a corner of its own, and those who listen.

A worker knows what every file of its corner must hold, because nobody else writes there: whatever
it reads is compared with that. A listener keeps every event it is sent. Both go on after the server
was stopped or killed: a worker first looks what became of the change that was never answered, a
listener comes back with the id of the last event it has seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import Any
from urllib.parse import quote

import msgspec

FILES = 6
"""Files of one worker: few, so that the tree does not grow while the memory is measured."""

LARGE_BYTES = 48_000
ANSWER_SECONDS_MAX = 60.0
"""For a machine that does other things too; how long answers do take is in the figures."""
EVENT_LINE_BYTES_MAX = 1 << 20


class Unfit(Exception):
    """The server did what it must not do."""


class Gone(Exception):
    """The connection ended, or the server said that it is closing."""


class Address(msgspec.Struct, frozen=True):
    port: int
    token: str


# --- one connection --------------------------------------------------------------------------


class Wire:
    """One connection that is kept: a request, then its answer."""

    def __init__(self) -> None:
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self,
        address: Address,
        method: str,
        target: str,
        *,
        request_id: str,
        body: object = None,
        content: bytes | None = None,
    ) -> tuple[int, bytes]:
        """The status and the body of an answer. Raises `Gone`."""
        head = [
            f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{address.port}",
            f"Authorization: Bearer {address.token}", f"X-Request-Id: {request_id}",
        ]  # fmt: skip
        if body is not None:
            content = msgspec.json.encode(body)
            head.append("Content-Type: application/json")
        if content is not None:
            head.append(f"Content-Length: {len(content)}")
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                reader, writer = await self._connected(address)
                writer.write(("\r\n".join(head) + "\r\n\r\n").encode() + (content or b""))
                status, headers = await read_head(reader)
                answer = await reader.readexactly(int(headers["content-length"]))
        except TimeoutError:
            raise Unfit(f"{method} {target} was not answered") from None
        except (OSError, EOFError) as error:
            self.close()
            raise Gone from error
        if headers.get("connection") == "close":
            self.close()
        return status, answer

    async def _connected(
        self, address: Address
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", address.port)
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value for name, value in headers.items()}


# --- who works -------------------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True):
    """What an event must say."""

    request_id: str
    kind: str
    path: str


class Act(msgspec.Struct, frozen=True):
    """One change: what is sent, what each path holds before and after it, and how it is told."""

    request_id: str
    method: str
    target: str
    told: Told
    before: dict[str, bytes | None]
    after: dict[str, bytes | None]
    body: dict[str, Any] | None = None
    content: bytes | None = None


class Tally(msgspec.Struct):
    """What all workers did together."""

    reads_s: list[float] = []
    changes_s: list[float] = []
    conflicts: int = 0
    kinds: dict[str, int] = {}


class Worker:
    """Reads and changes the files of its own corner, and the counter of its group."""

    def __init__(self, number: int, group: str, root: str, tally: Tally) -> None:
        self.name = f"w{number:03}"
        self.group = group
        self.corner = f"{group}/{self.name}"
        self.files: dict[str, bytes] = {}
        self.done: list[Told] = []
        self.increments: dict[int, str] = {}
        self.unsure_increments: dict[int, str] = {}
        self.doubt: Act | None = None
        self._prefix = f"/roots/{root.replace(':', '/')}"
        self._random = random.Random(number)
        self._count = 0
        self._tally = tally
        self._wire = Wire()

    def close(self) -> None:
        self._wire.close()

    async def work(self, address: Address, ending: asyncio.Event) -> None:
        """One request after another, until told to end or until the server is gone."""
        with contextlib.suppress(Gone):
            while not ending.is_set():
                kind = self._random.random()
                if kind < 0.55:
                    await self._look(address)
                elif kind < 0.95:
                    await self._change(address)
                else:
                    await self._count_up(address)

    # --- asking ------------------------------------------------------------------------------

    def _next_id(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    async def _get(self, address: Address, route: str, path: str, **more: object) -> bytes:
        query = "".join(f"&{name}={quote(str(value))}" for name, value in more.items())
        target = f"{self._prefix}{route}?path={quote(path)}{query}"
        began = time.perf_counter()
        status, answer = await self._wire.ask(address, "GET", target, request_id=self._next_id())
        self._check(status, answer, f"GET {target}")
        self._tally.reads_s.append(time.perf_counter() - began)
        return answer

    def _check(self, status: int, answer: bytes, what: str, *allowed: str) -> str | None:
        """The kind of the error that an answer is, of those that are allowed."""
        if status < 400:
            return None
        kind: str = msgspec.json.decode(answer)["errorKind"]
        self._tally.kinds[kind] = self._tally.kinds.get(kind, 0) + 1
        if kind == "closed":
            raise Gone
        if kind not in allowed:
            raise Unfit(f"{what}: {answer.decode()}")
        return kind

    # --- looking -----------------------------------------------------------------------------

    async def _look(self, address: Address) -> None:
        way = self._random.randrange(6)
        if way == 0:
            listed = msgspec.json.decode(await self._get(address, "/list", self.corner))
            names = {entry["path"] for entry in listed["entries"]}
            self._expect(names == self.files.keys(), f"{self.corner} lists {names}")
        elif way == 1:
            found = msgspec.json.decode(
                await self._get(address, "/grep", self.corner, pattern="number [0-9]+")
            )
            # A search that uses up its time is cut, and says so.
            fits = (
                found["truncated"]
                or {each["path"] for each in found["matches"]} <= self.files.keys()
            )
            self._expect(fits, f"{self.corner} has matches in {found['matches']}")
        elif self.files:
            path = self._random.choice(sorted(self.files))
            if way == 2:
                known = msgspec.json.decode(await self._get(address, "/stat", path))
                self._expect(known["sizeBytes"] == len(self.files[path]), f"the size of {path}")
            elif way == 3 and len(self.files[path]) < LARGE_BYTES:
                read = msgspec.json.decode(await self._get(address, "/file", path))
                self._expect(read["content"].encode() == self.files[path], f"the text of {path}")
            else:
                raw = await self._get(address, "/file/raw", path)
                self._expect(raw == self.files[path], f"the bytes of {path}")

    def _expect(self, fits: bool, what: str) -> None:
        if not fits:
            raise Unfit(f"{self.name} saw something else than it wrote: {what}")

    # --- changing ----------------------------------------------------------------------------

    async def _change(self, address: Address) -> None:
        path = f"{self.corner}/f{self._random.randrange(FILES)}"
        if path not in self.files:
            way = self._random.choice((self._write, self._put))
        else:
            way = self._random.choice(
                (self._write, self._put, self._append, self._edit, self._move, self._remove)
            )
        await self._do(address, way(path, self._next_id()))

    async def _do(self, address: Address, act: Act) -> None:
        self.doubt = act
        began = time.perf_counter()
        status, answer = await self._wire.ask(
            address, act.method, act.target, request_id=act.request_id, body=act.body,
            content=act.content,
        )  # fmt: skip
        self._check(status, answer, f"{act.method} {act.target} {act.body}")
        self._tally.changes_s.append(time.perf_counter() - began)
        self._happened(act)

    def _happened(self, act: Act) -> None:
        self.doubt = None
        for path, content in act.after.items():
            if content is None:
                del self.files[path]
            else:
                self.files[path] = content
        self.done.append(act.told)

    def _act(
        self,
        path: str,
        request_id: str,
        route: str,
        after: bytes | None,
        body: dict[str, Any],
    ) -> Act:
        kind = "deleted" if after is None else "updated" if path in self.files else "created"
        return Act(
            request_id, "POST", self._prefix + route, Told(request_id, kind, path),
            {path: self.files.get(path)}, {path: after}, {"path": path, **body},
        )  # fmt: skip

    def _write(self, path: str, request_id: str) -> Act:
        text = f"number {self._count}\n" + "a line\n" * self._random.randrange(200)
        return self._act(path, request_id, "/file/write", text.encode(), {"content": text})

    def _put(self, path: str, request_id: str) -> Act:
        content = f"number {self._count}\n".encode().ljust(LARGE_BYTES, b".")
        act = self._act(path, request_id, "/file/raw", content, {})
        target = f"{act.target}?path={quote(path)}"
        return msgspec.structs.replace(act, method="PUT", target=target, body=None, content=content)

    def _append(self, path: str, request_id: str) -> Act:
        more = f"and {self._count}\n"
        after = self.files[path] + more.encode()
        return self._act(path, request_id, "/file/append", after, {"content": more})

    def _edit(self, path: str, request_id: str) -> Act:
        before = self.files[path]
        old = before.split(b"\n", 1)[0]
        new = b"number %d" % self._count
        after = new + before[len(old) :]
        body = {"oldText": old.decode() + "\n", "newText": new.decode() + "\n"}
        return self._act(path, request_id, "/file/edit", after, body)

    def _move(self, path: str, request_id: str) -> Act:
        names = (f"{self.corner}/f{number}" for number in range(FILES + 1))
        to = next((each for each in names if each not in self.files), None)
        if to is None:
            return self._remove(path, request_id)
        return Act(
            request_id, "POST", f"{self._prefix}/move", Told(request_id, "moved", to),
            {path: self.files[path], to: None}, {path: None, to: self.files[path]},
            {"path": path, "to": to},
        )  # fmt: skip

    def _remove(self, path: str, request_id: str) -> Act:
        return self._act(path, request_id, "/remove", None, {})

    async def _count_up(self, address: Address) -> None:
        """Compare and swap where others do the same: refused if somebody was first."""
        path = f"{self.group}/counter"
        read = msgspec.json.decode(await self._get(address, "/file", path))
        value, request_id = int(read["content"]) + 1, self._next_id()
        body = {"path": path, "content": str(value), "expectedHash": read["hash"]}
        self.unsure_increments[value] = request_id
        target = f"{self._prefix}/file/write"
        began = time.perf_counter()
        status, answer = await self._wire.ask(
            address, "POST", target, request_id=request_id, body=body
        )
        conflict = self._check(status, answer, f"POST {target}", "hash_mismatch")
        self._tally.changes_s.append(time.perf_counter() - began)
        del self.unsure_increments[value]
        if conflict is None:
            self.increments[value] = request_id
        else:
            self._tally.conflicts += 1

    # --- after a stop ------------------------------------------------------------------------

    async def settle(self, address: Address) -> None:
        """See that every file holds what was acknowledged last; and what became of the change that
        was never answered: it was made as a whole, or not at all."""
        self.close()
        there = await self._there(address)
        act, self.doubt = self.doubt, None
        if act is not None and all(there.get(path) == act.after[path] for path in act.after):
            self._happened(act)
        if there != self.files:
            paths = there.keys() | self.files
            wrong = {path for path in paths if there.get(path) != self.files.get(path)}
            raise Unfit(f"after a restart, other than acknowledged: {sorted(wrong)}")

    async def _there(self, address: Address) -> dict[str, bytes]:
        listed = msgspec.json.decode(await self._get(address, "/list", self.corner))
        return {
            entry["path"]: await self._get(address, "/file/raw", entry["path"])
            for entry in listed["entries"]
        }


# --- who listens -----------------------------------------------------------------------------


class Listener:
    """Follows the changes of one group, and comes back where it was cut off."""

    def __init__(self, group: str, root: str, number: int) -> None:
        self.group = group
        self.root = root
        self.events: list[Told] = []
        self.rescans: list[str] = []
        self.comebacks = 0
        self.ended = ""
        self._target = f"/roots/{root.replace(':', '/')}/events?path={group}"
        self._last: str | None = None
        self._random = random.Random(number)

    async def listen(self, address: Address, ready: asyncio.Event | None = None) -> None:
        """Until it is cancelled, or the server is gone; ``ended`` says how. Now and then it hangs
        up by itself."""
        self.ended = ""
        while True:
            try:
                async with asyncio.timeout(self._random.uniform(2.0, 6.0)):
                    self.ended = await self._follow(address, ready)
                return
            except TimeoutError:
                self.comebacks += 1
            except (OSError, EOFError) as error:
                self.ended = repr(error)
                return

    async def _follow(self, address: Address, ready: asyncio.Event | None) -> str:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", address.port, limit=EVENT_LINE_BYTES_MAX
        )
        try:
            lines = [f"GET {self._target} HTTP/1.1", f"Host: 127.0.0.1:{address.port}",
                     f"Authorization: Bearer {address.token}"]  # fmt: skip
            if self._last is not None:
                lines.append(f"Last-Event-ID: {self._last}")
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            status, _ = await read_head(reader)
            if status == 503:
                return "refused"
            if status != 200:
                raise Unfit(f"GET {self._target}: {status}")
            if ready is not None:
                ready.set()
            rest = b""
            while chunk := await _chunk(reader):
                *whole, rest = (rest + chunk).split(b"\n\n")
                for each in whole:
                    self._take(each)
            return "closed"
        finally:
            writer.close()

    def _take(self, event: bytes) -> None:
        fields = dict(
            line.split(": ", 1) for line in event.decode().splitlines() if not line.startswith(":")
        )
        if fields.get("event") == "change":
            change = msgspec.json.decode(fields["data"])
            if change["kind"] == "rescan":
                self.rescans.append(change["path"])
            else:
                told = Told(change["requestId"], change["kind"], change["path"])
                self.events.append(told)
        elif fields.get("event", "run") != "run":
            raise Unfit(f"a stream ended with {fields['data']}")
        self._last = fields.get("id", self._last)


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readline() or b"0", 16)
    return (await reader.readexactly(size + 2))[:-2] if size else b""
