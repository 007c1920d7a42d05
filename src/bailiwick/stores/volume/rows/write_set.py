"""What a turn is about to write to PostgreSQL, gathered to go there at once.

Over a network each statement is a trip. So statements that change one row, found by its whole key,
are not run but gathered, row by row, and sent as one: it moves on the counter of the volume, if
that is where the turn has begun, and writes all rows then, or none. The statements themselves stand
where the store has them, in the words that both databases know; what is not of that form is run.

What is gathered is not there yet for those that ask. A question about other tables, or about keys
that are not among those gathered, is answered by the database all the same (`stands_against`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from bailiwick.stores.volume.rows.database import INFINITY, Row
from bailiwick.stores.volume.rows.postgres_schema import CHANNEL, VolumeTable, tables
from bailiwick.stores.volume.rows.tree import INODE, NAME, OWN_NAME, PLACE

_INSERT: Final = re.compile(
    r"\s*INSERT INTO (\w+) \(([\w\s,]+)\)\s*VALUES \(([^()]+)\)\s*(?:(ON CONFLICT .*?)\s*)?",
    re.DOTALL,
)
_UPDATE: Final = re.compile(r"\s*UPDATE (\w+) SET ([^()]+?)\s+WHERE ([^()]+?)\s*", re.DOTALL)
_DELETE: Final = re.compile(r"\s*DELETE FROM (\w+)\s+WHERE ([^()]+?)\s*", re.DOTALL)
_PLAIN: Final = r"\$\d+|\d+|''|NULL"
_IS_PLAIN: Final = re.compile(rf"\s*(?:{_PLAIN})\s*")
_EQUALS: Final = re.compile(rf"(\w+) = ({_PLAIN})")
_OF_TABLE: Final = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)")

Key = tuple[Any, ...]
Kind = Literal["update", "delete", "insert"]


class RowStatement(NamedTuple):
    """A statement that changes the row of one key: which of its parameters, or what else, goes to
    which column."""

    kind: Kind
    table: str
    columns: tuple[str, ...]
    values: Callable[[tuple[Any, ...]], tuple[Any, ...]]  # of each column, by the parameters
    key: Callable[[tuple[Any, ...]], tuple[Any, ...]]  # the same of each column of the key
    conflict: str


class GatheredRow(NamedTuple):
    """What is to become of a row: ``statement`` with these values for its columns."""

    statement: RowStatement
    values: tuple[Any, ...]


@lru_cache(maxsize=1_024)
def row_statement(sql: str) -> RowStatement | None:
    """The statement, where it changes one row that is found by its whole key, else None."""
    if (found := _INSERT.fullmatch(sql)) is not None:
        table, names, given, conflict = found.groups()
        columns = tuple(name.strip() for name in names.split(","))
        return _of_one_row("insert", table, dict(zip(columns, given.split(","), strict=True)), "",
                           conflict or "")  # fmt: skip
    if (found := _UPDATE.fullmatch(sql)) is not None:
        table, given, where = found.groups()
        changed = _equals(given, ",")
        return None if changed is None else _of_one_row("update", table, changed, where, "")
    if (found := _DELETE.fullmatch(sql)) is not None:
        table, where = found.groups()
        return _of_one_row("delete", table, {}, where, "")
    return None


def _of_one_row(
    kind: Kind, table: str, given: dict[str, str], where: str, conflict: str
) -> RowStatement | None:
    known = tables().get(table)
    found = given if kind == "insert" else _equals(where, " AND ")
    if known is None or known.key[0] != "volume" or found is None:
        return None
    if (kind != "insert" and found.keys() != set(known.key)) or not found.keys() >= set(known.key):
        return None
    if not all(map(_IS_PLAIN.fullmatch, given.values())):
        return None
    columns = tuple(column for column in given if column != "volume")
    values = _picked([given[column] for column in columns])
    key = _picked([found[column] for column in known.key])
    return RowStatement(kind, table, columns, values, key, conflict)


def _equals(text: str, between: str) -> dict[str, str] | None:
    """What each column is set to, or has to be; None where anything else is said."""
    found = [_EQUALS.fullmatch(part.strip()) for part in re.split(rf"\s*{between}\s*", text)]
    return {each[1]: each[2] for each in found if each} if all(found) else None


def _picked(texts: Sequence[str]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What each of some texts means, by the parameters: one of those, or a value of its own. Made
    once for a statement, and asked for every row that it writes: so it does not look at each."""
    own: list[Any] = []
    places: list[int] = []
    for text in map(str.strip, texts):
        if text.startswith("$"):
            places.append(int(text[1:]) - 1)
        else:
            own.append(None if text == "NULL" else "" if text == "''" else int(text))
            places.append(-len(own))  # from the end, where they stand after the parameters
    kept = tuple(reversed(own))
    if len(places) < 2:  # of one `itemgetter` gives the value itself, and of none there is none
        return lambda values: tuple((values + kept)[place] for place in places)
    pick = itemgetter(*places)
    return lambda values: pick(values + kept)


@lru_cache(maxsize=1_024)
def tables_of(sql: str) -> frozenset[str]:
    """The tables that a statement speaks of."""
    return frozenset(_OF_TABLE.findall(sql)) & tables().keys()


class WriteSet:
    """The rows that one or several jobs of a turn would write, each by its key."""

    def __init__(self, volume: int) -> None:
        self._volume = volume
        self._rows: dict[str, dict[Key, GatheredRow]] = {}
        self._names: dict[tuple[int, str], int] = {}  # gathered rows of each name
        self._undo: list[tuple[str, Key, GatheredRow | None]] = []
        self.bytes = 0

    def __bool__(self) -> bool:
        return any(self._rows.values())

    # --- gathering ---------------------------------------------------------------------------

    def take(self, sql: str, values: tuple[Any, ...]) -> bool:
        """Gather what a statement would change; False where it has to be run, and before it what
        was gathered."""
        statement = row_statement(sql)
        if statement is None:
            return False
        volume, *key = statement.key(values)
        if volume != self._volume:
            return False
        row = GatheredRow(statement, statement.values(values))
        before = self._rows.get(statement.table, {}).get(tuple(key))
        folded = row if before is None else _folded(before, row)
        if folded is False:
            return False
        self._put(statement.table, tuple(key), folded)
        self._undo.append((statement.table, tuple(key), before))
        for each in values:
            if isinstance(each, (bytes, str)):
                self.bytes += len(each)
        return True

    def _put(self, table: str, key: Key, row: GatheredRow | None) -> None:
        rows = self._rows.setdefault(table, {})
        if table == "dentry" and (key in rows) != (row is not None):
            name = key[1:3]
            self._names[name] = self._names.get(name, 0) + (-1 if row is None else 1)
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row

    def mark(self) -> int:
        return len(self._undo)

    def take_back(self, mark: int) -> None:
        """Forget what was gathered since."""
        while len(self._undo) > mark:
            self._put(*self._undo.pop())

    def clear(self) -> None:
        self._rows.clear()
        self._names.clear()
        self._undo.clear()
        self.bytes = 0

    # --- what is asked meanwhile -----------------------------------------------------------------

    def stands_against(self, sql: str, values: tuple[Any, ...]) -> bool:
        """Whether what the database would answer may be untrue, by what is gathered."""
        concerned = {table for table in tables_of(sql) if self._rows.get(table)}
        if not concerned:
            return False
        if sql in (NAME, INODE, PLACE) and values[1] in self._new_branches():
            return True  # of which the database knows nothing yet
        if sql is NAME:
            return self._is_gathered(values[3], values[4])
        if sql is OWN_NAME:
            return self._is_gathered(values[2], values[3])
        if sql is INODE:
            return any(key[1] == values[3] for key in self._rows.get("inode", ()))
        if sql is PLACE:
            # What ends a name does not say whose it was.
            return any(
                statement.kind != "insert" or given[statement.columns.index("node")] == values[3]
                for statement, given in self._rows.get("dentry", {}).values()
            )
        return True

    def _new_branches(self) -> set[int]:
        return {branch for branch, _ in self._rows.get("lineage", ())}

    def _is_gathered(self, parent: int, name: str) -> bool:
        return self._names.get((parent, name), 0) > 0

    def answer(self, sql: str, values: tuple[Any, ...]) -> list[Row] | None:
        """The answer where it is gathered; None where the database has it."""
        if sql is not OWN_NAME or not self._is_gathered(values[2], values[3]):
            return None
        found = []
        for (branch, parent, name, born), row in self._rows["dentry"].items():
            if (branch, parent, name) == values[1:] and row.statement.kind == "insert":
                column = dict(zip(row.statement.columns, row.values, strict=True))
                if column["died"] == INFINITY:
                    found.append((born, column["node"], column["kind"]))
        return found or None

    def first_change(self) -> Row | None:
        """By what a change that is gathered can be told from every other: branch, version, time
        and sum. None where nothing is logged."""
        for (branch, version, seq), row in self._rows.get("change", {}).items():
            if seq == 0 and row.statement.kind == "insert":
                column = dict(zip(row.statement.columns, row.values, strict=True))
                return branch, version, column["time_ns"], column["guard"]
        return None

    # --- sending -----------------------------------------------------------------------------

    def statement(self) -> tuple[str, list[list[Any]]]:
        """One statement that writes everything, and its parameters after the first five (see
        `_guarded`)."""
        groups: dict[RowStatement, list[tuple[Any, ...]]] = {}
        for rows in self._rows.values():
            for key, (statement, values) in rows.items():
                shown = values if statement.kind == "insert" else (*values, *key)
                groups.setdefault(statement, []).append(shown)
        order = sorted(groups, key=lambda each: (_ORDER[each.kind], each[1:3], each.conflict))
        arrays = [list(column) for each in order for column in zip(*groups[each], strict=True)]
        return _guarded(tuple(order)), arrays


_ORDER: Final[dict[Kind, int]] = {"update": 0, "delete": 1, "insert": 2}


def _folded(before: GatheredRow, row: GatheredRow) -> GatheredRow | Literal[False] | None:
    """One row for two that come one after the other; None where nothing is left of them, False
    where they cannot be one."""
    old, new = before.statement, row.statement
    if new.kind == "insert" and new.conflict.endswith("DO NOTHING") and old.kind == "insert":
        return before
    if new.kind == "insert" and new.conflict and old.kind == "insert":
        return before._replace(values=row.values) if old.columns == new.columns else False
    if new.kind == "insert" and new.conflict and old.kind == "delete":
        return row
    if new.kind == "update" and old.kind != "delete":
        if not set(new.columns) <= set(old.columns):
            return False
        changed = dict(zip(old.columns, before.values, strict=True))
        changed.update(zip(new.columns, row.values, strict=True))
        return before._replace(values=tuple(changed.values()))
    if new.kind == "delete" and old.kind == "insert":
        return row if old.conflict else None
    return False


@lru_cache(maxsize=256)
def _guarded(groups: tuple[RowStatement, ...]) -> str:
    """The statement for rows of these kinds: $1 is the counter from now on, $2 the volume, $3 the
    counter before and $4 how many leases there were, $5 what others are told."""
    parts = [
        """
WITH turn AS (
    UPDATE volume SET last = $1 WHERE id = $2 AND last = $3 AND locks = $4 RETURNING id
)"""
    ]
    place = 6
    done: list[tuple[str, str]] = []  # what was written before, of which table
    for number, group in enumerate(groups):
        table, name = tables()[group.table], f"part_{number}"
        shown = group.columns if group.kind == "insert" else (*group.columns, *table.key[1:])
        arrays = [
            f"CAST(${place + at} AS {table.types[column]}[])" for at, column in enumerate(shown)
        ]
        place += len(shown)
        labels = [f"v{at}" for at in range(len(shown))]
        given = f"unnest({', '.join(arrays)}) AS u ({', '.join(labels)})"
        if group.kind == "insert":
            # Names are ended before others are given: there is one of each that is alive.
            after = [each for each, of in done if of == group.table]
            first = "".join(
                f" CROSS JOIN (SELECT count(*) FROM {each}) AS {each}" for each in after
            )
            parts.append(f"""{name} AS (
    INSERT INTO {group.table} (volume, {", ".join(shown)})
    SELECT t.id, {", ".join(f"u.{label}" for label in labels)} FROM turn t CROSS JOIN {given}{first}
    {group.conflict}
)""")
        else:
            parts.append(_changing(group, table, name, given, labels))
            done.append((name, group.table))
    return f"{', '.join(parts)} SELECT pg_notify('{CHANNEL}', CAST($5 AS TEXT)) FROM turn"


def _changing(
    group: RowStatement, table: VolumeTable, name: str, given: str, labels: list[str]
) -> str:
    """Rows are found one by one in the index of their key, whatever the planner takes the table
    for: it plans once, and tables grow."""
    count = len(group.columns)
    key = zip(table.key[1:], labels[count:], strict=True)
    found = " AND ".join(f"x.{column} = u.{label}" for column, label in key)
    wanted = "".join(f", u.{label}" for label in labels[:count])
    rows = f"""(SELECT x.place{wanted} FROM turn t CROSS JOIN {given} CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM {group.table} x WHERE x.volume = t.id AND {found} LIMIT 1
    ) x) AS u"""
    if group.kind == "delete":
        return f"""{name} AS (
    DELETE FROM {group.table} d USING {rows} WHERE d.ctid = u.place RETURNING 1
)"""
    changed = ", ".join(
        f"{column} = u.{label}" for column, label in zip(group.columns, labels, strict=False)
    )
    return f"""{name} AS (
    UPDATE {group.table} d SET {changed} FROM {rows} WHERE d.ctid = u.place RETURNING 1
)"""
