"""Changing rows: the two setters through which every change of a tree goes, and their log.

A setter ends or replaces what the branch itself says of a key, hides what an ancestor says where
that must be hidden, and writes down which key it touched. Undo, diff, merge and every cache live
on that log, so nothing else may write `dentry` and `inode` (but gc, which changes nothing that can
be seen).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bailiwick.stores.volume.lookup.cache import Cache
from bailiwick.stores.volume.rows.checksums import (
    DAMAGED,
    damaged,
    inode_guard,
    log_guard,
    name_guard,
)
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    NOTHING,
    BoundName,
    Inode,
    Numbers,
    RowKey,
    RowPlace,
)
from bailiwick.stores.volume.rows.tree import RowTree
from bailiwick.versions import Mark

_END_NAME: Final = """
UPDATE dentry SET died = $6
WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4 AND born = $5
"""
_DROP_NAME: Final = """
DELETE FROM dentry
WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4 AND born = $5
"""
PUT_NAME: Final = """
INSERT INTO dentry (volume, branch, parent, name, born, died, node, kind, guard)
VALUES ($1, $2, $3, $4, $5, 9223372036854775807, $6, $7, $8)
"""
NEW_INODE: Final = """
INSERT INTO inode (
    volume, branch, id, born, kind, mode, size, mtime_ns, edition, sha256, content, data,
    created_ns, guard
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
"""
_PUT_INODE: Final = f"""
{NEW_INODE}
ON CONFLICT (volume, branch, id, born) DO UPDATE SET
    kind = excluded.kind, mode = excluded.mode, size = excluded.size,
    mtime_ns = excluded.mtime_ns, edition = excluded.edition, sha256 = excluded.sha256,
    content = excluded.content, data = excluded.data, created_ns = excluded.created_ns,
    guard = excluded.guard
"""
TOUCH: Final = """
UPDATE inode SET mtime_ns = $5, guard = $6
WHERE volume = $1 AND branch = $2 AND id = $3 AND born = $4
"""
LOG: Final = """
INSERT INTO change (
    volume, branch, version, seq, time_ns, parent, name, node, was, verb, subject, request, note,
    key, guard
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
"""
_FALL: Final = """
INSERT INTO fallen (volume, branch, node, version, after) VALUES ($1, $2, $3, $4, '')
ON CONFLICT (volume, branch, node) DO UPDATE SET version = excluded.version, after = ''
"""
_RISE: Final = "DELETE FROM fallen WHERE volume = $1 AND branch = $2 AND node = $3"
_LEFT_OVER: Final = """
INSERT INTO upload (volume, content, expires_ms) VALUES ($1, $2, 0)
ON CONFLICT (volume, content) DO NOTHING
"""

_NO_MORE: Final = (None, None, None, None, None, None)

GONE: Final = (NOTHING, 0, 0, 0, 0, None, None, None)


class Attributes(NamedTuple):
    """What a node is to be, its id and its version left out. A new node without a time at which it
    was made is made now."""

    kind: int
    mode: int
    size: int
    mtime_ns: int
    edition: int | None
    sha256: bytes | None
    content: int | None
    data: bytes | None
    created_ns: int | None = None


def attributes_of(inode: Inode, **changed: Any) -> Attributes:
    """What a node is, to be written again. Raises `IoError` for one that cannot be believed."""
    if inode.content == DAMAGED:
        raise damaged()
    return Attributes(*inode[2:])._replace(**changed)


class Mutation:
    """One version of one branch in the making."""

    __slots__ = (
        "_sequence", "_verb", "before", "keys", "mark", "now_ns", "numbers", "touched", "tree",
        "version",
    )  # fmt: skip

    def __init__(
        self, tree: RowTree, numbers: Numbers, verb: str, mark: Mark, now_ns: int, *,
        before: Cache | None = None,
    ) -> None:  # fmt: skip
        """``before`` remembers what is changed as it was, for whoever compares in the end."""
        self.before = before
        self.tree = tree
        self.numbers = numbers
        self.version = numbers.next()
        self.mark = mark
        self.now_ns = now_ns
        self.touched: set[int] = set()
        self.keys: list[RowKey] = []  # the same as is logged
        self._verb = verb
        self._sequence = 0

    # --- names -------------------------------------------------------------------------------

    async def set_name(self, place: RowPlace, bound: BoundName | None) -> None:
        """Give a name to a node, or take it. The node must have no other name at this moment."""
        tree, (parent, name) = self.tree, place
        session, view, version = tree.session, tree.view, self.version
        key = (view.volume, view.branch, parent, name)
        was = await tree.name(parent, name)
        own = None
        if was is not None or self._may_hide:
            own = await tree.own_name(parent, name)
            tree.cache.own.pop(place, None)
        if own is not None:
            if own[0] == version:
                # A row that was born and died at once would stand in the way of the next one.
                await session.run(_DROP_NAME, *key, version)
            else:
                await session.run(_END_NAME, *key, own[0], version)
        if bound is not None:
            await session.run(PUT_NAME, *key, version, *bound, name_guard(parent, name, *bound))
        elif self._may_hide and await tree.is_inherited(parent, name):
            hidden = name_guard(parent, name, 0, NOTHING)
            await session.run(PUT_NAME, *key, version, 0, NOTHING, hidden)
        cache = tree.cache
        if self.before is not None:
            self._keep_name(self.before, place, was, bound)
        cache.names[parent, name] = bound
        if was is not None:
            cache.places[was.node] = None
        if bound is not None:
            cache.places[bound.node] = place
        await self._log(parent, name, bound.node if bound else 0, was.node if was else 0)
        self.touched.add(parent)

    @property
    def _may_hide(self) -> bool:
        """Whether there are ancestors, whose names may have to be hidden."""
        return len(self.tree.levels) > 1

    # --- nodes -------------------------------------------------------------------------------

    async def set_inode(self, node: int, attributes: Attributes) -> Inode:
        """Say what a node is from this version on. Content without an edition is of this one."""
        tree, version = self.tree, self.version
        view = tree.view
        edition = version if attributes.edition is None else attributes.edition
        old = await tree.inode(node) if self._sequence else None
        replaced = None if old is None or old.born != version else old.content
        if replaced is not None and replaced != attributes.content:
            # The row is about to be replaced, and gc finds contents by the rows it takes away.
            await tree.session.run(_LEFT_OVER, view.volume, replaced)
        inode = Inode(
            node, version, *attributes[:4], edition, *attributes[5:]
        )  # as `INODE_COLUMNS` has them
        if self.before is not None:
            self._keep_inode(self.before, node)
        guard = inode_guard(inode)
        # To look for a row that cannot be there takes as long as half of making one.
        put = _PUT_INODE if self._sequence else NEW_INODE
        await tree.session.run(put, view.volume, view.branch, *inode, guard)
        tree.cache.inodes[node] = inode
        await self._log(0, "", node, 0)
        return inode

    async def end_inode(self, bound: BoundName) -> None:
        """Say that a node is no more. What lies in a directory stays: nobody gets there."""
        tree = self.tree
        view = tree.view
        await self.set_inode(bound.node, Attributes(*GONE))
        tree.cache.inodes[bound.node] = None
        if bound.kind == DIRECTORY:
            await tree.session.run(_FALL, view.volume, view.branch, bound.node, self.version)

    async def revive(self, node: int, attributes: Attributes) -> Inode:
        """Take back that a node is no more, with all that lies in it."""
        tree = self.tree
        if attributes.kind == DIRECTORY:
            await tree.session.run(_RISE, tree.view.volume, tree.view.branch, node)
        return await self.set_inode(node, attributes)

    async def new_node(self, place: RowPlace, attributes: Attributes) -> Inode:
        """A node that never was, under a name."""
        node = self.numbers.next()
        # There is nothing to be looked for.
        self.tree.cache.inodes[node] = self.tree.cache.places[node] = None
        if attributes.created_ns is None:
            attributes = attributes._replace(created_ns=self.now_ns)
        inode = await self.set_inode(node, attributes)
        await self.set_name(place, BoundName(node, attributes.kind))
        return inode

    # --- what was before -------------------------------------------------------------------------

    def _keep_name(
        self, before: Cache, place: RowPlace, was: BoundName | None, bound: BoundName | None
    ) -> None:
        before.names.setdefault(place, was)
        if was is not None:
            before.places.setdefault(was.node, place)
        if bound is not None and bound.node not in before.places:
            if bound.node not in self.tree.cache.places:
                self.before = None  # it is not known, and to look takes as long as later
                return
            before.places[bound.node] = self.tree.cache.places[bound.node]

    def _keep_inode(self, before: Cache, node: int) -> None:
        if node not in before.inodes:
            if node not in self.tree.cache.inodes:
                self.before = None
                return
            before.inodes[node] = self.tree.cache.inodes[node]

    async def touch_directories(self) -> None:
        """Set the times of the directories in which names were changed.

        In place and without a version: else every new file would add a row to the history of its
        directory, and every merge would find that both sides had changed it.
        """
        tree = self.tree
        view = tree.view
        for node in self.touched:
            inode = await tree.inode(node)
            if inode is None or inode.kind != DIRECTORY:
                continue
            own = (view.volume, view.branch, node)
            if await self._is_own(inode):
                row = inode.touched(self.now_ns)
                await tree.session.run(TOUCH, *own, row.born, row.mtime_ns, inode_guard(row))
            else:
                row = inode._replace(born=self.version, mtime_ns=self.now_ns)
                await tree.session.run(_PUT_INODE, view.volume, view.branch, *row, inode_guard(row))
            tree.cache.inodes[node] = row

    async def _is_own(self, inode: Inode) -> bool:
        """Whether the row is of this branch: what an ancestor has is never changed."""
        levels = self.tree.levels
        return len(levels) == 1 or inode.born > levels[1].bound

    # --- log ---------------------------------------------------------------------------------

    async def touch_nothing(self) -> None:
        """Write down a version in which the tree is as it was: for the key that it carries."""
        await self._log(0, "", 0, 0)

    async def _log(self, parent: int, name: str, node: int, was: int) -> None:
        view = self.tree.view
        await self.tree.session.run(
            LOG, view.volume, view.branch, self.version, self._sequence, self.now_ns,
            parent, name, node, was, *(_NO_MORE if self._sequence else self._who()),
        )  # fmt: skip
        self.keys.append(RowKey(self.version, parent, name, node, was))
        self._sequence += 1

    def _who(self) -> tuple[str, str | None, str | None, bytes | None, bytes | None, int]:
        """What is written down once for a version, with its sum."""
        mark, branch = self.mark, self.tree.view.branch
        who = self._verb, mark.subject or None, mark.request_id or None, mark.note or None, mark.key
        return *who, log_guard(branch, self.version, self.now_ns, *who)
