"""What people said of what agents did, for as long as the state is kept."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import msgspec

from bailiwick.notices import ReviewNotice
from bailiwick.paths import ScopedPath
from bailiwick.reviews import (
    HunkVerdict,
    NoteHolder,
    QueueShelf,
    ReviewNote,
    ReviewResult,
    ReviewVerdicts,
    SettledVersion,
)
from bailiwick.runs import RUN_IDLE_S
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.epoch import LastRead
from bailiwick.state.grants.book import select
from bailiwick.state.grants.rows import is_held
from bailiwick.state.grants.tokens import has_token
from bailiwick.state.made_once import once
from bailiwick.state.notices.book import NoticeBook
from bailiwick.state.runs.announced_verdicts import TABLE, AnnouncedVerdicts

PART = DatabasePart(
    "reviews",
    (
        """
        CREATE TABLE review_verdicts (   -- what a person said of one hunk
            seq      INTEGER PRIMARY KEY,
            root     TEXT NOT NULL,
            path     TEXT NOT NULL,
            version  TEXT NOT NULL,      -- of the path, when it was looked at
            hunk     TEXT NOT NULL,      -- a digest of the run, the path and the lines
            run      TEXT NOT NULL,
            accepted INTEGER NOT NULL,
            settles  INTEGER NOT NULL,   -- whether nothing else was left of the path
            by       TEXT NOT NULL,
            time_ns  INTEGER NOT NULL,
            request  TEXT NOT NULL,
            note     TEXT NOT NULL
        ) STRICT;
        CREATE INDEX review_verdicts_where ON review_verdicts (root, path);
        CREATE INDEX review_verdicts_which ON review_verdicts (root, hunk);
        CREATE TABLE review_notes (      -- what an agent is still to be told
            seq      INTEGER PRIMARY KEY,
            root     TEXT NOT NULL,
            subject  TEXT NOT NULL,
            path     TEXT NOT NULL,
            lines    TEXT NOT NULL,      -- JSON: those that it wrote
            note     TEXT NOT NULL,
            run      TEXT NOT NULL,
            by       TEXT NOT NULL,
            time_ns  INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX review_notes_whose ON review_notes (root, subject);
        CREATE TABLE review_settled (    -- up to which version nothing is left
            root     TEXT PRIMARY KEY,
            version  INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """,
        """
        DROP TABLE review_settled;
        CREATE TABLE review_settled (    -- up to which version nothing is left
            root     TEXT PRIMARY KEY,
            version  INTEGER NOT NULL,
            made_ns  INTEGER             -- when that was made: numbers are another tree's, too
        ) STRICT, WITHOUT ROWID;
        """,
        """
        ALTER TABLE review_notes         -- through whose hands the name of the agent came: JSON
            ADD COLUMN via TEXT NOT NULL DEFAULT '[]';
        """,
        TABLE,
    ),
)

_ASKED_AT_ONCE: Final = 500
_HUNKS_TOLD: Final = 100
"""Hunks that a notice names; who wants all of them asks for the run."""


class VerdictBook:
    """See `bailiwick.reviews.ReviewBook`."""

    def __init__(
        self, database: Database, notices: NoticeBook, *, time_ns: Callable[[], int]
    ) -> None:
        self._database = database
        self._notices = notices
        self._time_ns = time_ns
        self.queues: dict[tuple[str, str], QueueShelf] = {}
        self._waiting = LastRead(database.epoch, self._whom)
        self._announced = AnnouncedVerdicts(database)

    def verdicts(self, root: str, path: str) -> list[HunkVerdict]:
        rows = self._database.read(
            "SELECT path, version, hunk, run, accepted, settles FROM review_verdicts"
            " WHERE root = ? AND path = ? ORDER BY seq",
            (root, path),
        )
        return [
            HunkVerdict(
                path=path, version=version, hunk=hunk, run=run, accepted=bool(accepted),
                settles=bool(settles),
            )
            for path, version, hunk, run, accepted, settles in rows
        ]  # fmt: skip

    def said_last(self, root: str) -> dict[str, int]:
        rows = self._database.read(
            "SELECT path, MAX(seq) FROM review_verdicts WHERE root = ? GROUP BY path", (root,)
        )
        return dict(rows)

    def said(self, root: str, hunks: Collection[str]) -> dict[str, str]:
        wanted, said = list(hunks), dict[str, str]()
        for first in range(0, len(wanted), _ASKED_AT_ONCE):
            some = wanted[first : first + _ASKED_AT_ONCE]
            rows = self._database.read(
                "SELECT hunk, accepted FROM review_verdicts WHERE root = ? AND hunk IN"
                f" ({', '.join('?' * len(some))}) ORDER BY seq",
                (root, *some),
            )
            said |= {hunk: "accepted" if accepted else "rejected" for hunk, accepted in rows}
        return said

    def settled_through(self, root: str) -> SettledVersion | None:
        rows = self._database.read(
            "SELECT version, made_ns FROM review_settled WHERE root = ?", (root,)
        )
        return SettledVersion(*rows[0]) if rows else None

    async def keep(self, said: ReviewVerdicts, result: ReviewResult) -> None:
        def job(connection: Connection) -> Any:
            self._keep_in(connection, said)
            return msgspec.to_builtins(result, enc_hook=str)

        # Noticed by every process at once: whoever answers an agent looks for its notes each time,
        # and whoever follows a root hears of verdicts.
        what = "accept" if result.accepted else "reject"
        await self._database.write_control(once(what, job))

    async def make_up_for(self, said: ReviewVerdicts) -> None:
        await self._database.write_control(functools.partial(self._keep_in, said=said))

    async def announce(self, said: ReviewVerdicts) -> None:
        await self._announced.add(said)

    def over(self, request: str) -> None:
        self._announced.over(request)

    def announced(self, root: str, branch: str) -> list[ReviewVerdicts]:
        return [each for each in self._announced.left(root) if each.branch == branch]

    def _keep_in(self, connection: Connection, said: ReviewVerdicts) -> None:
        if said.branch is not None and not self._announced.take_in(connection, said.request_id):
            return  # somebody found that it had come to pass, and has kept it
        now = self._time_ns()
        connection.executemany(
            "INSERT INTO review_verdicts (root, path, version, hunk, run, accepted, settles,"
            " by, time_ns, request, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (said.root, each.path, each.version, each.hunk, each.run, int(each.accepted),
                 int(each.settles), said.by, now, said.request_id, said.note)
                for each in said.verdicts
            ],
        )  # fmt: skip
        connection.executemany(
            "INSERT INTO review_notes (root, subject, path, lines, note, run, by, time_ns, via)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (said.root, whose.subject, each.path, json.dumps(each.lines), each.note,
                 each.run, each.by, now, json.dumps(whose.via))
                for whose, each in said.notes
            ],
        )  # fmt: skip
        if said.through is not None:
            connection.execute(
                "INSERT INTO review_settled VALUES (?, ?, ?) ON CONFLICT (root) DO UPDATE SET"
                " version = excluded.version, made_ns = excluded.made_ns",
                (said.root, *said.through),
            )
        for notice in _told_of(connection, said):
            self._notices.review_in(connection, notice)

    def _whom(self) -> frozenset[tuple[object, ...]]:
        return frozenset(
            self._database.read("SELECT DISTINCT root, subject, via FROM review_notes")
        )

    def has_notes(self, root: str, holder: NoteHolder) -> bool:
        waiting = self._waiting.get()
        if not waiting:
            return False
        if (root, holder.subject, json.dumps(holder.via)) in waiting:
            return True
        return holder.sessions is not None and bool(self._waiting_for(root, holder))

    async def waiting_notes(
        self, root: str, holder: NoteHolder, reaches: Callable[[ScopedPath], bool], limit: int
    ) -> list[ReviewNote]:
        return [_note(row) for row in self._next(root, holder, reaches, limit)]

    async def take_notes(
        self, root: str, holder: NoteHolder, reaches: Callable[[ScopedPath], bool], limit: int
    ) -> list[ReviewNote]:
        some = [row[0] for row in self._next(root, holder, reaches, limit)]
        if not some:
            return []

        def job(connection: Connection) -> list[ReviewNote]:
            rows = connection.execute(
                f"DELETE FROM review_notes WHERE seq IN ({', '.join('?' * len(some))})"
                f" RETURNING {_NOTE}",
                tuple(some),
            ).fetchall()
            return [_note(row) for row in sorted(rows)]

        return await self._database.write_control(job)

    def _next(
        self, root: str, holder: NoteHolder, reaches: Callable[[ScopedPath], bool], limit: int
    ) -> list[tuple[Any, ...]]:
        """What is to be told next, oldest first."""
        waiting = self._waiting_for(root, holder)
        return [row for row in waiting if reaches(ScopedPath(str(row[1])))][:limit]

    def _waiting_for(self, root: str, holder: NoteHolder) -> list[tuple[Any, ...]]:
        """The notes of a holder, and those that no other session of its front is there to hear:
        it has ended, or asked for nothing for as long as a run may be silent. Whoever has a token
        is no session, however a person has called them: they come again by the same name."""
        rows = self._database.read(
            f"SELECT {_NOTE}, subject FROM review_notes WHERE root = ? AND via = ? ORDER BY seq",
            (root, json.dumps(holder.via)),
        )
        now = self._time_ns()
        silent_since = now - int(RUN_IDLE_S * 1e9)
        read = self._database.read
        has_ended = functools.cache(lambda subject: not is_held(read, subject, root, now))
        lasts = functools.cache(lambda subject: has_token(read, subject))

        def is_told(subject: str, time_ns: int) -> bool:
            if subject == holder.subject or holder.sessions is None:
                return subject == holder.subject
            if not subject.startswith(holder.sessions) or lasts(subject) or lasts(holder.subject):
                return False
            return time_ns < silent_since or has_ended(subject)

        return [row[:-1] for row in rows if is_told(str(row[-1]), int(str(row[-2])))]


_NOTE: Final = "seq, path, lines, note, run, by, time_ns"


def _note(row: Sequence[Any]) -> ReviewNote:
    _, path, lines, note, run, by, time_ns = row
    return ReviewNote(
        path=ScopedPath(str(path)), lines=json.loads(str(lines)), note=str(note), run=str(run),
        by=str(by), time_ns=int(str(time_ns)),
    )  # fmt: skip


def _told_of(connection: Connection, said: ReviewVerdicts) -> list[ReviewNotice]:
    """What those who follow hear of verdicts: one notice for each run and verdict."""
    found: list[ReviewNotice] = []
    for run, accepted in sorted({(each.run, each.accepted) for each in said.verdicts}):
        some = [each for each in said.verdicts if (each.run, each.accepted) == (run, accepted)]
        whose = select(connection, "SELECT subject FROM runs WHERE id = ?", run)
        paths = {each.path for each in some}
        found.append(
            ReviewNotice(
                kind="accepted" if accepted else "rejected",
                root=said.root,
                subject=str(whose[0][0]) if whose else "",
                by=said.by,
                run=run,
                path=paths.pop() if len(paths) == 1 else None,
                hunks=tuple(each.hunk for each in some[:_HUNKS_TOLD]),
                note=said.note,
            )
        )
    return [*found, *_told_of_apart(said)]


def _told_of_apart(said: ReviewVerdicts) -> Iterator[ReviewNotice]:
    """What was given up before it was in the tree is of no run: it is told by who did it."""
    apart = [(whose.subject, each) for whose, each in said.notes if not each.run]
    for subject in sorted({subject for subject, _ in apart}):
        paths = {str(each.path) for by, each in apart if by == subject}
        yield ReviewNotice(
            kind="rejected", root=said.root, subject=subject, by=said.by,
            path=paths.pop() if len(paths) == 1 else None, note=said.note,
        )  # fmt: skip
