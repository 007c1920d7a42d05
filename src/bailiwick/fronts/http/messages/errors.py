"""Every error on the wire: one shape, and one complete table from kind to status."""

from __future__ import annotations

import logging
import secrets
from typing import Any

import msgspec

from bailiwick.errors import BailiwickError, InternalError, escape_for_display, from_os_error

_log = logging.getLogger("bailiwick.http")

STATUS: dict[str, int] = {
    "path_outside_workspace": 400,
    "symlink_escape": 400,
    "hardlink_refused": 403,
    "too_many_links": 400,
    "parse_error": 400,
    "not_a_regular_file": 400,
    "is_a_directory": 400,
    "not_a_directory": 400,
    "path_not_found": 404,
    "root_not_found": 404,
    "file_already_exists": 409,
    "directory_not_empty": 409,
    "hash_mismatch": 409,
    "lock_held": 423,
    "file_too_large": 413,
    "binary_file": 422,
    "text_not_found": 422,
    "ambiguous_text_match": 422,
    "untrusted_workspace": 403,
    "missing_access": 403,
    "policy_denied": 403,
    "approval_denied": 403,
    "approval_timeout": 403,
    "grant_expired": 403,
    "grant_revoked": 403,
    "permission_denied": 403,
    "read_only": 403,
    "quota_exceeded": 507,
    "rate_limited": 429,
    "busy": 503,
    "io_error": 503,
    "unsupported": 501,
    "closed": 503,
    "internal_error": 500,
    "unauthenticated": 401,
    "forbidden_origin": 403,
    "route_not_found": 404,
    "method_not_allowed": 405,
    "unsupported_media_type": 415,
    "range_not_satisfiable": 416,
}

OTHER_STATUSES: dict[str, frozenset[int]] = {
    "parse_error": frozenset((422, 431)),
    "hash_mismatch": frozenset((412,)),
    "file_already_exists": frozenset((412,)),
    "io_error": frozenset((408,)),
    "closed": frozenset((409,)),
}
"""What a kind may have besides: content that breaks its own rules, too large a header, a failed
If-Match or If-None-Match, a request that did not come in time, input for what reads none any
more."""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What went wrong."""

    error_kind: str
    error: str
    status: int
    request_id: str
    category: str
    retryable: bool
    hint: str | None = None
    path: str | None = None
    decided_by: str | None = None
    details: dict[str, Any] | None = None


_encoder = msgspec.json.Encoder(enc_hook=str)


def typed(error: Exception) -> BailiwickError:
    """The error of ours that an exception is. What is none of ours is a fault, and in the log."""
    if isinstance(error, BailiwickError):
        return error
    if isinstance(error, OSError):
        return from_os_error(error)
    _log.error("an unexpected fault", exc_info=error)
    return InternalError(f"an unexpected fault: {type(error).__name__}")


def status_of(error: BailiwickError) -> int:
    usual = STATUS[error.kind]
    if error.status != usual and error.status in OTHER_STATUSES.get(error.kind, ()):
        return error.status
    return usual


def document(error: BailiwickError, status: int | None = None) -> ErrorBody:
    """An error as a client gets it, with all that it takes to make the same error again there."""
    return ErrorBody(
        error_kind=error.kind,
        error=escape_for_display(error.message),
        status=status or status_of(error),
        request_id=error.request_id or new_request_id(),
        category=error.category,
        retryable=error.retryable,
        hint=error.hint,
        path=None if error.path is None else str(error.path),
        decided_by=error.decided_by,
        details=_details(error),
    )


def encode(error: BailiwickError, status: int | None = None) -> bytes:
    try:
        return _encoder.encode(document(error, status))
    except UnicodeEncodeError:  # half a character in a path that was refused for it
        error.path = None
        error.hint = None
        error.details = {}
        return _encoder.encode(document(error, status))


def _details(error: BailiwickError) -> dict[str, Any] | None:
    """The details by the names of the wire; hashes as the wire writes them."""
    if not error.details:
        return None
    return {_wire_name(name): _wire_value(name, value) for name, value in error.details.items()}


def _wire_name(name: str) -> str:
    first, *more = name.replace("sha256", "hash").split("_")
    return first + "".join(part.capitalize() for part in more)


def _wire_value(name: str, value: object) -> object:
    if name.endswith("sha256") and isinstance(value, str):
        return f"sha256:{value}"
    return value


def new_request_id() -> str:
    return secrets.token_hex(8)
