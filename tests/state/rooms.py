"""The rooms of a state, opened together, with a clock that only moves when told.

Records go into a table of the same database, so that a test sees whether they share the fate of
the change they are about.
"""

import time
from contextlib import asynccontextmanager

import msgspec

from bailiwick.approvals import Preview, Question
from bailiwick.grant import AgentRun, Grant, Root, StandingGrant
from bailiwick.state.approvals import questions, rules
from bailiwick.state.approvals.desk import ApprovalDesk
from bailiwick.state.approvals.rules import RuleBook
from bailiwick.state.database import DatabasePart
from bailiwick.state.grants import book, trust
from bailiwick.state.grants.book import GrantBook
from bailiwick.state.grants.status import StateStanding
from bailiwick.state.grants.trust import TrustBook
from bailiwick.state.notices import book as notices
from bailiwick.state.notices.book import NoticeBook
from bailiwick.state.usage import meter
from bailiwick.state.usage.meter import UsageMeter
from tests.state.states import open_state

START_NS = 1_700_000_000 * 10**9

_RECORDS = "CREATE TABLE test_records (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;"
RECORDS = DatabasePart("test-records", (_RECORDS,))

PARTS = (book.PART, trust.PART, rules.PART, questions.PART, meter.PART, notices.PART, RECORDS)

AGENT = AgentRun("c1", "r1")
WORKSPACE = Root(kind="workspace", id="demo", trusted=True)


class Clock:
    def __init__(self, now_ns=START_NS):
        self.now_ns = now_ns

    def __call__(self):
        return self.now_ns

    def advance(self, seconds):
        self.now_ns += int(seconds * 10**9)


class NoDisk(Exception):
    """What an injected fault raises."""


class Rooms:
    """Everything the authority remembers besides its ledger, over one database."""

    def __init__(
        self, database, clock, *, surface="console", seconds=300.0, measured=(0, 0), chain=None,
        poll_s=0.1,
    ):  # fmt: skip
        self.database = database
        self.clock = clock
        self.measured = measured
        self.measurements = 0
        self.fail_records = False
        chain = chain or self.chain
        self.grants = GrantBook(database, chain, time_ns=clock)
        self.trust = TrustBook(database, chain, time_ns=clock)
        self.rules = RuleBook(database, chain, time_ns=clock)
        self.notices = NoticeBook(database)
        self.desk = ApprovalDesk(
            database, chain, self.rules, self.notices, time_ns=clock, surface=surface,
            seconds=seconds, poll_s=poll_s,
        )  # fmt: skip
        self.standing = StateStanding(
            database, self.grants, self.trust, time_ns=clock, monotonic_ns=clock
        )
        self.meter = UsageMeter(database, self.grants, self.measure)

    def chain(self, connection, record):
        if self.fail_records:
            raise NoDisk
        body = msgspec.json.encode(record).decode()
        connection.execute("INSERT INTO test_records (body) VALUES (?)", (body,))

    def records(self):
        rows = self.database.read("SELECT body FROM test_records ORDER BY seq")
        return [msgspec.json.decode(body) for (body,) in rows]

    async def measure(self, root):
        self.measurements += 1
        return self.measured

    def rows(self, table):
        return self.database.read(f"SELECT * FROM {table} ORDER BY 1")

    def everything(self):
        """All rows of all tables: what a failed change must leave as it was."""
        tables = ("grants", "trust", "rules", "approvals", "usage", "test_records")
        return {table: self.rows(table) for table in tables}


@asynccontextmanager
async def opened(directory=None, clock=None, **settings):
    database = open_state(directory, PARTS)
    try:
        yield Rooms(database, clock or Clock(), **settings)
    finally:
        await database.aclose()


def real_clock():
    return time.time_ns()


def standing_grant(id="s1", **fields):
    given = {"subject": "agent_run:*", "root": "workspace:*", "access": frozenset(("read",))}
    return StandingGrant(id=id, **(given | fields))


def held(id="h1", parent=None, **fields):
    given = {"subject": AGENT, "root": WORKSPACE, "reason": "to see"}
    return Grant(id=id, parent=parent, **(given | fields))


def question(**fields):
    given = {
        "subject": AGENT, "root": "workspace:demo", "operation": "write", "verb": "write_text",
        "access": ("write",), "paths": (".git/config",), "paths_total": 1, "paths_sha256": "p" * 64,
        "destination": None, "prompt": "May it?", "sources": ("protect-git",), "default": "deny",
        "reason": "because", "grant_id": "h1", "request_id": "q1", "front": "python",
        "preview": Preview(sha256="a" * 64, size=3, diff="-old secret\n+new secret\n"),
    }  # fmt: skip
    return Question(**(given | fields))
