"""Snapshots and forks: a version with a name, and a line of versions of its own.

Both cost a few rows, whatever the tree holds: a fork shows its parent as it was, and has rows only
for what it changes.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from bailiwick.errors import FileAlreadyExists, ParseError, PathNotFound
from bailiwick.stores.volume.core import (
    BRANCH,
    MAIN,
    ChangeTurn,
    Identity,
    VolumeCore,
    check_name,
    is_name,
)
from bailiwick.stores.volume.rows.checksums import row_guard
from bailiwick.stores.volume.rows.database import HEAD, INFINITY, RowSession, Transaction
from bailiwick.stores.volume.rows.records import NOBODY, BranchView
from bailiwick.stores.volume.rows.tree import Level, levels_of
from bailiwick.versions import Fork, Mark, Snapshot

Core = TypeVar("Core", bound=VolumeCore)

_PUT_SNAPSHOT: Final = """
INSERT INTO snapshot (volume, name, branch, version, created_ns, guard)
VALUES ($1, $2, $3, $4, $5, $6)
"""
_SNAPSHOT: Final = "SELECT 1 FROM snapshot WHERE volume = $1 AND name = $2"
_SNAPSHOTS: Final = """
SELECT s.name, coalesce(b.name, ''), s.version, s.created_ns FROM snapshot s
    JOIN branch b ON b.volume = s.volume AND b.id = s.branch
WHERE s.volume = $1 AND s.ended IS NULL ORDER BY s.name
"""
# Under a name that nobody can say, until nobody reads it any more.
_END_SNAPSHOT: Final = """
UPDATE snapshot SET name = name || '#' || CAST(CAST($3 AS BIGINT) AS TEXT), ended = $3, guard = NULL
WHERE volume = $1 AND name = $2
"""
_PUT_BRANCH: Final = """
INSERT INTO branch (volume, id, name, parent, at, expires_ms, created_ns, guard)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
_PUT_LINEAGE: Final = """
INSERT INTO lineage (volume, branch, depth, ancestor, bound) VALUES ($1, $2, $3, $4, $5)
"""
_BRANCHES: Final = """
SELECT b.name, coalesce(p.name, ''), b.at, b.created_ns FROM branch b
    LEFT JOIN branch p ON p.volume = b.volume AND p.id = b.parent
WHERE b.volume = $1 AND b.name IS NOT NULL ORDER BY b.name
"""
_NAME: Final = "SELECT coalesce(name, '') FROM branch WHERE volume = $1 AND id = $2"
_FORGET_BRANCH: Final = """
UPDATE branch SET name = NULL, expires_ms = 0, guard = NULL WHERE volume = $1 AND id = $2
"""
_END_BRANCH: Final = """
UPDATE branch SET name = NULL, expires_ms = 0, ended = $3, guard = NULL
WHERE volume = $1 AND id = $2
"""


class Forked(NamedTuple):
    """A branch that was made, and what it shows."""

    branch: int
    levels: tuple[Level, ...]


async def snapshot(turn: ChangeTurn, name: str, mark: Mark) -> Snapshot:
    """Give the newest version a name, and keep it for as long as it has it."""
    check_name("snapshot", name)
    view, session = turn.tree.view, turn.transaction.session
    if await session.row(_SNAPSHOT, view.volume, name) is not None:
        raise FileAlreadyExists(f"there is a snapshot {name!r} already")
    version, now_ns = turn.transaction.numbers.last, turn.core.clock_ns()
    row = name, view.branch, version, now_ns
    await session.run(_PUT_SNAPSHOT, view.volume, *row, row_guard(*row))
    await turn.keep_key("snapshot", mark)
    found = await session.row(_NAME, view.volume, view.branch)
    branch = "" if found is None else found[0]
    return Snapshot(name=name, branch=branch, version=str(version), created_ns=now_ns)


async def snapshots(core: VolumeCore) -> list[Snapshot]:
    async with core.looking() as session:
        rows = await session.rows(_SNAPSHOTS, core.view.volume)
    return [
        Snapshot(name=name, branch=branch, version=str(version), created_ns=made)
        for name, branch, version, made in rows
    ]


async def delete_snapshot(turn: ChangeTurn, name: str, mark: Mark) -> None:
    volume, session = turn.tree.view.volume, turn.transaction.session
    if not is_name(name) or await session.row(_SNAPSHOT, volume, name) is None:
        raise PathNotFound(f"there is no snapshot {name!r}")
    await session.run(_END_SNAPSHOT, volume, name, turn.transaction.numbers.next())
    await turn.keep_key("delete_snapshot", mark)


async def fork(
    turn: ChangeTurn, name: str | None, *, source: int | None = None, at: int | None = None,
    expires_ms: int = INFINITY, mark: Mark = NOBODY,
) -> Forked:  # fmt: skip
    """A new branch that shows another (this one) as it is, or as it was at a version.

    One without a name belongs to a transaction, and is abandoned when it expires. Whether the
    version is still kept was checked by whoever named it.
    """
    view, session = turn.tree.view, turn.transaction.session
    if name is not None:
        check_name("branch", name)
        if await session.row(BRANCH, view.volume, name) is not None:
            raise FileAlreadyExists(f"there is a branch {name!r} already")
    numbers = turn.transaction.numbers
    version = numbers.last if at is None else at
    parent = view.branch if source is None else source
    branch = numbers.next()
    row = branch, name, parent, version, expires_ms, turn.core.clock_ns()
    await session.run(_PUT_BRANCH, view.volume, *row, row_guard(*row))
    await session.run(_PUT_LINEAGE, view.volume, branch, 0, branch, HEAD)
    # The bound of an ancestor is the least on the way to it: an old version of a fork shows the
    # fork's own parent no later than the fork did, and no later than itself.
    if parent == view.branch:
        levels = tuple(Level(each, min(bound, version)) for each, bound in turn.core.levels)
    else:
        levels = await levels_of(session, BranchView(view.volume, parent, view.root, version))
    for depth, (ancestor, bound) in enumerate(levels, start=1):
        await session.run(_PUT_LINEAGE, view.volume, branch, depth, ancestor, bound)
    await turn.keep_key("fork", mark)
    return Forked(branch, (Level(branch, HEAD), *levels))


async def forks(core: VolumeCore) -> list[Fork]:
    async with core.looking() as session:
        rows = await session.rows(_BRANCHES, core.view.volume)
    return [
        Fork(name=name, parent=parent, version=str(at), created_ns=made)
        for name, parent, at, made in rows
    ]


async def delete_fork(turn: ChangeTurn, name: str, mark: Mark) -> None:
    """Let go of a branch: whoever has it open finds it closed. What others were forked from stays
    for as long as they do."""
    if name == MAIN:
        raise ParseError("the first branch is not deleted")
    view = turn.tree.view
    row = await turn.transaction.session.row(BRANCH, view.volume, name)
    if row is None:
        raise PathNotFound(f"there is no branch {name!r}")
    if row[0] == view.branch:
        raise ParseError("a branch is not deleted from within")
    ended = turn.transaction.numbers.next()  # a number: whoever looks notices that something is new
    await turn.transaction.session.run(_END_BRANCH, view.volume, row[0], ended)
    await turn.keep_key("delete_fork", mark)


async def forget_branch(transaction: Transaction, volume: int, branch: int) -> None:
    await transaction.session.run(_FORGET_BRANCH, volume, branch)


async def branch_named(session: RowSession, volume: int, name: str) -> int:
    row = await session.row(BRANCH, volume, name)
    if row is None:
        raise PathNotFound(f"there is no branch {name!r}")
    return int(row[0])


async def open_branch(core: VolumeCore, branch: int) -> VolumeCore:
    """Another branch of the same volume, with the same settings and a life of its own."""
    return open_sibling(core, await forked_again(core, branch), VolumeCore)


async def forked_again(core: VolumeCore, branch: int) -> Forked:
    """A branch that was made before. Raises `PathNotFound` where it was deleted."""
    async with core.looking() as session:
        levels = await levels_of(session, core.view._replace(branch=branch, at=HEAD))
    if not levels:
        raise PathNotFound("the branch was deleted")
    return Forked(branch, levels)


def open_sibling(core: VolumeCore, forked: Forked, kind: type[Core]) -> Core:
    """The core of a branch of which is known what it shows."""
    branch, levels = forked
    shared = core.database.shared.acquire_again()
    try:
        database = shared.database(core.view.volume)
    except BaseException:
        shared.release_blocking()
        raise
    identity = Identity(core.view.volume, core.identity.uid, branch, core.view.root)
    return kind(
        database, identity, levels, core.blobs,
        limits=core.limits, modes=core.modes, clock_ns=core.clock_ns,
        uptime=core.uptime, pack=core.pack,
    )  # fmt: skip
