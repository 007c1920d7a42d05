"""The rules that people made by answering: for one grant, or always. Each covers what was asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from bailiwick.approvals import RememberedRule
from bailiwick.audit import AuthorityRecord
from bailiwick.errors import IoError
from bailiwick.state.bodies import encode
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.epoch import LastRead
from bailiwick.state.grants.book import Chain, new_id, select
from bailiwick.state.made_once import once

PART = DatabasePart(
    "rules",
    (
        """
        CREATE TABLE rules (
            seq        INTEGER PRIMARY KEY,
            id         TEXT NOT NULL UNIQUE,
            about      BLOB NOT NULL UNIQUE,  -- hash of all it applies to: a new answer replaces
            grant_id   TEXT,                  -- NULL for a rule that holds always
            body       BLOB NOT NULL          -- the RememberedRule
        ) STRICT;
        """,
    ),
)

_rules = msgspec.msgpack.Decoder(RememberedRule)


class RuleBook:
    """What people said for more than once."""

    def __init__(self, database: Database, chain: Chain, *, time_ns: Callable[[], int]) -> None:
        self._database = database
        self._chain = chain
        self._time_ns = time_ns
        self._current = LastRead(database.epoch, self._read)
        self.rules = self._current.get
        """All rules in the order they are to be tried: those of a grant, then those that hold
        always; the newest first in each. The same tuple for as long as nothing changed."""

    def add_in(
        self, connection: Connection, rule: RememberedRule, *, front: str, request_id: str
    ) -> None:
        """Keep a rule, within the transaction of the answer that made it."""
        about = _about(rule)
        connection.execute("DELETE FROM rules WHERE id = ? OR about = ?", (rule.id, about))
        connection.execute(
            "INSERT INTO rules (id, about, grant_id, body) VALUES (?, ?, ?, ?)",
            (rule.id, about, rule.grant_id, encode(rule)),
        )
        self._record_in(connection, rule, "made", by=rule.by, front=front, request_id=request_id)

    async def forget(self, rule_id: str, *, by: str, front: str, request_id: str = "") -> bool:
        """Take a rule back; says whether there was one."""

        def job(connection: Connection) -> bool:
            gone = select(connection, "DELETE FROM rules WHERE id = ? RETURNING body", rule_id)
            if not gone:
                return False
            self._record_in(
                connection, _decode(gone[0][0]), "forgotten", by=by, front=front,
                request_id=request_id or new_id(),
            )  # fmt: skip
            return True

        return await self._database.write_control(once(f"forget {rule_id}", job))

    def prune_in(self, connection: Connection) -> None:
        """Drop the rules of grants that do not hold any more."""
        connection.execute(
            "DELETE FROM rules WHERE grant_id IS NOT NULL AND NOT EXISTS"
            " (SELECT 1 FROM grants WHERE grants.id = rules.grant_id AND ended_ns IS NULL)"
        )

    def _read(self) -> tuple[RememberedRule, ...]:
        rows = self._database.read("SELECT body FROM rules ORDER BY grant_id IS NULL, seq DESC")
        return tuple(_decode(body) for (body,) in rows)

    def _record_in(
        self,
        connection: Connection,
        rule: RememberedRule,
        became: str,
        *,
        by: str,
        front: str,
        request_id: str,
    ) -> None:
        record = AuthorityRecord(
            time_ns=self._time_ns(), request_id=request_id, subject=by, act="rule", root=rule.root,
            grant_id=rule.grant_id, front=front,
            details={
                "rule": rule.id, "became": became, "effect": rule.effect, "for": rule.subject,
                "operation": rule.operation, "approval": rule.approval_id,
            },
        )  # fmt: skip
        self._chain(connection, record)


def _about(rule: RememberedRule) -> bytes:
    about = (
        rule.subject, rule.root, rule.grant_id, rule.operation, rule.access, rule.paths,
        rule.destination, *((rule.branch,) if rule.branch else ()),
        *(() if rule.command is None else (("command", rule.command),)),
    )  # fmt: skip
    return hashlib.sha256(encode(about)).digest()


def _decode(body: bytes) -> RememberedRule:
    try:
        return _rules.decode(body)
    except msgspec.MsgspecError as error:
        raise IoError("the authority's state holds a rule that cannot be read") from error
