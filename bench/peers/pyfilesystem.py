"""PyFilesystem2's `OSFS` and `MemoryFS`."""

import warnings

from bench.peers.peer import Contenders, Peer
from bench.peers.plain import interpreter
from bench.scratch import CHUNK, SMALL
from bench.timing import Contender


class PyFilesystem(Peer):
    name = "PyFilesystem2"
    remark = "follows links out of its root, writes are not atomic"

    async def open(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports pkg_resources, which is deprecated
            import fs
            from fs.memoryfs import MemoryFS
            from fs.osfs import OSFS

        self._version: str = fs.__version__
        self._disk = OSFS(str(self.places.memory))
        self._memory = MemoryFS()
        self._memory.makedir("/docs")
        self._memory.writebytes("/docs/small.txt", SMALL)

    async def close(self) -> None:
        self._disk.close()
        self._memory.close()

    def version(self) -> str:
        return self._version

    def read(self) -> Contenders:
        disk = self._disk
        yield Contender(
            "PyFilesystem2 readbytes", lambda: disk.readbytes("docs/small.txt"), answer=len
        )

    def write(self) -> Contenders:
        disk = self._disk
        yield Contender("PyFilesystem2 writebytes", lambda: disk.writebytes("docs/pyfs.txt", SMALL))

    def listing(self) -> Contenders:
        def scan() -> list[tuple[str, int, object]]:
            found = self._disk.scandir("many", namespaces=["details"])
            return [(info.name, info.size, info.modified) for info in found]

        yield Contender("PyFilesystem2 scandir", scan, answer=len)

    def stat(self) -> Contenders:
        disk = self._disk
        yield Contender(
            "PyFilesystem2 getinfo",
            lambda: disk.getinfo("docs/small.txt", namespaces=["details"]),
            answer=lambda info: info.size,
        )

    def stream_in(self) -> Contenders:
        def write() -> None:
            with self._disk.openbin("pyfs.bin", "w") as file:
                for _ in range(self.places.sizes.large_chunks):
                    file.write(CHUNK)

        yield Contender("PyFilesystem2 openbin().write()", write)

    def stream_out(self) -> Contenders:
        def read() -> int:
            size = 0
            with self._disk.openbin("large.bin") as file:
                while chunk := file.read(len(CHUNK)):
                    size += len(chunk)
            return size

        yield Contender("PyFilesystem2 openbin().read()", read, answer=int)

    def memory_read(self) -> Contenders:
        memory = self._memory
        yield Contender(
            "PyFilesystem2 readbytes", lambda: memory.readbytes("/docs/small.txt"), answer=len
        )

    def memory_write(self) -> Contenders:
        memory = self._memory
        yield Contender(
            "PyFilesystem2 writebytes", lambda: memory.writebytes("/docs/other.txt", SMALL)
        )

    def startup(self) -> Contenders:
        quiet = "import warnings; warnings.simplefilter('ignore'); import fs.osfs"
        yield Contender("import fs.osfs", interpreter(quiet))
