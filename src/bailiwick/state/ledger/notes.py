"""Records that travel with their change: the notes that a volume commits together with it.

A store that keeps a note with a change needs no intent beforehand. The note *is* the record, as it
is known before the change, and is there exactly if the change is. Whoever made the change settles
it in the ledger a little later, with all that is known by then; if its process dies first, the next
one that opens the volume with the same state takes the note over.

A note is known by the process that wrote it and a number that the process counts. The ledger keeps
for each process the number below which all is settled, and the few above it that are settled
already. So a note is taken over once, however often it is found, in a copy of the volume too.

A note belongs to the state whose key signed it. Others leave it alone: they can neither know
whether it is on record nor prove who wrote it.
"""

from __future__ import annotations

import hmac
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bailiwick.audit import Intent
from bailiwick.change_log import Note
from bailiwick.state.database import Connection, DatabasePart, Statements
from bailiwick.state.ledger.chain import append
from bailiwick.state.ledger.encoding import Hide, encode_intent, encode_interrupted
from bailiwick.state.ledger.key import Keys

NOTES: Final = DatabasePart(
    "notes",
    (
        """
        CREATE TABLE ledger_writers (     -- processes that have written notes
            owner TEXT NOT NULL PRIMARY KEY,
            settled INTEGER NOT NULL      -- all notes with a lower number are settled
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE ledger_noted (       -- notes above that number that are settled, or taken over
            owner TEXT NOT NULL,
            number INTEGER NOT NULL,
            PRIMARY KEY (owner, number)
        ) STRICT, WITHOUT ROWID;
        """,
    ),
)

_IN_STEPS: Final = frozenset({"copy_from", "copy_in"})
"""Verbs that change a volume more than once: that one change was made does not mean all were."""

_MAC_BYTES: Final = 32
_decoder = msgspec.msgpack.Decoder(tuple[str, int, int, bytes])


class TakenNotes(NamedTuple):
    """What became of some notes. Those up to the version ``through`` need not be looked at again by
    this state; the first of them that another state wrote is of the version ``foreign``.
    ``waiting`` says that the next one belongs to a process that lives and has not settled it
    yet."""

    through: int
    foreign: int | None
    waiting: bool


class OpenNotes:
    """The numbers of notes of this process that are not settled yet.

    Written by the event loop, looked at by the writer's thread: what is read there in between is a
    number too low, never one too high.
    """

    def __init__(self) -> None:
        self._open: dict[int, None] = {}
        self._newest = -1

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, number: object) -> bool:
        return number in self._open

    def begin(self, number: int) -> None:
        """Numbers grow."""
        self._open[number] = None
        self._newest = number

    def end(self, number: int) -> None:
        self._open.pop(number, None)

    def settled_below(self, settling: Iterable[int]) -> int:
        """The number below which all are settled, those that are being settled now included."""
        newest, still_open = self._newest, set(self._open) - set(settling)
        return min(still_open, default=newest + 1)


def note_of(keys: Keys, log: str, owner: str, number: int, intent: Intent, hide: Hide) -> bytes:
    """The note to be kept with a change of the volume whose log is called ``log``."""
    if intent.verb in _IN_STEPS:
        body = encode_interrupted(intent, hide)
    else:
        body = encode_intent(intent, hide, "success", None)
    content = msgspec.msgpack.encode((owner, number, intent.time_ns, body))
    return _mac(keys, log, content) + content


def _mac(keys: Keys, log: str, content: bytes) -> bytes:
    return keys.intent(msgspec.msgpack.encode(("note", log, content)))


def _read(keys: Keys, log: str, note: bytes) -> tuple[str, int, int, bytes] | None:
    """What a note says; None for one that this state did not write, for this volume."""
    mac, content = note[:_MAC_BYTES], note[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(keys, log, content)):
        return None
    return _decoder.decode(content)


def keep_settled(
    statements: Statements, owner: str, numbers: Iterable[int], settled_below: int
) -> None:
    """Note that some notes are settled, in the transaction that puts their records into the ledger,
    and that all below a number are."""
    statements.executemany(
        "INSERT INTO ledger_noted VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(owner, number) for number in numbers if number >= settled_below],
    )
    statements.execute(
        "INSERT INTO ledger_writers VALUES (?, ?) ON CONFLICT (owner) DO UPDATE SET"
        " settled = excluded.settled WHERE ledger_writers.settled < excluded.settled",
        (owner, settled_below),
    )
    statements.execute(
        "DELETE FROM ledger_noted WHERE owner = ? AND number < ?", (owner, settled_below)
    )


def take_over(
    connection: Connection,
    keys: Keys,
    log: str,
    notes: Sequence[Note],
    after: int,
    is_alive: Callable[[str], bool],
) -> TakenNotes:
    """Put notes of dead processes on record that are not there yet: those after a version, oldest
    first. Stops at the first that a living process has not settled: it will."""
    read = [(version, _read(keys, log, note)) for version, note in notes]
    unsettled = _unsettled(connection, (said[:2] for _, said in read if said is not None))
    rows: list[tuple[int, bytes]] = []
    taken: list[tuple[str, int]] = []
    foreign: int | None = None
    waiting, alive = False, dict[str, bool]()
    for version, said in read:
        if said is None:
            foreign = version if foreign is None else foreign
        elif said[:2] in unsettled:
            owner, number, time_ns, body = said
            if owner not in alive:
                alive[owner] = is_alive(owner)
            if alive[owner]:
                waiting = True
                break
            rows.append((time_ns, body))
            taken.append((owner, number))
            unsettled.remove((owner, number))  # the log may hold it twice
        after = version
    if rows:
        connection.executemany("INSERT INTO ledger_noted VALUES (?, ?)", taken)
        append(connection, keys, rows)
    return TakenNotes(after, foreign, waiting)


def _unsettled(connection: Connection, noted: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Which of some notes, each an owner and a number, are not settled. Asked once for each owner:
    meanwhile nobody else changes the state."""
    numbers = defaultdict[str, set[int]](set)
    for owner, number in noted:
        numbers[owner].add(number)
    unsettled = set[tuple[str, int]]()
    for owner, asked in numbers.items():
        below, settled = 0, set[int]()
        found: list[Any] = connection.execute(
            "SELECT settled, 1 FROM ledger_writers WHERE owner = ?1 UNION ALL"
            " SELECT number, 0 FROM ledger_noted WHERE owner = ?1 AND number BETWEEN ?2 AND ?3",
            (owner, min(asked), max(asked)),
        ).fetchall()
        for number, is_bound in found:
            if is_bound:
                below = number
            else:
                settled.add(number)
        unsettled |= {(owner, each) for each in asked - settled if each >= below}
    return unsettled
