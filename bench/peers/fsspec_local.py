"""fsspec's local and memory filesystems, called directly and not through its registry."""

from typing import Any

from bench.peers.peer import Contenders, Peer
from bench.peers.plain import interpreter
from bench.scratch import CHUNK, SMALL
from bench.timing import Contender

CAT_FILE = "fsspec cat_file"


class FsspecLocal(Peer):
    name = "fsspec"
    remark = "no confinement, writes are not atomic"

    async def open(self) -> None:
        import fsspec
        from fsspec.implementations.local import LocalFileSystem
        from fsspec.implementations.memory import MemoryFileSystem

        self._version: str = fsspec.__version__
        self._local = LocalFileSystem()
        self._memory = MemoryFileSystem()
        self._memory.pipe_file("/docs/small.txt", SMALL)

    def version(self) -> str:
        return self._version

    def read(self) -> Contenders:
        local, path = self._local, str(self.places.memory / "docs" / "small.txt")

        def read() -> Any:
            with local.open(path, "rb") as file:
                return file.read()

        yield Contender(CAT_FILE, lambda: local.cat_file(path), answer=len)
        yield Contender("fsspec open().read()", read, answer=len)

    def write(self) -> Contenders:
        local, path = self._local, str(self.places.memory / "docs" / "fsspec.txt")
        yield Contender("fsspec pipe_file", lambda: local.pipe_file(path, SMALL))

    def listing(self) -> Contenders:
        local, path = self._local, str(self.places.memory / "many")
        yield Contender("fsspec ls", lambda: local.ls(path, detail=True), answer=len)

    def stat(self) -> Contenders:
        local, path = self._local, str(self.places.memory / "docs" / "small.txt")
        yield Contender("fsspec info", lambda: local.info(path), answer=lambda got: got["size"])

    def stream_in(self) -> Contenders:
        path = str(self.places.memory / "fsspec.bin")

        def write() -> None:
            with self._local.open(path, "wb") as file:
                for _ in range(self.places.sizes.large_chunks):
                    file.write(CHUNK)

        yield Contender("fsspec open().write()", write)

    def stream_out(self) -> Contenders:
        path = str(self.places.memory / "large.bin")

        def read() -> int:
            size = 0
            with self._local.open(path, "rb") as file:
                while chunk := file.read(len(CHUNK)):
                    size += len(chunk)
            return size

        yield Contender("fsspec open().read()", read, answer=int)

    def memory_read(self) -> Contenders:
        memory = self._memory
        yield Contender(CAT_FILE, lambda: memory.cat_file("/docs/small.txt"), answer=len)

    def memory_write(self) -> Contenders:
        memory = self._memory
        yield Contender("fsspec pipe_file", lambda: memory.pipe_file("/docs/other.txt", SMALL))

    def startup(self) -> Contenders:
        local = "fsspec.implementations.local"
        yield Contender(f"import {local}", interpreter(f"import {local}"))
