"""The directories beneath another, in any branch and at any version, without a look at its files.

A branch shows its ancestors' names as they were when it was made. Almost all of them are still
alive, and directories that are alive have an index of their own. Names that ended since are found
by when they did.

Rows are looked up for one key after the other, in the order in which a statement has its tables.
SQLite does so where it is told to by CROSS JOIN. PostgreSQL takes that for any other join: it plans
once for all volumes, and would rather read all names of a volume than those of a few directories.
What it must not join it is given as a subquery that it plans by itself (OFFSET 0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bailiwick.stores.volume.rows.database import SpelledTwice


class KeyedLookup(NamedTuple):
    """How a statement looks up rows of a table for each row of what stands before them."""

    is_postgres: bool

    def __call__(self, name: str, condition: str, table: str = "dentry") -> str:
        if self.is_postgres:
            rows = f"SELECT * FROM {table} {name} WHERE {condition} OFFSET 0"
            return f"CROSS JOIN LATERAL ({rows}) {name}"
        return f"CROSS JOIN {table} {name} ON {condition}"


def by_lookup(statement: Callable[[KeyedLookup], str]) -> SpelledTwice:
    return SpelledTwice(statement(KeyedLookup(False)), postgres=statement(KeyedLookup(True)))


def _not_hidden(look: KeyedLookup, depth: str) -> str:
    """Whether no nearer level knows better of `d`."""
    found = look(
        "f",
        "f.volume = $1 AND f.branch = k.branch AND f.parent = d.parent AND f.name = d.name"
        " AND f.born <= k.bound AND f.died > k.bound",
    )
    return f"NOT EXISTS (SELECT 1 FROM level k {found} WHERE k.depth < {depth})"


def _found(look: KeyedLookup, and_more: str, condition: str) -> str:
    """The directories in those that were found. PostgreSQL has one arm that refers to what was
    found so far; with two SQLite takes half the time."""
    alive = "level l " + look(
        "d",
        "d.volume = $1 AND d.branch = l.branch AND d.parent = n.id AND d.born <= l.bound"
        " AND d.died = 9223372036854775807 AND d.kind = 2",
    )
    arms = (
        f"{alive} WHERE {_not_hidden(look, 'l.depth')}",
        f"ended d WHERE d.parent = n.id AND d.kind = 2 AND {_not_hidden(look, 'd.depth')}",
    )
    chosen = f"SELECT d.node{and_more} FROM inner_node n CROSS JOIN"
    if look.is_postgres:
        both = " UNION ALL ".join(f"SELECT d.node FROM {arm}" for arm in arms)
        return f"{chosen} LATERAL ({both} OFFSET 0) d WHERE {condition}"
    return " UNION ".join(f"{chosen} {arm} AND {condition}" for arm in arms)


def inner_nodes(look: KeyedLookup, *, numbered: bool = False) -> str:
    """What a statement about a tree begins with: $1 is the volume, $2 the branch, $3 the version,
    $4 the directory. `level` is each ancestor as it is seen; `ended` names that it had then and has
    no more; `inner_node` the directories beneath, ``numbered`` by how far, and at most $5."""
    ended = look(
        "d",
        "d.volume = $1 AND d.branch = l.branch AND d.died > l.bound"
        " AND d.died < 9223372036854775807 AND d.born <= l.bound",
    )
    columns, first, and_more, condition = "id", "", "", "TRUE"
    if numbered:
        columns, first, and_more, condition = "id, far", ", 0", ", n.far + 1", "n.far < $5"
    return f"""
WITH RECURSIVE level (depth, branch, bound) AS MATERIALIZED (
    SELECT depth, ancestor, CASE WHEN bound < $3 THEN bound ELSE $3 END FROM lineage
    WHERE volume = $1 AND branch = $2
),
ended (depth, parent, name, node, kind) AS MATERIALIZED (
    SELECT l.depth, d.parent, d.name, d.node, d.kind FROM level l {ended}
),
inner_node ({columns}) AS NOT MATERIALIZED (
    SELECT CAST($4 AS BIGINT){first}
    UNION
    {_found(look, and_more, condition)}
)
"""


AT_LEVEL: Final = by_lookup(
    lambda look: f"{inner_nodes(look, numbered=True)} SELECT id FROM inner_node WHERE far = $5"
)
"""The directories that lie exactly $5 levels beneath another."""


def _names(look: KeyedLookup) -> str:
    """Each directory is found when the names in those before were counted, and what has ended is
    looked through once all are known. Most directories no nearer level has a row in: of these no
    name is looked for there. That is asked once for each, which the limit keeps apart from what is
    asked for each name."""
    nearer = look("f", "f.volume = $1 AND f.branch = k.branch AND f.parent = n.id")
    alive = look(
        "d",
        "d.volume = $1 AND d.branch = l.branch AND d.parent = l.id AND d.born <= l.bound"
        " AND d.died = 9223372036854775807 AND d.kind <> 0",
    )
    return f"""{inner_nodes(look)}
SELECT count(*) FROM (
    SELECT 1 FROM (
        SELECT n.id, l.depth, l.branch, l.bound,
            NOT EXISTS (SELECT 1 FROM level k {nearer} WHERE k.depth < l.depth) AS is_nearest
        FROM inner_node n CROSS JOIN level l LIMIT 9223372036854775807
    ) l {alive} WHERE l.is_nearest OR {_not_hidden(look, "l.depth")}
    UNION ALL
    SELECT 1 FROM ended d WHERE d.kind <> 0 AND d.parent IN (SELECT id FROM inner_node)
        AND {_not_hidden(look, "d.depth")}
    LIMIT $5
) AS found
"""


NAMES_BENEATH: Final = by_lookup(_names)
"""How many names lie beneath a directory, at most $5."""
