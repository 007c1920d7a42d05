"""`BucketStore`: names between slashes are directories, objects are files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from bailiwick.errors import BailiwickError, HashMismatch, ReadOnly
from bailiwick.finishing import in_thread
from bailiwick.limits import Limits
from bailiwick.nodes import ROOT_ID, Node, NodeStore
from bailiwick.paths import parse

_FILE_MODE: Final = 0o444
_DIRECTORY_MODE: Final = 0o555

_FRESH_NS: Final = 1_000_000_000
"""For so long what a listing told is not asked for again: a walk looks at each name that it was
told of, and what others change shows within a second."""

_REMEMBERED_MAX: Final = 10_000
"""Names that are remembered for that time: ten answers of the service, of a few hundred bytes."""


class SeenObject(Protocol):
    """An object: its last name, and what it is known by until it is replaced."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def version(self) -> str: ...


class ListedObjects(Protocol):
    """What lies in a directory: its objects, and the names of directories."""

    @property
    def files(self) -> Sequence[SeenObject]: ...
    @property
    def directories(self) -> Sequence[str]: ...


class BucketObjects(Protocol):
    """The objects of a bucket, by keys without a slash at either end. Its methods block, and raise
    `IoError`."""

    def look(self, key: str) -> SeenObject | None: ...
    def has_beneath(self, key: str) -> bool: ...
    def listed(self, key: str) -> ListedObjects: ...

    def read(self, key: str, offset: int, length: int, version: str) -> bytes | None:
        """A range of an object; None where another stands there than the ``version``."""
        ...

    def close(self) -> None: ...


class BucketStore(NodeStore):
    """Names and bytes of a bucket. A name that no path can say does not show; where an object has
    the name of a directory, the directory shows."""

    kind = "bucket"
    durability = "of the service"

    def __init__(
        self,
        objects: BucketObjects,
        *,
        clock_ns: Callable[[], int],
        monotonic_ns: Callable[[], int],
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            clock_ns=clock_ns, new_id=_nothing_new, symlinks="reject", limits=limits,
            new_file_mode=_FILE_MODE,
        )  # fmt: skip
        self._objects = objects
        self._monotonic_ns = monotonic_ns
        self._told: dict[str, tuple[int, Node]] = {}

    def new_node(self, *args: object, **kwargs: object) -> Node:
        """Only the root is made here."""
        return _directory(ROOT_ID, "", "")

    async def get_node(self, node_id: str) -> Node | None:
        if node_id == ROOT_ID:
            return self._root
        parent, _, name = node_id.rpartition("/")
        return await self.find_node(parent or ROOT_ID, name)

    async def find_node(self, directory_id: str, name: str) -> Node | None:
        node_id = _id_of(directory_id, name)
        told = self._told.get(node_id)
        if told is not None and self._monotonic_ns() - told[0] < _FRESH_NS:
            return told[1]
        return await in_thread(self._find, directory_id, node_id, name)

    def _find(self, directory_id: str, node_id: str, name: str) -> Node | None:
        seen = self._objects.look(node_id)
        if self._objects.has_beneath(node_id):
            return _directory(node_id, directory_id, name)
        return None if seen is None else _file(node_id, directory_id, seen)

    async def list_nodes(self, directory_id: str) -> Iterable[Node]:
        listed = await in_thread(self._objects.listed, _key_of(directory_id))
        found = {
            each.name: _file(_id_of(directory_id, each.name), directory_id, each)
            for each in listed.files
        }
        found |= {
            name: _directory(_id_of(directory_id, name), directory_id, name)
            for name in listed.directories
        }
        nodes = [node for name, node in found.items() if _can_be_said(name)]
        now = self._monotonic_ns()
        if len(self._told) + len(nodes) > _REMEMBERED_MAX:
            self._told.clear()
        self._told.update((each.id, (now, each)) for each in nodes[:_REMEMBERED_MAX])
        return nodes

    async def content_of(self, node: Node, offset: int = 0, length: int | None = None) -> bytes:
        end = node.size if length is None else min(node.size, offset + length)
        if offset >= end:
            return b""
        data = await in_thread(self._objects.read, node.id, offset, end - offset, node.version)
        if data is None:
            self._told.pop(node.id, None)
            raise HashMismatch("it was changed while it was read", hint="read it again")
        return data

    async def commit(self, put: Sequence[Node], gone: Sequence[Node]) -> None:
        raise ReadOnly("a bucket can only be read here")

    async def release(self) -> None:
        await in_thread(self._objects.close)


def _nothing_new() -> str:
    return ""


def _key_of(directory_id: str) -> str:
    return "" if directory_id == ROOT_ID else directory_id


def _id_of(directory_id: str, name: str) -> str:
    return name if directory_id == ROOT_ID else f"{directory_id}/{name}"


def _file(node_id: str, parent: str, seen: SeenObject) -> Node:
    return Node(
        node_id, parent, seen.name, "file", b"", None, _FILE_MODE, seen.mtime_ns, seen.mtime_ns,
        seen.version, seen.size,
    )  # fmt: skip


def _directory(node_id: str, parent: str, name: str) -> Node:
    return Node(node_id, parent, name, "directory", b"", None, _DIRECTORY_MODE, 0, 0, "")


def _can_be_said(name: str) -> bool:
    try:
        return parse(name).path.parts == (name,)
    except BailiwickError:
        return False
