"""agentfs-sdk: a filesystem in one SQLite database, here on tmpfs like everything else."""

from importlib.metadata import version
from typing import Any

from bench.peers.peer import Contenders, Peer
from bench.peers.plain import interpreter
from bench.scratch import CHUNK, SMALL
from bench.timing import Contender


class AgentFs(Peer):
    name = "agentfs-sdk"
    remark = "its own database instead of a directory; streams only as one value"

    async def open(self) -> None:
        from agentfs_sdk import AgentFS, AgentFSOptions

        path = str(self.places.memory / "agentfs.db")
        self._agent = await AgentFS.open(AgentFSOptions(id="bench", path=path))
        self._fs = files = self._agent.fs
        await files.write_file("/docs/small.txt", SMALL)
        for n in range(self.places.sizes.listed):
            await files.write_file(f"/many/entry-{n:04}.txt", b"x" * (n % 100))

    async def close(self) -> None:
        await self._agent.close()

    def version(self) -> str:
        return version("agentfs-sdk")

    def read(self) -> Contenders:
        files = self._fs
        yield Contender(
            "agentfs-sdk read_file",
            lambda: files.read_file("/docs/small.txt", encoding=None),
            awaits=True,
            answer=len,
        )

    def write(self) -> Contenders:
        files = self._fs
        yield Contender(
            "agentfs-sdk write_file",
            lambda: files.write_file("/docs/other.txt", SMALL),
            awaits=True,
        )

    def volume_read(self) -> Contenders:
        yield from self.read()

    def volume_write(self) -> Contenders:
        yield from self.write()

    def listing(self) -> Contenders:
        async def scan() -> list[tuple[str, int, int]]:
            found = []
            for name in await self._fs.readdir("/many"):
                stat = await self._fs.stat(f"/many/{name}")
                found.append((name, stat.size, stat.mtime))
            return found

        yield Contender("agentfs-sdk readdir and stat", scan, awaits=True, answer=len, every=25)

    def stat(self) -> Contenders:
        files = self._fs
        yield Contender(
            "agentfs-sdk stat",
            lambda: files.stat("/docs/small.txt"),
            awaits=True,
            answer=lambda stat: stat.size,
        )

    def stream_in(self) -> Contenders:
        whole = CHUNK * self.places.sizes.large_chunks
        yield Contender(
            "agentfs-sdk write_file",
            lambda: self._fs.write_file("/large.bin", whole),
            awaits=True,
            every=10,
        )

    def stream_out(self) -> Contenders:
        written = False

        async def read() -> Any:
            nonlocal written
            if not written:  # in the first call, which is not timed
                await self._fs.write_file("/large.bin", CHUNK * self.places.sizes.large_chunks)
                written = True
            return await self._fs.read_file("/large.bin", encoding=None)

        yield Contender("agentfs-sdk read_file", read, awaits=True, answer=len, every=10)

    def startup(self) -> Contenders:
        yield Contender("import agentfs_sdk", interpreter("import agentfs_sdk"))
