"""What a change of many nodes will ask for, fetched ahead: one trip instead of one for each.

In the words of PostgreSQL. What is fetched is remembered by the trees that will be asked, and what
they remember already stays as it is: it may be newer than any row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from bailiwick.stores.volume.lookup.cache import LEVELS_MAX, Cache
from bailiwick.stores.volume.rows.checksums import checked_inode, checked_name
from bailiwick.stores.volume.rows.database import Row, RowSession
from bailiwick.stores.volume.rows.records import NOTHING, Inode, RowPlace
from bailiwick.stores.volume.rows.tree import INODE, NAME, NO_INODE, OWN_NAME, PLACE, RowTree

_ASKED_MAX: Final = 1_000
"""Nodes and names in one statement: with the content of small files a few mebibytes."""


def _lateral(sql: str, **columns: str) -> str:
    """A statement for each row of another, whose columns stand for its parameters."""
    for number, column in columns.items():
        sql = sql.replace(f"${number[1:]}", column)
    return f"({sql})"


_PLACE: Final = _lateral(PLACE, p2="u.branch", p3="u.at", p4="u.node")
_INODE: Final = _lateral(INODE, p2="u.branch", p3="u.at", p4="u.node", p5="0")
_NAME: Final = _lateral(NAME, p2="n.branch", p3="n.at", p4="n.parent", p5="n.name", p6="0")
_OWN: Final = _lateral(OWN_NAME, p2="n.branch", p3="n.parent", p4="n.name")

# Nodes with all that they lie in, names, and whether a draft stands ($11, where that is asked).
_AHEAD: Final = f"""
WITH RECURSIVE up (tree, branch, at, node) AS (
    SELECT w.* FROM unnest(CAST($2 AS BIGINT[]), CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[]),
        CAST($5 AS BIGINT[])) AS w (tree, branch, at, node)
    UNION
    SELECT u.tree, u.branch, u.at, p.parent FROM up u CROSS JOIN LATERAL {_PLACE} p
)
SELECT u.tree, 0 AS is_name, u.node, p.parent, p.name, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT),
    CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), i.*
FROM up u LEFT JOIN LATERAL {_PLACE} p ON TRUE LEFT JOIN LATERAL {_INODE} i ON TRUE
UNION ALL
SELECT n.tree, 1, f.node, n.parent, n.name, f.kind, f.guard, o.born, o.node, o.kind, {NO_INODE}
FROM unnest(CAST($6 AS BIGINT[]), CAST($7 AS BIGINT[]), CAST($8 AS BIGINT[]),
    CAST($9 AS BIGINT[]), CAST($10 AS TEXT[])) AS n (tree, branch, at, parent, name)
    LEFT JOIN LATERAL {_NAME} f ON TRUE LEFT JOIN LATERAL {_OWN} o ON TRUE
UNION ALL
SELECT -1, 0, b.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {NO_INODE} FROM branch b
WHERE b.volume = $1 AND b.id = $11 AND b.name IS NULL AND b.expires_ms > 0
"""


class AskedAhead(NamedTuple):
    """Nodes, with what they lie in, and names that will be asked of a tree."""

    tree: RowTree
    nodes: Iterable[int]
    names: Iterable[RowPlace] = ()


async def fetch_ahead(
    session: RowSession, volume: int, wanted: list[AskedAhead], draft: int = 0
) -> bool:
    """Have trees remember what they will be asked for. Returns whether a branch is a ``draft`` that
    stands."""
    trees = [each.tree for each in wanted]
    asked = list(_asked(wanted))
    stands = False
    for first in range(0, len(asked) or 1, _ASKED_MAX):
        batch = asked[first : first + _ASKED_MAX]
        ways = [each for each in batch if len(each) == 4]
        names = [each for each in batch if len(each) == 5]
        parameters = [*_columns(ways, 4), *_columns(names, 5)]
        for number, *row in await session.rows(_AHEAD, volume, *parameters, draft):
            if number < 0:
                stands = True
            else:
                _remember(trees[number], *row)
    return stands


def _asked(wanted: list[AskedAhead]) -> Iterator[tuple[Any, ...]]:
    for number, (tree, nodes, names) in enumerate(wanted):
        branch, at = tree.view.branch, tree.view.at
        for node in {_unknown_above(tree, node) for node in nodes} - {None}:
            yield number, branch, at, node
        for place in names:
            yield number, branch, at, *place


def _columns(rows: list[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]


def _unknown_above(tree: RowTree, node: int) -> int | None:
    """The node itself, or what it lies in, of which something is not remembered."""
    caches = [tree.cache, *([known] if (known := tree.cache.known) is not None else [])]
    for _ in range(LEVELS_MAX):
        if not any(node in each.inodes for each in caches):
            return node
        if node == tree.view.root:
            return None
        holding = next((each for each in caches if node in each.places), None)
        if holding is None:
            return node
        place = holding.places[node]
        if place is None:
            return None
        node = place.parent
    return None


def _remember(
    tree: RowTree, is_name: int, node: int | None, parent: int | None, name: str | None,
    kind: int | None, guard: int | None, born: int | None, own_node: int | None,
    own_kind: int | None, *inode: Any,
) -> None:  # fmt: skip
    cache = tree.cache
    if is_name:
        assert parent is not None
        assert name is not None
        cache.own[parent, name] = None if born is None else (born, own_node, own_kind)
        bound = None
        if node is not None and kind is not None:
            bound = checked_name(parent, name, node, kind, guard)
        cache.names.setdefault((parent, name), bound if bound and bound.kind else None)
        return
    assert node is not None
    _remember_inode(cache, node, inode)
    if node != tree.view.root:
        place = None if parent is None or name is None else RowPlace(parent, name)
        cache.places.setdefault(node, place)


def _remember_inode(cache: Cache, node: int, row: Row) -> None:
    *columns, guard = row
    found = None if columns[0] is None else checked_inode(Inode(*columns), guard)
    cache.inodes.setdefault(node, None if found is None or found.kind == NOTHING else found)
