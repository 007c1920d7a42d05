"""Bailiwick on a directory, through `Scope`: grant, lookup, policy, audit and hash included."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from bailiwick.paths import parse
from bench.peers.peer import Contenders, Peer, there_and_back
from bench.peers.plain import interpreter
from bench.scratch import CHUNK, EDITED, NEEDLE, SMALL, TICKET
from bench.timing import Contender

if TYPE_CHECKING:
    from bailiwick import Scope
    from bailiwick.search.results import GrepResult

READ_BYTES = "Bailiwick read_bytes"
READ_TEXT = "Bailiwick read_text"
WRITE_BYTES = "Bailiwick write_bytes"
WRITE_TEXT = "Bailiwick write_text"
LIST = "Bailiwick list"
STREAM_IN = "Bailiwick write_stream"
STREAM_OUT = "Bailiwick stream"
GREP = "Bailiwick grep, matches"
GREP_SKIPPED = "Bailiwick grep, with skipped lists"
IMPORT = "import bailiwick"
HELP = "bailiwick --help"
BARE_STORE = "Bailiwick's disk store alone"
GOVERNED = "Bailiwick read_bytes, an agent under an authority"


def ours(
    name: str,
    call: Callable[[], Awaitable[Any]],
    answer: Callable[[Any], object] | None = None,
) -> Contender:
    """A verb of `Scope`, awaited."""
    return Contender(name, call, awaits=True, ours=True, answer=answer)


class BailiwickDisk(Peer):
    name = "Bailiwick"
    own = True
    remark = "confined by descriptors, atomic, recorded; writes and texts hashed"

    async def open(self) -> None:
        import bailiwick

        state = str(self.places.state)
        self._version = getattr(bailiwick, "__version__", "")
        self._closing = stack = contextlib.AsyncExitStack()
        enter = stack.enter_async_context
        memory, disk = self.places.memory, self.places.disk
        self._fast = await enter(bailiwick.open(memory, durability="rename", state_dir=state))
        self._full = await enter(bailiwick.open(disk, durability="full", state_dir=state))
        self._tree = await enter(bailiwick.open(self.places.tree, state_dir=state))
        self._few = await enter(bailiwick.open(self.places.few, state_dir=state))
        self._governed = await enter(bailiwick.Authority.open(state_dir=f"{state}/authority"))
        await self._governed.add_root(
            "workspace:bench", str(memory), trusted=True, durability="rename"
        )
        await self._governed.add_grant(
            subject="agent_run:*", root="workspace:bench", access={"read"},
            by=bailiwick.User("bench"),
        )  # fmt: skip
        self._agent = await self._governed.request_root(
            bailiwick.AgentRun("bench", "1"), "workspace:bench", {"read"}, "measuring"
        )
        self._sync = stack.enter_context(
            bailiwick.open_sync(memory, durability="rename", state_dir=state)
        )

    async def close(self) -> None:
        await self._closing.aclose()

    def version(self) -> str:
        return self._version

    def read(self) -> Contenders:
        scope, path = self._fast, "docs/small.txt"
        yield ours(READ_BYTES, lambda: scope.read_bytes(path), lambda got: len(got.data))
        yield ours(READ_TEXT, lambda: scope.read_text(path), lambda got: len(got.text))
        yield Contender(
            "Bailiwick read_bytes, blocking portal",
            lambda: self._sync.read_bytes(path),
            ours=True,
            answer=lambda got: len(got.data),
        )

    def governed(self) -> Contenders:
        path = "docs/small.txt"
        store, place = self._fast._pipeline.store, parse(path).path

        async def bare() -> bytes:
            handle = await store.resolve(place, "object")
            try:
                return (await store.read(handle, 0, 256 * 1024)).data
            finally:
                handle.close()

        yield ours(BARE_STORE, bare, len)
        yield ours(READ_BYTES, lambda: self._fast.read_bytes(path), lambda got: len(got.data))
        yield ours(GOVERNED, lambda: self._agent.read_bytes(path), lambda got: len(got.data))

    def write(self) -> Contenders:
        scope, text = self._fast, SMALL.decode()
        yield ours(WRITE_BYTES, lambda: scope.write_bytes("docs/ours.bin", SMALL))
        yield ours(WRITE_TEXT, lambda: scope.write_text("docs/ours.txt", text))

    def durable_write(self) -> Contenders:
        scope = self._full
        yield ours(WRITE_BYTES, lambda: scope.write_bytes("docs/ours.bin", SMALL))

    def listing(self) -> Contenders:
        yield ours(LIST, lambda: self._fast.list("many"), lambda page: len(page.entries))

    def stat(self) -> Contenders:
        scope = self._fast
        yield ours("Bailiwick stat", lambda: scope.stat("docs/small.txt"), lambda stat: stat.size)

    def edit(self) -> Contenders:
        path = "docs/ours-edit.txt"
        (self.places.memory / path).write_text(EDITED)
        edit = there_and_back(lambda old, new: self._fast.edit(path, old=old, new=new))
        yield ours("Bailiwick edit", edit)

    def stream_in(self) -> Contenders:
        def chunks() -> Iterator[bytes]:
            return (CHUNK for _ in range(self.places.sizes.large_chunks))

        scope = self._fast
        yield ours(STREAM_IN, lambda: scope.write_stream("ours.bin", chunks()))

    def stream_out(self) -> Contenders:
        async def read() -> int:
            size = 0
            async for chunk in self._fast.stream("large.bin"):
                size += len(chunk)
            return size

        yield ours(STREAM_OUT, read, int)

    def grep_few(self) -> Contenders:
        yield from self._grep(self._few, NEEDLE, literal=True)

    def grep_literal(self) -> Contenders:
        yield from self._grep(self._tree, NEEDLE, literal=True)

    def grep_pattern(self) -> Contenders:
        yield from self._grep(self._tree, TICKET, literal=False)

    def _grep(self, scope: "Scope", pattern: str, *, literal: bool) -> Contenders:
        grep = scope.grep

        def found(result: "GrepResult") -> int:
            return len(result.matches)

        yield ours(GREP, lambda: grep(pattern, literal=literal, report_skipped=False), found)
        yield ours(GREP_SKIPPED, lambda: grep(pattern, literal=literal), found)

    def help(self) -> Contenders:
        command = "from bailiwick.fronts.cli import main; main(['--help'])"
        yield Contender(HELP, interpreter(command), ours=True)

    def startup(self) -> Contenders:
        # A public name is loaded when it is first asked for: so ask for the way in.
        yield Contender(IMPORT, interpreter("import bailiwick; bailiwick.open_sync"), ours=True)
