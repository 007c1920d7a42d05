"""Changes that were announced and are not settled yet.

An intent is kept before its change is published. If its process dies, the next to open the ledger
puts it on record as interrupted: the change may have been made or not, and the record says who was
about to make it, and where. An intent is signed, so that nobody without the key can plant one.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from bailiwick.audit import Intent, LedgerRecord
from bailiwick.state.database import Connection, Statements
from bailiwick.state.ledger.chain import append
from bailiwick.state.ledger.encoding import (
    INTERRUPTED,
    Hide,
    decode,
    encode_intent,
    keep_path,
    names_of,
)
from bailiwick.state.ledger.key import Keys

Places = list[list[str]]
"""What a change is about: for each path itself, then every directory above it. Kept so, and not as
a path, because names may have to be hidden: then hashes can still be compared."""

_places = msgspec.msgpack.Decoder(Places)
_encode = msgspec.msgpack.Encoder().encode


def places_of(paths: Iterable[str | None], hide: Hide) -> Places:
    places = [lineage(path) for path in paths if path is not None]
    return places if hide is keep_path else [[hide(each) for each in line] for line in places]


def lineage(path: str) -> list[str]:
    """The path, then every directory above it, up to the root."""
    path = str(path)  # a `ScopedPath` is a text, but no encoder takes it for one
    above = [path]
    while "/" in path:
        path = path.rpartition("/")[0]
        above.append(path)
    if above[-1] != ".":
        above.append(".")
    return above


def touches(places: Places, line: Sequence[str]) -> bool:
    """Whether one of the places is the path of that (hidden) lineage, above it, or beneath it."""
    return any(place[0] in line or line[0] in place for place in places)


_INSERT = "INSERT INTO ledger_intents VALUES (?, ?, ?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM ledger_intents WHERE owner = ? AND number = ?"


def keep_intent(
    statements: Statements, keys: Keys, owner: str, number: int, intent: Intent, hide: Hide
) -> None:
    places = _encode(places_of((intent.path, intent.destination), hide))
    body = encode_intent(intent, hide, "failed", INTERRUPTED)
    row = (owner, number, intent.time_ns, names_of(intent.grant).root, places, body)
    statements.execute(_INSERT, (*row, keys.intent(_encode(row))))


def drop_intents(statements: Statements, owner: str, numbers: Iterable[int]) -> None:
    statements.executemany(_DELETE, [(owner, number) for number in numbers])


def record_interrupted(
    connection: Connection, keys: Keys, is_alive: Callable[[str], bool]
) -> list[LedgerRecord]:
    """Put the leftover intents of dead processes on record, and return those records."""
    owners = connection.execute("SELECT DISTINCT owner FROM ledger_intents").fetchall()
    bodies: list[tuple[int, bytes]] = []
    for (owner,) in owners:
        if is_alive(str(owner)):
            continue
        rows = connection.execute(
            "SELECT owner, number, time_ns, root, places, body, mac FROM ledger_intents"
            " WHERE owner = ? ORDER BY number",
            (owner,),
        ).fetchall()
        bodies += [_leftover(keys, row) for row in rows]
        connection.execute("DELETE FROM ledger_intents WHERE owner = ?", (owner,))
    if not bodies:
        return []
    first = append(connection, keys, bodies)
    return [decode(first + index, body) for index, (_, body) in enumerate(bodies)]


def other_places(rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[str, Places]]:
    """The owner and the places of rows of ``owner, places``."""
    for owner, places in rows:
        yield owner, _places.decode(places)


def _leftover(keys: Keys, row: tuple[Any, ...]) -> tuple[int, bytes]:
    *kept, mac = row
    time_ns, body = kept[2], kept[5]
    if hmac.compare_digest(mac, keys.intent(_encode(kept))):
        return time_ns, body
    # Somebody without the key has had a hand in it: that is worth a record, its words are not.
    values: list[object] = [
        time_ns, "", "core:bailiwick", None, None, "ledger", "authority", None, None, "failed",
        "interrupted", None, (), "an intent was changed, or planted, by somebody without the key",
        None, None, None, 0, "python", None, {"owner": str(kept[0]), "number": str(kept[1])},
    ]  # fmt: skip
    return time_ns, _encode(values)
