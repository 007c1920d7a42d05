"""Who works on many different files: one library's way to do each verb, in a tree of its own.

A verb returns its answer, or something to be awaited where the hand ``awaits``. What a library has
no verb for is done plainly, and its remark says so.
"""

import contextlib
import glob
import os
import pathlib
import re
import resource
import shutil
import sqlite3
import subprocess
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:  # a plain hand is not to bear the weight of the package
    from bailiwick.model import Durability
    from bailiwick.operations import Access

PLAIN = "plain open()"
AWAITED = "Bailiwick"
BLOCKING = "Bailiwick, blocking"
GOVERNED = "Bailiwick, governed"
GOVERNED_HISTORY = "Bailiwick, governed, with history"
VOLUME = "Bailiwick volume"
HTTP = "Bailiwick over HTTP, with history, durable"
REFERENCE = "sqlite3 reference"
FSSPEC = "fsspec"
DEEPAGENTS = "deepagents"


class Hand:
    """One way to work on the files of ``place``, with ``state`` for what it keeps elsewhere."""

    name: ClassVar[str]
    ours: ClassVar[bool] = False
    awaits: ClassVar[bool] = False
    edits: ClassVar[bool] = True
    """Whether it edits, moves and removes: the least that a database can be does not."""

    def __init__(self, place: pathlib.Path, state: pathlib.Path) -> None:
        self.place = place
        self.state = state

    async def open(self) -> None:
        """Get ready. Raises where the library is not installed."""

    async def close(self) -> None:
        """Let go of everything."""

    async def fill(self, files: dict[str, bytes]) -> None:
        """Have these files there; nothing of this is timed."""
        for path, data in files.items():
            target = self.place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def processor_s(self) -> float:
        """What it took of the processor so far, in every process that works for it."""
        whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))

    def read(self, path: str) -> Any:
        with open(f"{self.place}/{path}", "rb") as file:
            return file.read()

    def window(self, path: str, line: int, limit: int) -> Any:
        with open(f"{self.place}/{path}", encoding="utf-8") as file:
            return file.readlines()[line - 1 : line - 1 + limit]

    def write(self, path: str, data: bytes) -> Any:
        with open(f"{self.place}/{path}", "wb") as file:
            file.write(data)

    def create(self, path: str, data: bytes) -> Any:
        """A file that may need the directories above it."""
        os.makedirs(os.path.dirname(f"{self.place}/{path}"), exist_ok=True)
        self.write(path, data)

    def edit(self, path: str, old: str, new: str) -> Any:
        with open(f"{self.place}/{path}", encoding="utf-8") as file:
            text = file.read()
        with open(f"{self.place}/{path}", "w", encoding="utf-8") as file:
            file.write(text.replace(old, new, 1))

    def stat(self, path: str) -> Any:
        return os.stat(f"{self.place}/{path}")

    def move(self, path: str, to: str) -> Any:
        os.rename(f"{self.place}/{path}", f"{self.place}/{to}")

    def remove(self, path: str) -> Any:
        os.unlink(f"{self.place}/{path}")

    def list(self, path: str) -> Any:
        with os.scandir(f"{self.place}/{path}") as entries:
            return sorted((entry.name, entry.stat().st_size) for entry in entries)

    def tree(self) -> Any:
        return list(os.walk(self.place))

    def glob(self, pattern: str) -> Any:
        return glob.glob(pattern, root_dir=self.place, recursive=True)

    def grep(self, word: str) -> Any:
        program = shutil.which("rg")
        if program is None:
            raise FileNotFoundError("rg is not installed")
        command = [program, "--no-config", "-n", "-F", word, "."]
        return subprocess.run(command, cwd=self.place, capture_output=True).stdout


class PlainHand(Hand):
    name = PLAIN


class ReplacingHand(Hand):
    """What it takes at least that no reader ever sees half of a file."""

    name = "plain temp and rename"
    edits = False

    def write(self, path: str, data: bytes) -> Any:
        super().write(path + ".temp", data)
        os.replace(f"{self.place}/{path}.temp", f"{self.place}/{path}")


class ScopeHand(Hand):
    """The verbs of a scope, whoever gave it."""

    ours = True
    scope: Any

    def read(self, path: str) -> Any:
        return self.scope.read_bytes(path)

    def window(self, path: str, line: int, limit: int) -> Any:
        return self.scope.read_text(path, line=line, limit=limit)

    def write(self, path: str, data: bytes) -> Any:
        return self.scope.write_bytes(path, data)

    def create(self, path: str, data: bytes) -> Any:
        return self.scope.write_bytes(path, data, parents=True)

    def edit(self, path: str, old: str, new: str) -> Any:
        return self.scope.edit(path, old=old, new=new)

    def stat(self, path: str) -> Any:
        return self.scope.stat(path)

    def move(self, path: str, to: str) -> Any:
        return self.scope.move(path, to)

    def remove(self, path: str) -> Any:
        return self.scope.remove(path)

    def list(self, path: str) -> Any:
        return self.scope.list(path)

    def tree(self) -> Any:
        return self.scope.files()

    def glob(self, pattern: str) -> Any:
        return self.scope.glob(pattern)

    def grep(self, word: str) -> Any:
        return self.scope.grep(word, literal=True)


class AwaitedHand(ScopeHand):
    """`bailiwick.open`, each call awaited."""

    name = AWAITED
    awaits = True
    durability: ClassVar["Durability"] = "rename"

    async def open(self) -> None:
        import bailiwick

        self._closing = contextlib.AsyncExitStack()
        self.scope = await self._closing.enter_async_context(
            bailiwick.open(self.place, durability=self.durability, state_dir=str(self.state))
        )

    async def close(self) -> None:
        await self._closing.aclose()


class DurableHand(AwaitedHand):
    name = "Bailiwick, durable"
    durability = "full"


class BlockingHand(ScopeHand):
    """`bailiwick.open_sync`, as blocking code calls it."""

    name = BLOCKING

    async def open(self) -> None:
        import bailiwick

        self._closing = contextlib.ExitStack()
        self.scope = self._closing.enter_context(
            bailiwick.open_sync(self.place, durability="rename", state_dir=str(self.state))
        )

    async def close(self) -> None:
        self._closing.close()


class GovernedHand(ScopeHand):
    """An agent under an authority: rules, a ledger on disk, a feed."""

    name = GOVERNED
    awaits = True
    options: ClassVar[dict[str, str]] = {"durability": "rename"}

    async def open(self) -> None:
        import bailiwick

        self._closing = contextlib.AsyncExitStack()
        authority = await self._closing.enter_async_context(
            bailiwick.Authority.open(state_dir=str(self.state))
        )
        await authority.add_root("workspace:bench", str(self.place), trusted=True, **self.options)
        access: set[Access] = {"read", "metadata", "list", "write", "delete", "move"}
        await authority.add_grant(
            subject="agent_run:*", root="workspace:bench", access=access, by=bailiwick.User("bench")
        )
        self.scope = await authority.request_root(
            bailiwick.AgentRun("bench", "1"), "workspace:bench", access, "measuring"
        )

    async def close(self) -> None:
        await self._closing.aclose()


class HistoryHand(GovernedHand):
    """What `serve DIR` and `mcp DIR` do."""

    name = GOVERNED_HISTORY
    options: ClassVar[dict[str, str]] = {"durability": "rename", "history": "on"}


class DurableGovernedHand(GovernedHand):
    name = "Bailiwick, governed, durable"
    options: ClassVar[dict[str, str]] = {"durability": "full"}


class DurableHistoryHand(GovernedHand):
    name = "Bailiwick, governed, with history, durable"
    options: ClassVar[dict[str, str]] = {"durability": "full", "history": "on"}


class HttpHand(ScopeHand):
    """The client, and `bailiwick serve DIR` as it is shipped but for fsync: history and all."""

    name = HTTP
    awaits = True

    async def open(self) -> None:
        from bailiwick.client import connect
        from bench.servers import served

        self._closing = contextlib.AsyncExitStack()
        self._server = self._closing.enter_context(served(self.place, self.state))
        self.scope = await self._closing.enter_async_context(
            connect(self._server.url, token=self._server.token)
        )

    async def close(self) -> None:
        await self._closing.aclose()

    def processor_s(self) -> float:
        return super().processor_s() + self._server.processor_s()


class VolumeHand(ScopeHand):
    """A volume in SQLite, a commit for each change."""

    name = VOLUME
    awaits = True

    async def open(self) -> None:
        import bailiwick

        self._closing = contextlib.AsyncExitStack()
        self.state.mkdir(parents=True, exist_ok=True)
        self.scope = await self._closing.enter_async_context(
            bailiwick.open(f"sqlite:{self.state}/volume.db")
        )

    async def fill(self, files: dict[str, bytes]) -> None:
        for path, data in files.items():
            await self.scope.write_bytes(path, data, parents=True)
        await self.close()  # what it remembers of what it wrote would flatter it
        await self.open()

    async def close(self) -> None:
        await self._closing.aclose()


class ReferenceHand(Hand):
    """The least that a filesystem in SQLite can be: one table without versions, nothing checked."""

    name = REFERENCE
    edits = False

    async def open(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(f"{self.state}/reference.db", isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = wal",
            "PRAGMA synchronous = full",
            "CREATE TABLE file (path TEXT PRIMARY KEY, mtime INTEGER, data BLOB) WITHOUT ROWID",
        ):
            self._database.execute(statement)

    async def fill(self, files: dict[str, bytes]) -> None:
        for path, data in files.items():
            self.write(path, data)

    async def close(self) -> None:
        self._database.close()

    def read(self, path: str) -> Any:
        found = self._database.execute("SELECT data FROM file WHERE path = ?", (path,))
        return found.fetchone()[0]

    def write(self, path: str, data: bytes) -> Any:
        self._database.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?)", (path, 1, data))

    def create(self, path: str, data: bytes) -> Any:
        self.write(path, data)

    def stat(self, path: str) -> Any:
        found = self._database.execute("SELECT mtime, length(data) FROM file WHERE path=?", (path,))
        return found.fetchone()


class FsspecHand(Hand):
    name = FSSPEC

    async def open(self) -> None:
        from fsspec.implementations.local import LocalFileSystem

        self._local = LocalFileSystem()

    def read(self, path: str) -> Any:
        return self._local.cat_file(f"{self.place}/{path}")

    def window(self, path: str, line: int, limit: int) -> Any:
        with self._local.open(f"{self.place}/{path}", "r") as file:
            return file.readlines()[line - 1 : line - 1 + limit]

    def write(self, path: str, data: bytes) -> Any:
        self._local.pipe_file(f"{self.place}/{path}", data)

    def create(self, path: str, data: bytes) -> Any:
        self._local.makedirs(os.path.dirname(f"{self.place}/{path}"), exist_ok=True)
        self.write(path, data)

    def edit(self, path: str, old: str, new: str) -> Any:
        self.write(path, self.read(path).replace(old.encode(), new.encode(), 1))

    def stat(self, path: str) -> Any:
        return self._local.info(f"{self.place}/{path}")

    def move(self, path: str, to: str) -> Any:
        self._local.mv(f"{self.place}/{path}", f"{self.place}/{to}")

    def remove(self, path: str) -> Any:
        self._local.rm_file(f"{self.place}/{path}")

    def list(self, path: str) -> Any:
        return self._local.ls(f"{self.place}/{path}", detail=True)

    def tree(self) -> Any:
        return self._local.find(str(self.place))

    def glob(self, pattern: str) -> Any:
        return self._local.glob(f"{self.place}/{pattern}")

    def grep(self, word: str) -> Any:
        """It has no search: every file is read."""
        wanted, found = re.compile(re.escape(word.encode())), []
        for path in self._local.find(str(self.place)):
            found += wanted.findall(self._local.cat_file(path))
        return found


class DeepAgentsHand(Hand):
    """Stat, move and remove are plain: it has no verb for them."""

    name = DEEPAGENTS

    async def open(self) -> None:
        from deepagents.backends import FilesystemBackend

        self._disk = FilesystemBackend(root_dir=self.place, virtual_mode=True)

    @staticmethod
    def _checked(result: Any) -> Any:
        if result.error is not None:
            raise ValueError(result.error)
        return result

    def read(self, path: str) -> Any:
        return self._checked(self._disk.read(f"/{path}")).file_data["content"]

    def window(self, path: str, line: int, limit: int) -> Any:
        return self._checked(self._disk.read(f"/{path}", line - 1, limit))

    def write(self, path: str, data: bytes) -> Any:
        return self._checked(self._disk.write(f"/{path}", data.decode()))

    def create(self, path: str, data: bytes) -> Any:
        return self.write(path, data)

    def edit(self, path: str, old: str, new: str) -> Any:
        return self._checked(self._disk.edit(f"/{path}", old, new))

    def list(self, path: str) -> Any:
        return self._disk.ls(f"/{path}")

    def glob(self, pattern: str) -> Any:
        return self._disk.glob(pattern)

    def grep(self, word: str) -> Any:
        return self._checked(self._disk.grep(word, "/"))


HANDS: tuple[type[Hand], ...] = (
    PlainHand,
    ReplacingHand,
    AwaitedHand,
    BlockingHand,
    GovernedHand,
    HistoryHand,
    VolumeHand,
    ReferenceHand,
    FsspecHand,
    DeepAgentsHand,
)
"""In the order in which they take turns; plain calls are the baseline."""
