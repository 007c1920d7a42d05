"""The files, directories and links that the kernel knows by number.

A node is a place in the tree, or what was taken away while programs had it open. Numbers are given
once and never again. Nothing here looks at the tree: what stands at a place is for others to say.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Iterator

from bailiwick.fronts.fuse.protocol import ROOT_ID
from bailiwick.fronts.fuse.staged_files import StagedBytes
from bailiwick.model import EntryType


class FuseNode:
    """One object. ``lock`` is held by whoever looks at its content or changes it."""

    def __init__(
        self, number: int, ino: int, kind: EntryType, parent: FuseNode | None, name: str
    ) -> None:
        self.number = number
        self.ino = ino
        self.kind: EntryType = kind
        self.parent = parent
        self.name = name
        self.children: dict[str, FuseNode] = {}
        self.lookups = 0
        """How often the kernel was told of it, less what it has forgotten."""
        self.readers = 0
        self.writers = 0
        self.staged: StagedBytes | None = None
        self.version: str | None = None
        """What was last seen there."""
        self.blocks: list[tuple[int, bytes]] = []
        """What was last read of that version: where, and what."""
        self.cached: str | None = None
        """The version of which the kernel has pages."""
        self.lock = threading.RLock()

    @property
    def is_open(self) -> bool:
        return self.readers + self.writers > 0

    @property
    def is_gone(self) -> bool:
        """Whether it was taken out of the tree."""
        return self.parent is None and self.number != ROOT_ID

    def seen(self, version: str) -> None:
        """It has this version now; what is remembered of another is dropped."""
        if version != self.version:
            self.version = version
            self.blocks.clear()


class FuseNodes:
    """All of them, by number and by place."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._last = ROOT_ID
        self._inos: set[int] = {ROOT_ID}
        self.root = FuseNode(ROOT_ID, ROOT_ID, "directory", None, "")
        self._by_number = {ROOT_ID: self.root}

    def __getitem__(self, number: int) -> FuseNode:
        node = self._by_number.get(number)
        if node is None:
            raise OSError(errno.ESTALE, "there is no such node")
        return node

    def path(self, node: FuseNode) -> str:
        """Where it stands, as a scope names it. Raises `OSError` where it was taken away."""
        with self._lock:
            names: list[str] = []
            here: FuseNode | None = node
            while here is not None and here.number != ROOT_ID:
                names.append(here.name)
                here = here.parent
            if here is None:
                raise OSError(errno.ENOENT, "it was taken away")
            return "/".join(reversed(names)) or "."

    def path_in(self, parent: FuseNode, name: str) -> str:
        above = self.path(parent)
        return name if above == "." else f"{above}/{name}"

    def child(self, parent: FuseNode, name: str) -> FuseNode | None:
        return parent.children.get(name)

    def known(self, parent: FuseNode, name: str, kind: EntryType) -> FuseNode:
        """The node at a place, at which something of this kind stands; told to the kernel."""
        with self._lock:
            node = parent.children.get(name)
            if node is not None and node.kind != kind:
                self.detach(node)
                node = None
            if node is None:
                path = self.path_in(parent, name)
                self._last += 1
                node = FuseNode(self._last, self._new_ino(path), kind, parent, name)
                self._by_number[node.number] = parent.children[name] = node
            node.lookups += 1
            return node

    def _new_ino(self, path: str) -> int:
        """By its path, so that it is the same whenever it is asked for; another where what had
        that name is still open."""
        salt = 0
        while True:
            digest = hashlib.blake2b(f"{salt}:{path}".encode("utf-8", "surrogateescape"))
            ino = int.from_bytes(digest.digest()[:8], "big") >> 1
            if ino not in self._inos:
                self._inos.add(ino)
                return ino
            salt += 1

    def detach(self, node: FuseNode) -> None:
        """It stands nowhere any more; who has it open keeps it."""
        with self._lock:
            parent = node.parent
            if parent is not None and parent.children.get(node.name) is node:
                del parent.children[node.name]
            node.parent = None
            self._drop_unneeded(node)

    def move(self, node: FuseNode, parent: FuseNode, name: str) -> None:
        """It stands elsewhere now, with all beneath it, and what stood there is gone."""
        with self._lock:
            other = parent.children.get(name)
            if other is not None and other is not node:
                self.detach(other)
            before = node.parent
            if before is not None and before.children.get(node.name) is node:
                del before.children[node.name]
            node.parent, node.name = parent, name
            parent.children[name] = node

    def forget(self, number: int, count: int) -> None:
        with self._lock:
            node = self._by_number.get(number)
            if node is not None and number != ROOT_ID:
                node.lookups -= count
                self._drop_unneeded(node)

    def closed(self, node: FuseNode) -> None:
        """Nobody has it open any more."""
        with self._lock:
            self._drop_unneeded(node)

    def _drop_unneeded(self, node: FuseNode | None) -> None:
        while node is not None and node.number != ROOT_ID:
            if node.lookups > 0 or node.children or node.is_open or node.staged is not None:
                return
            above = node.parent
            if above is not None and above.children.get(node.name) is node:
                del above.children[node.name]
            if self._by_number.pop(node.number, None) is not None:
                self._inos.discard(node.ino)
            node = above

    def new_in(self, parent: FuseNode) -> Iterator[FuseNode]:
        """What was made in a directory here and is nowhere else yet."""
        with self._lock:
            children = list(parent.children.values())
        for child in children:
            staged = child.staged
            if staged is not None and staged.is_new:
                yield child

    def staged(self) -> list[FuseNode]:
        """All that is being written."""
        with self._lock:
            return [node for node in self._by_number.values() if node.staged is not None]


def ino_of(parent: FuseNode, name: str) -> int:
    """The number that a listing shows: of what is known there, else any but none."""
    child = parent.children.get(name)
    return child.ino if child is not None else hash_of_name(name)


def hash_of_name(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "big") >> 1
