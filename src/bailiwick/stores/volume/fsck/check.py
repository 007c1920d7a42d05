"""Looking for damage: every name, node, content, chunk and hash of a volume, and mending some."""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

from bailiwick.errors import IoError
from bailiwick.finishing import in_thread
from bailiwick.stores.volume.content.chunks import ZEROS, Chunk, checked, chunk_of, extents, fetched
from bailiwick.stores.volume.content.compression import Buffer
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.fsck.consistency import ConsistencyCheck
from bailiwick.stores.volume.retention.garbage import Pace, unpaced
from bailiwick.stores.volume.retention.release import Releasing
from bailiwick.stores.volume.rows.checksums import inode_guard, is_small_content, name_guard
from bailiwick.stores.volume.rows.database import HEAD, Row, RowSession, Transaction
from bailiwick.stores.volume.rows.records import DIRECTORY, FILE, LINK, NOTHING, BranchView, Inode
from bailiwick.stores.volume.rows.tree import INODE_COLUMNS, RowTree, open_tree

PAGE_ROWS: Final = 256

_INODES: Final = """
SELECT branch, id, born, kind, size, sha256, content, data FROM inode
WHERE volume = $1 AND (branch, id, born) > ($2, $3, $4) ORDER BY branch, id, born LIMIT $5
"""
_DENTRIES: Final = """
SELECT branch, parent, name, born, died, node, kind FROM dentry
WHERE volume = $1 AND (branch, parent, name, born) > ($2, $3, $4, $5)
ORDER BY branch, parent, name, born LIMIT $6
"""
_GUARDED_NAMES: Final = """
SELECT branch, parent, name, born, node, kind, guard FROM dentry
WHERE volume = $1 AND (branch, parent, name, born) > ($2, $3, $4, $5)
ORDER BY branch, parent, name, born LIMIT $6
"""
_GUARDED_NODES: Final = f"""
SELECT branch, guard, {INODE_COLUMNS} FROM inode
WHERE volume = $1 AND (branch, id, born) > ($2, $3, $4) ORDER BY branch, id, born LIMIT $5
"""
_CHUNKS: Final = """
SELECT id FROM chunk WHERE volume = $1 AND id > $2 ORDER BY id LIMIT $3
"""
_STRAY_MANIFEST: Final = """
SELECT DISTINCT m.content FROM manifest m WHERE m.volume = $1 AND NOT EXISTS (
    SELECT 1 FROM content c WHERE c.volume = m.volume AND c.id = m.content)
"""
_UNUSED: Final = """
SELECT c.id FROM content c WHERE c.volume = $1
    AND NOT EXISTS (SELECT 1 FROM inode i
        WHERE i.volume = c.volume AND i.content = c.id AND i.content IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM content d
        WHERE d.volume = c.volume AND d.base = c.id AND d.base IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM upload u WHERE u.volume = c.volume AND u.content = c.id)
"""
_UNUSED_CHUNKS: Final = """
SELECT c.id FROM chunk c WHERE c.volume = $1 AND NOT EXISTS (
    SELECT 1 FROM manifest m WHERE m.volume = c.volume AND m.chunk = c.id)
"""
_ROWID_CHUNK: Final = "DELETE FROM chunk WHERE volume = $1 AND id = $2 RETURNING blob"
_DOOM: Final = """
INSERT INTO doomed (volume, blob) VALUES ($1, $2) ON CONFLICT (volume, blob) DO NOTHING
"""
_END_NAME: Final = """
DELETE FROM dentry WHERE volume = $1 AND branch = $2 AND parent = $3 AND name = $4 AND born = $5
"""
_COUNTS: Final = {
    "versions": "SELECT count(DISTINCT version) FROM change WHERE volume = $1",
    "branches": "SELECT count(*) FROM branch WHERE volume = $1 AND name IS NOT NULL",
    "snapshots": "SELECT count(*) FROM snapshot WHERE volume = $1 AND ended IS NULL",
    "inline": "SELECT coalesce(sum(length(data)), 0) FROM inode WHERE volume = $1",
    "chunks": "SELECT coalesce(sum(coalesce(packed, size)), 0) FROM chunk WHERE volume = $1",
    "blobs": """
        SELECT coalesce(sum(coalesce(packed, size)), 0) FROM chunk
        WHERE volume = $1 AND blob IS NOT NULL
    """,
}


class Problem(NamedTuple):
    """Something that is not as it should be. ``mended`` says that it is now."""

    what: str
    path: str | None
    mended: bool = False


class Checked(NamedTuple):
    """What a check looked at and found; ``lost`` are files whose content is gone or wrong."""

    nodes: int
    names: int
    chunks: int
    problems: list[Problem]
    lost: list[str]

    @property
    def is_clean(self) -> bool:
        return not self.problems


class Info(NamedTuple):
    """How much a volume holds. ``bytes`` as files show them, ``stored_bytes`` as they are kept, in
    all versions and branches."""

    files: int
    directories: int
    links: int
    bytes: int
    stored_bytes: int
    blob_bytes: int
    versions: int
    branches: int
    snapshots: int

    @property
    def dedup_ratio(self) -> float:
        """Bytes of the files for each byte that is stored."""
        return self.bytes / self.stored_bytes if self.stored_bytes else 1.0


async def info(core: VolumeCore) -> Info:
    async with core.looking() as session:
        counts = {}
        for name, sql in _COUNTS.items():
            row = await session.row(sql, core.view.volume)
            counts[name] = int(row[0]) if row else 0
        tree = await core.tree(session)
        found, size = {FILE: 0, DIRECTORY: 0, LINK: 0}, 0
        waiting = [core.view.root]
        while waiting:
            for _, node, kind, bytes_, _ in await tree.listing(waiting.pop(), "", 10**9):
                found[kind] += 1
                if kind == DIRECTORY:
                    waiting.append(node)
                elif kind == FILE:
                    size += bytes_
    return Info(
        found[FILE], found[DIRECTORY], found[LINK], size, counts["inline"] + counts["chunks"],
        counts["blobs"], counts["versions"], counts["branches"], counts["snapshots"],
    )  # fmt: skip


async def check(core: VolumeCore, *, repair: bool, pace: Pace = unpaced) -> Checked:
    """Look at everything, a page at a time. What is written meanwhile may or may not be seen.
    ``pace`` is awaited after each page of rows."""
    return await _Check(core, pace, repair=repair).run()


class _Check:
    def __init__(self, core: VolumeCore, pace: Pace, *, repair: bool) -> None:
        self._core = core
        self._pace = pace
        self._repair = repair
        self._volume = core.view.volume
        self._problems: list[Problem] = []
        self._lost: list[str] = []
        self._bad_chunks: set[int] = set()
        self._sound: dict[int, bytes] = {}
        self._trees: dict[int, RowTree] = {}
        self._nodes = self._names = self._chunks = 0

    async def run(self) -> Checked:
        core = self._core
        core.hold(self)
        try:
            await self._check_file()
            for part in (
                self._check_guards, self._check_chunks, self._check_nodes, self._check_names,
                self._check_unused, self._check_agreement,
            ):  # fmt: skip
                try:
                    await part()
                except IoError as error:
                    self._found(f"cannot be read any further: {error.message}")
        finally:
            core.let_go(self)
        return Checked(
            self._nodes, self._names, self._chunks, self._problems, sorted(set(self._lost))
        )

    def _found(self, what: str, path: str | None = None, *, mended: bool = False) -> None:
        self._problems.append(Problem(what, path, mended))

    # --- the file and its rows -------------------------------------------------------------------

    async def _check_file(self) -> None:
        """What the database has to say: pages and indexes that do not fit together."""
        for what in await self._core.database.integrity():
            self._found(f"the database: {what}")

    async def _check_guards(self) -> None:
        """Rows that are not what was written. What lies beneath them is looked at all the same."""
        after: tuple[Any, ...] = (0, 0, "", 0)
        while rows := await self._page(_GUARDED_NAMES, after):
            for branch, parent, name, born, node, kind, guard in rows:
                if guard is not None and guard != name_guard(parent, name, node, kind):
                    self._found("the row of a name is damaged", name)
                after = (branch, parent, name, born)
        after = (0, 0, 0)
        while rows := await self._page(_GUARDED_NODES, after):
            for branch, guard, *row in rows:
                inode = Inode(*row)
                if guard is not None and guard != inode_guard(inode):
                    self._found(f"the row of node {inode.id}, version {inode.born}, is damaged")
                after = (branch, inode.id, inode.born)

    async def _page(self, sql: str, after: tuple[Any, ...]) -> list[Row]:
        async with self._core.looking() as session:
            rows = await session.rows(sql, self._volume, *after, PAGE_ROWS)
        await self._pace()
        return rows

    async def _check_agreement(self) -> None:
        """Rows that are not what others say: some of what nobody can read any wrong bytes from."""
        async for what in ConsistencyCheck(self._core, self._pace).faults():
            self._found(what)

    # --- chunks and contents ---------------------------------------------------------------------

    async def _check_chunks(self) -> None:
        after, more = 0, True
        while more:
            async with self._core.looking() as session:
                rows = await session.rows(_CHUNKS, self._volume, after, PAGE_ROWS)
            for (number,) in rows:
                await self._check_chunk(number)
                after = number
            more = len(rows) == PAGE_ROWS
            await self._pace()

    async def _check_chunk(self, number: int) -> None:
        async with self._core.looking() as session:
            try:
                chunk = await chunk_of(session, self._volume, number)
            except IoError:
                return  # gc was faster
        self._chunks += 1
        try:
            await in_thread(self._verify_chunk, chunk)
        except IoError as error:
            self._bad_chunks.add(number)
            self._found(f"chunk {number}: {error.message}")

    def _verify_chunk(self, chunk: Chunk) -> None:
        if chunk.blob is None:
            checked(chunk, chunk.data)
        else:
            fetched(self._core.blobs, chunk)

    async def _check_nodes(self) -> None:
        after, more = (0, 0, 0), True
        while more:
            async with self._core.looking() as session:
                rows = await session.rows(_INODES, self._volume, *after, PAGE_ROWS)
            for row in rows:
                await self._check_node(row)
                after = row[:3]
            more = len(rows) == PAGE_ROWS
            await self._pace()

    async def _check_node(self, row: Row) -> None:
        branch, node, born, kind, size, sha256, content, data = row
        self._nodes += 1
        wrong: str | None = None
        if kind == FILE:
            wrong = await self._check_content(size, sha256, content, data)
        elif kind == LINK and (data is None or len(data) != size):
            wrong = "the text of a link is damaged"
        elif kind not in (NOTHING, DIRECTORY, LINK):
            wrong = f"a node is of no known kind ({kind})"
        if wrong is None:
            return
        async with self._core.looking() as session:
            tree = await self._tree(session, branch)
            path = await tree.path(node)
            now = await tree.inode(node)
        where = path or f"node {node}"
        if now is not None and now.born == born:
            self._lost.append(where)
        self._found(f"version {born}: {wrong}", where)

    async def _check_content(
        self, size: int, sha256: bytes | None, content: int | None, data: bytes | None
    ) -> str | None:
        """What is wrong with a file's content, or None."""
        if content is None:
            return None if is_small_content(size, sha256, data) else "the content is damaged"
        known = self._sound.get(content)
        if known is None:
            wrong = await self._hash_content(content, size)
            if wrong is not None:
                return wrong
            known = self._sound[content]
        return None if known == sha256 else "the content is not what its hash says"

    async def _hash_content(self, content: int, size: int) -> str | None:
        digest, position = hashlib.sha256(), 0
        try:
            async with self._core.looking() as session:
                parts = await extents(session, self._volume, content, 0, size)
            for part in parts:
                if part.start != position:
                    return "a part of the content is missing"
                if part.chunk in self._bad_chunks:
                    return "a part of the content is damaged or missing"
                data = await self._bytes(part.chunk, part.size)
                await in_thread(digest.update, data)
                position += part.size
        except IoError as error:
            return error.message
        if position != size:
            return "a part of the content is missing"
        self._sound[content] = digest.digest()
        return None

    async def _bytes(self, number: int, size: int) -> Buffer:
        if number == ZEROS:
            return bytes(size)
        async with self._core.looking() as session:
            chunk = await chunk_of(session, self._volume, number)
        if chunk.blob is None:
            return checked(chunk, chunk.data)[:size]
        return (await in_thread(fetched, self._core.blobs, chunk))[:size]

    # --- names -----------------------------------------------------------------------------------

    async def _tree(self, session: RowSession, branch: int) -> RowTree:
        return await open_tree(
            session, BranchView(self._volume, branch, self._core.view.root, HEAD)
        )

    async def _check_names(self) -> None:
        after, more = (0, 0, "", 0), True
        while more:
            async with self._core.looking() as session:
                rows = await session.rows(_DENTRIES, self._volume, *after, PAGE_ROWS)
                wrong = [row for row in rows if not await self._is_name_sound(session, row)]
            for row in wrong:
                await self._found_name(row)
            self._names += len(rows)
            if rows:
                after = rows[-1][:4]
            more = len(rows) == PAGE_ROWS
            await self._pace()

    async def _is_name_sound(self, session: RowSession, row: Row) -> bool:
        branch, _, _, born, died, node, kind = row
        if born > died:
            return False
        if kind == NOTHING:
            return bool(node == 0)
        if born == died:
            return True
        # What the name leads to was there when it was given.
        view = BranchView(self._volume, branch, self._core.view.root, min(died - 1, HEAD))
        inode = await (await open_tree(session, view)).inode(node)
        return inode is not None and inode.kind == kind

    async def _found_name(self, row: Row) -> None:
        branch, parent, name, born, *_ = row
        if self._repair:
            key = (self._volume, branch, parent, name, born)
            await self._core.database.write(lambda turn: turn.session.run(_END_NAME, *key))
        self._found("a name leads to nothing", name, mended=self._repair)

    # --- what nothing refers to ------------------------------------------------------------------

    async def _check_unused(self) -> None:
        async with self._core.looking() as session:
            contents = [row[0] for row in await session.rows(_UNUSED, self._volume)]
            chunks = [row[0] for row in await session.rows(_UNUSED_CHUNKS, self._volume)]
            stray = [row[0] for row in await session.rows(_STRAY_MANIFEST, self._volume)]
        for content in contents:
            self._found(f"content {content} is of nothing", mended=self._repair)
        for chunk in chunks:
            self._found(f"chunk {chunk} is of nothing", mended=self._repair)
        for content in stray:
            self._found(f"content {content} is missing, its pieces are not", mended=self._repair)
        if self._repair and (contents or chunks or stray):
            await self._core.database.write(
                lambda turn: self._take_away(turn, [*contents, *stray], chunks)
            )

    async def _take_away(self, turn: Transaction, contents: list[int], chunks: list[int]) -> None:
        releasing = Releasing(self._volume)
        for content in contents:
            await releasing.release(turn, content)
        for chunk in chunks:
            row = await turn.session.row(_ROWID_CHUNK, self._volume, chunk)
            if row is not None and row[0] is not None:
                await turn.session.run(_DOOM, self._volume, row[0])
