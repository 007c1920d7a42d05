"""What a model is told when a tool fails: short, and what to do next."""

from __future__ import annotations

from typing import Any

from bailiwick.errors import ApprovalTimeout, BailiwickError, escape_for_display

_MESSAGE_CHARACTERS_MAX = 300

_NOT_HERE = "do not try again: this is not allowed here"
_NOT_NOW = "do not try again: what was granted has ended"
_NOT_SERVED = "this workspace cannot do that: tell the person"
_LATER = "try again"

HINTS: dict[str, str] = {
    "path_outside_workspace": "give a path inside the workspace, relative to its top",
    "symlink_escape": "give the path of the file itself, inside the workspace",
    "hardlink_refused": "this file has another name elsewhere: write a new one",
    "too_many_links": "these links lead in a circle: give another path",
    "parse_error": "check the arguments",
    "not_a_regular_file": "this is no file that can be read or written",
    "is_a_directory": "use ls for a directory",
    "not_a_directory": "a part of the path is a file: look with ls",
    "path_not_found": "look with ls or glob what there is",
    "root_not_found": "there is no such workspace",
    "file_already_exists": "choose another name, or remove the other one first",
    "directory_not_empty": "set recursive to remove what lies in it too",
    "hash_mismatch": "it was changed meanwhile: read it again, then decide anew",
    "lock_held": "someone else works on it: try again later",
    "file_too_large": "read it in parts with line and limit, or write less at once",
    "binary_file": "this is no text: only its name and size can be seen",
    "text_not_found": "read the file and copy the text exactly, with its spaces",
    "ambiguous_text_match": "give more of the text around it, or set replaceAll",
    "untrusted_workspace": "do not try again: this can only be read",
    "missing_access": _NOT_HERE,
    "policy_denied": _NOT_HERE,
    "approval_denied": "do not try again unless the person asks for it",
    "approval_timeout": "nobody answered: go on with something else, or ask the person",
    "grant_expired": _NOT_NOW,
    "grant_revoked": _NOT_NOW,
    "permission_denied": _NOT_HERE,
    "read_only": "do not try again: this can only be read",
    "quota_exceeded": "remove something first",
    "rate_limited": "wait a little",
    "busy": _LATER,
    "io_error": _LATER,
    "unsupported": "this workspace cannot do that",
    "closed": "the workspace is closed",
    "internal_error": "try something else, and tell the person",
    "unauthenticated": _NOT_HERE,
    "forbidden_origin": _NOT_HERE,
    "route_not_found": _NOT_SERVED,
    "method_not_allowed": _NOT_SERVED,
    "unsupported_media_type": _NOT_SERVED,
    "range_not_satisfiable": "ask for a part that lies in the file",
}
"""What to do next, for every kind, where an error does not say so itself. A workspace may be one on
a server, so the kinds of a server are among them."""


_STILL_OPEN = {
    "ok": False, "errorKind": "approval_pending", "message": "a person has to agree first",
    "hint": "go on with something else; once they agreed, the same call goes through",
}  # fmt: skip
"""What is told where a front does not wait any longer, and the question is still open."""


def failure(error: BailiwickError) -> dict[str, Any]:
    """The answer for an error. No host path: an error holds none. Where someone decided it says
    who, so that the person behind the model can find the rule."""
    if isinstance(error, ApprovalTimeout) and error.details.get("pending"):
        return dict(_STILL_OPEN)
    message = error.message
    if error.path is not None and error.path != ".":
        message = f"{escape_for_display(error.path)}: {message}"
    told: dict[str, Any] = {
        "ok": False, "errorKind": error.kind, "message": _short(message),
        "hint": _short(error.hint or HINTS[error.kind]),
    }  # fmt: skip
    if error.decided_by is not None:
        told["decidedBy"] = _short(error.decided_by)
    return told


def _short(text: str) -> str:
    if len(text) <= _MESSAGE_CHARACTERS_MAX:
        return text
    return text[: _MESSAGE_CHARACTERS_MAX - 3] + "..."
