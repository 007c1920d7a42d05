"""What a model is told when a tool fails: short, and what to do next."""

from __future__ import annotations

from typing import Any

from bailiwick.errors import ApprovalTimeout, BailiwickError, escape_for_display
from bailiwick.toolbox import hints
from bailiwick.toolbox.hints import NameOf

_MESSAGE_CHARACTERS_MAX = 300


def nothing_offered(operation: str) -> str | None:
    """For whoever is told of an error away from any tool."""
    return None


def failure(
    error: BailiwickError, operation: str | None = None, name_of: NameOf = nothing_offered
) -> dict[str, Any]:
    """The answer for an error. No host path: an error holds none. Where someone decided it says
    who, so that the person behind the model can find the rule."""
    if isinstance(error, ApprovalTimeout) and error.details.get("pending"):
        return _still_open(error)
    message = error.message
    if error.path is not None and error.path != ".":
        message = f"{escape_for_display(error.path)}: {message}"
    told: dict[str, Any] = {
        "ok": False, "errorKind": error.kind, "message": _short(message),
        "hint": _short(hints.advice(error.kind, operation, name_of, error.hint)),
    }  # fmt: skip
    if error.decided_by is not None:
        told["decidedBy"] = _short(error.decided_by)
    return told


def _still_open(error: ApprovalTimeout) -> dict[str, Any]:
    """What is told where a front does not wait any longer, and the question is still open."""
    told: dict[str, Any] = {
        "ok": False, "errorKind": "approval_pending", "message": "a person has to agree first",
        "hint": str(hints.STILL_OPEN.told(nothing_offered)),
    }  # fmt: skip
    if "approval_id" in error.details:
        told["approvalId"] = error.details["approval_id"]
    return told


def _short(text: str) -> str:
    """Plain text, not one of the classes that hints have: not every encoder takes those."""
    if len(text) <= _MESSAGE_CHARACTERS_MAX:
        return str(text)
    return text[: _MESSAGE_CHARACTERS_MAX - 3] + "..."
