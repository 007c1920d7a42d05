"""How questions are kept: the table, what exactly an approval is for, and its rows.

A row holds content while it is pending: the diff that a person is shown. Of the last questions that
were answered it is kept, for people to look at again, but for those of secret roots. Else it is
erased when the question is settled; the pages it stood in are overwritten, the log beside the
database keeps it until its next turn. The state's directory is private.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Any

import msgspec

from bailiwick.approvals import ALLOWING, Answer, Approval, Question, RememberedRule, always_for
from bailiwick.errors import ApprovalDenied
from bailiwick.root_questions import ASKED_VERB
from bailiwick.state.bodies import Bodies, encode, subject_key
from bailiwick.state.database import Connection, DatabasePart
from bailiwick.state.grants.book import select
from bailiwick.state.grants.budgets import accountable

DIFF_CHARACTERS_MAX = 256 * 1024
"""What is kept of a diff: it is bounded by lines before, and a line can be a whole file."""

DIFFS_KEPT = 64
"""Answered questions of which the diff is kept: what somebody wants to see again is of the last
days, and each may be as long as a diff can be."""

PART = DatabasePart(
    "approvals",
    (
        """
        CREATE TABLE approvals (
            seq         INTEGER PRIMARY KEY,
            id          TEXT NOT NULL UNIQUE,
            state       TEXT NOT NULL
                        CHECK (state IN ('pending', 'granted', 'denied', 'expired', 'used')),
            subject     TEXT NOT NULL,     -- who asks, by name
            grant_id    TEXT NOT NULL,
            binding     BLOB NOT NULL,     -- hash of what exactly is asked
            question    BLOB NOT NULL,     -- the Question, without its diff
            diff        BLOB,              -- content: see above for how long
            asked_ns    INTEGER NOT NULL,
            expires_ns  INTEGER NOT NULL,  -- for an answer; once granted, for the call to come
            answer      TEXT,
            answered_by TEXT,
            answered_ns INTEGER
        ) STRICT;
        CREATE INDEX approvals_open ON approvals (subject) WHERE state = 'pending';
        CREATE INDEX approvals_usable ON approvals (binding)
            WHERE state IN ('pending', 'granted');
        CREATE INDEX approvals_by_state ON approvals (state, expires_ns);
        """,
        """
        -- Whose question it is of whoever asks: see `bailiwick.state.grants.budgets`.
        ALTER TABLE approvals ADD COLUMN accountable TEXT NOT NULL DEFAULT '';
        DROP INDEX approvals_open;
        CREATE INDEX approvals_open ON approvals (accountable) WHERE state = 'pending';
        """,
        """
        -- Questions for a root come of no grant.
        CREATE INDEX approvals_for_roots ON approvals (accountable, asked_ns) WHERE grant_id = '';
        """,
    ),
)

COLUMNS = "id, state, question, diff, asked_ns, expires_ns, answer, answered_by, answered_ns, seq"
BRIEF_COLUMNS = COLUMNS.replace("diff", "NULL")
SHOWN_STATE = (
    "CASE WHEN state IN ('pending', 'granted') AND expires_ns <= ? THEN 'expired' ELSE state END"
)

_questions = Bodies(Question)


def new_approval_id() -> str:
    """80 bits nobody guesses, in 16 letters and digits that can be typed."""
    return base64.b32encode(secrets.token_bytes(10)).decode().lower()


# --- what is bound -----------------------------------------------------------------------------


def _bound(question: Question) -> dict[str, object]:
    """What an approval is for; the grant may be another one of the same subject."""
    return {
        "subject": subject_key(question.subject),
        "root": question.root,
        "branch": question.branch,
        "operation": question.operation,
        "verb": question.verb,
        "target": question.target,
        "destination": question.destination,
        "arguments": question.arguments,
        "access": question.access,
        "paths": (question.paths_total, question.paths_sha256),
        "content": question.preview.sha256,
        "replaced content": question.preview.sha256_before,
        **({} if question.command is None else {"command": question.command}),
    }


def binding_of(question: Question) -> bytes:
    return hashlib.sha256(encode(_bound(question))).digest()


def refuse_another(approved: Question, asked: Question) -> None:
    asked_for = _bound(asked)
    for what, value in _bound(approved).items():
        if asked_for.get(what) != value:
            raise ApprovalDenied(
                f"this approval is for something else: not the same {what}",
                hint="ask anew",
                details={"differs": what},
            )


def rule_of(approval: Approval, answer: Answer, by: str, now_ns: int) -> RememberedRule | None:
    if answer in {"once", "no"}:
        return None
    question = approval.question
    subject = always_for(question.subject) if answer == "always" else str(question.subject)
    return RememberedRule(
        id=f"remembered-{new_approval_id()}", subject=subject, root=question.root,
        grant_id=None if answer == "always" else question.grant_id, operation=question.operation,
        access=question.access, paths=question.paths, destination=question.destination,
        effect="deny" if answer == "never" else "allow",
        reason=f"answered {answer!r}: {question.prompt}", approval_id=approval.id, by=by,
        created_ns=now_ns, branch=question.branch, command=question.command,
    )  # fmt: skip


def speaks_for_all(approval: Approval) -> bool:
    """Whether the answer lets through every call that asked this, not one of them only."""
    question = approval.question
    if question.verb == ASKED_VERB:
        return approval.answer in ALLOWING  # they are all let through by the one grant it makes
    return approval.answer in {"grant", "always"} and question.paths_total <= len(question.paths)


# --- rows --------------------------------------------------------------------------------------


def find_in(connection: Connection, approval_id: str) -> Approval | None:
    sql = f"SELECT {COLUMNS} FROM approvals WHERE id = ?"
    rows = select(connection, sql, approval_id)
    return approval_of(rows[0]) if rows else None


def accountable_in(connection: Connection, question: Question) -> str:
    """For whom a question counts: what an agent's heirs ask is asked for that agent."""
    found = accountable(lambda sql, given: select(connection, sql, *given), question.grant_id)
    return found or str(question.subject)


def open_in(connection: Connection, accountable_for: str, now_ns: int) -> int:
    """How many questions of a subject wait for an answer."""
    rows = select(
        connection,
        "SELECT count(*) FROM approvals WHERE accountable = ? AND state = 'pending'"
        " AND expires_ns > ?",
        accountable_for, now_ns,
    )  # fmt: skip
    return int(rows[0][0])


def roots_asked_in(connection: Connection, accountable_for: str, since_ns: int) -> int:
    """For how many roots a subject has asked since a time, whatever was answered."""
    rows = select(
        connection,
        "SELECT count(*) FROM approvals WHERE grant_id = '' AND accountable = ? AND asked_ns > ?",
        accountable_for, since_ns,
    )  # fmt: skip
    return int(rows[0][0])


def insert_in(
    connection: Connection,
    question: Question,
    accountable_for: str,
    asked_ns: int,
    expires_ns: int,
) -> Approval:
    """Keep a new question, open."""
    kept, diff = _without_diff(question)
    approval_id = new_approval_id()
    # For this connection from now on: what is erased is overwritten.
    connection.pragma("secure_delete", True)
    connection.execute(
        "INSERT INTO approvals (id, state, subject, grant_id, binding, question, diff,"
        " asked_ns, expires_ns, accountable) VALUES (?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            approval_id, str(question.subject), question.grant_id, binding_of(question),
            _questions.encode(kept), diff, asked_ns, expires_ns, accountable_for,
        ),
    )  # fmt: skip
    return Approval(
        id=approval_id, question=question, state="pending", asked_ns=asked_ns,
        expires_ns=expires_ns,
    )  # fmt: skip


def settle_in(connection: Connection, approval_id: str, state: str) -> None:
    """Settle an open question. What would have been changed is kept where it was answered."""
    connection.pragma("secure_delete", True)
    connection.execute(
        "UPDATE approvals SET state = ? WHERE id = ? AND state = 'pending'", (state, approval_id)
    )
    settled = find_in(connection, approval_id)
    if state == "expired" or settled is None or settled.question.root.startswith("secret:"):
        connection.execute("UPDATE approvals SET diff = NULL WHERE id = ?", (approval_id,))
    connection.execute(
        "UPDATE approvals SET diff = NULL WHERE diff IS NOT NULL AND state <> 'pending' AND seq <="
        " (SELECT seq FROM approvals WHERE diff IS NOT NULL AND state <> 'pending'"
        f" ORDER BY seq DESC LIMIT 1 OFFSET {DIFFS_KEPT})"
    )


def use_in(connection: Connection, approval_id: str) -> bool:
    connection.execute(
        "UPDATE approvals SET state = 'used' WHERE id = ? AND state = 'granted'", (approval_id,)
    )
    return connection.changes() == 1


def _without_diff(question: Question) -> tuple[Question, bytes | None]:
    """The question without content, and the content by itself, as far as it is kept."""
    preview = question.preview
    if preview.diff is None:
        return question, None
    cut = len(preview.diff) > DIFF_CHARACTERS_MAX
    kept = msgspec.structs.replace(preview, diff=None, diff_truncated=preview.diff_truncated or cut)
    diff = preview.diff[:DIFF_CHARACTERS_MAX].encode("utf-8", "backslashreplace")
    return msgspec.structs.replace(question, preview=kept), diff


def approval_of(row: tuple[Any, ...]) -> Approval:
    id_, state, body, diff, asked_ns, expires_ns, answer, by, answered_ns = row[:9]
    question = _questions.decode(body)
    if diff is not None:
        preview = msgspec.structs.replace(question.preview, diff=diff.decode("utf-8"))
        question = msgspec.structs.replace(question, preview=preview)
    return Approval(
        id=id_, question=question, state=state, asked_ns=asked_ns, expires_ns=expires_ns,
        answer=answer, answered_by=by, answered_ns=answered_ns,
    )  # fmt: skip


def shown(approval: Approval, now_ns: int) -> Approval:
    """As it is now: nobody may have been there to settle what ran out of time."""
    if approval.state in {"pending", "granted"} and now_ns >= approval.expires_ns:
        return msgspec.structs.replace(approval, state="expired")
    return approval
