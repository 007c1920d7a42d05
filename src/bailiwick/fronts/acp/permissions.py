"""A question to a person, as the editor's own permission request; and what they said.

The protocol has four answers, each of which means one of ours. A question is shown as a tool call,
and an editor lets whoever knows the id of one change what it shows. So the ids of ours are known to
nobody but the editor, and no message of an agent that names such an id goes there.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from bailiwick.approvals import Answer, Approval, Question
from bailiwick.errors import escape_for_display
from bailiwick.fronts.acp.members import known_names, members_inside
from bailiwick.operations import EXEC

OURS = "bailiwick-"
"""How the ids of our tool calls begin, and those of nobody else."""

_may_name_ours = re.compile(rb"bailiwick-|\\u00(?:2[dD]|6[1-9bBcC]|77)").search
"""Finds where our beginning could stand, also with letters escaped."""

_WHERE = known_names("update", "toolCall", "toolCallId")
_decode_text = msgspec.json.Decoder(str).decode

ANSWERS: dict[str, Answer] = {
    "allow_once": "once",
    "allow_always": "grant",
    "reject_once": "no",
    "reject_always": "never",
}
"""What each kind of option means: always is for this grant, so it ends with the agent."""

_NAMES = {
    "allow_once": "Allow once",
    "allow_always": "Allow until the agent ends",
    "reject_once": "Reject",
    "reject_always": "Reject until the agent ends",
}

OPTIONS = [{"optionId": kind, "name": name, "kind": kind} for kind, name in _NAMES.items()]

_KINDS = {"read": "read", "list": "read", "metadata": "read", "delete": "delete", "exec": "execute"}
"""What the protocol calls an operation, by which editors choose how they show it; else an edit."""

_TITLE_CHARACTERS_MAX = 200
_DIFF_CHARACTERS_MAX = 64 * 1024
_PATHS_SHOWN_MAX = 20

_fences = re.compile("`{3,}").findall


def permission_request(
    approval: Approval, session_id: str, shown: Callable[[str], str]
) -> dict[str, Any]:
    """The parameters of ``session/request_permission``. ``shown`` gives a place of the scope the
    name that the editor knows it by."""
    question = approval.question
    what = shown(question.target or (question.paths[0] if question.paths else "."))
    about = question.command if question.operation == EXEC.name else None
    title = escape_for_display(f"{question.operation} {about or what}")
    return {
        "sessionId": session_id,
        "toolCall": {
            "toolCallId": f"{OURS}{secrets.token_hex(16)}",
            "title": _cut(title),
            "kind": _KINDS.get(question.operation, "edit"),
            "status": "pending",
            "locations": [{"path": shown(path)} for path in question.paths[:_PATHS_SHOWN_MAX]],
            "content": [
                {"type": "content", "content": {"type": "text", "text": _explained(question)}}
            ],
        },
        "options": OPTIONS,
    }


def _cut(title: str) -> str:
    """A title that is no longer than one is shown; the rest stands in the explanation."""
    short = title[: _TITLE_CHARACTERS_MAX - 1]
    return title if len(title) <= _TITLE_CHARACTERS_MAX else f"{short}…"


def names_our_question(line: bytes, params: Raw | None) -> bool:
    """Whether a message of an agent is about a tool call of ours, wherever the protocol lets it
    name one. Raises `Malformed` where one reader could find another id there than we do."""
    if not _may_name_ours(line):
        return False
    given = members_inside(params, _WHERE)
    inner = (members_inside(given.get(name), _WHERE) for name in ("update", "toolCall"))
    return any(_is_ours(each.get("toolCallId")) for each in (given, *inner))


def _is_ours(tool_call: Raw | None) -> bool:
    text = b"" if tool_call is None else bytes(tool_call)
    return text.startswith(b'"') and _decode_text(text).startswith(OURS)


def answer_of(outcome: object) -> Answer | None:
    """What a person said, from the result of a permission request. A turn that they cancelled is a
    no; what is not understood is no answer, and the question stays open elsewhere."""
    if isinstance(outcome, dict):
        chosen = outcome.get("outcome")
        if isinstance(chosen, dict):
            if chosen.get("outcome") == "cancelled":
                return "no"
            if chosen.get("outcome") == "selected":
                return ANSWERS.get(str(chosen.get("optionId")))
    return None


def _explained(question: Question) -> str:
    """Why a person is asked, and what would be done. All of it comes from callers and files, so
    nothing of it may pass for something the editor says."""
    lines = [escape_for_display(question.prompt)]
    if question.sources:
        lines.append(f"Asked by the rule {escape_for_display(', '.join(question.sources))}.")
    if question.arguments:
        lines.append(f"With: {escape_for_display(question.arguments)}.")
    if question.preview.diff:
        diff = question.preview.diff[:_DIFF_CHARACTERS_MAX]
        fence = "`" * (max(map(len, _fences(diff)), default=2) + 1)
        shown = "\n".join(escape_for_display(line) for line in diff.split("\n"))
        lines.append(f"{fence}diff\n{shown}\n{fence}")
        if question.preview.diff_truncated or len(diff) < len(question.preview.diff):
            lines.append("The difference is longer than what is shown of it.")
    return "\n\n".join(line for line in lines if line)
