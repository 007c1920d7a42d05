"""Errors from the wire: the same classes, with all that the server said of them.

What a server says is shown to people and models, so it is bounded and made visible here, whatever
it was there.
"""

from __future__ import annotations

import errno
import ssl
from datetime import datetime
from typing import Any

import msgspec

from bailiwick.errors import (
    KINDS,
    ApprovalTimeout,
    BailiwickError,
    InternalError,
    IoError,
    escape_for_display,
)

_WORDS_MAX = 4_096
"""Characters of a message, a hint or a path that are kept: the longest path there is."""

_DETAILS_MAX = 64
"""Details of an error that are kept; the most that any of ours has is five."""

_UNANSWERED = "unanswered"
_NOT_KNOWN = "what was asked may have been done: look before you try again"


class _Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An error as a server tells it. The category goes with the kind."""

    error_kind: str
    error: str
    request_id: str | None = None
    hint: str | None = None
    path: str | None = None
    decided_by: str | None = None
    details: dict[str, Any] | None = None
    retryable: bool | None = None


class _Pending(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    approval_id: str
    request_id: str
    expires_at: str


def failure_of(status: int, document: object) -> BailiwickError:
    """The error that an answer with such a status is."""
    try:
        told = msgspec.convert(document, _Told)
    except msgspec.ValidationError:
        return _foreign(status)
    known = KINDS.get(told.error_kind)
    if known is None:
        return InternalError(
            f"an error that this version does not know ({_shown(told.error_kind)[:64]}): "
            f"{_shown(told.error)}"
        )
    error = known(
        _shown(told.error), path=_shown_or_none(told.path), hint=_shown_or_none(told.hint),
        status=status, decided_by=_shown_or_none(told.decided_by), details=_details(told.details),
        retryable=told.retryable,
    )  # fmt: skip
    error.request_id = _shown_or_none(told.request_id)
    return error


def pending(document: object) -> ApprovalTimeout:
    """A person is being asked, and has not answered yet."""
    try:
        told = msgspec.convert(document, _Pending)
        expires = datetime.fromisoformat(told.expires_at)
    except ValueError:  # which a ValidationError is, too
        raise no_answer("it says that it asks a person, and not how to go on") from None
    approval_id = _shown(told.approval_id)
    error = ApprovalTimeout(
        "nobody has answered yet",
        hint=f"make the same call with_approval({approval_id!r}) once it is granted",
        details={
            "approval_id": approval_id, "expires_ns": int(expires.timestamp()) * 1_000_000_000,
            "pending": True,
        },
    )  # fmt: skip
    error.request_id = _shown(told.request_id)
    return error


def no_answer(why: str) -> InternalError:
    """What came is no answer of Bailiwick's: another server, a proxy, or a fault of ours."""
    return InternalError(
        f"the server gave no answer that can be understood: {why}",
        hint="is this the address of a Bailiwick server?",
    )


def unreachable(why: str) -> IoError:
    """The connection failed; whether the server heard what was asked is not known."""
    return IoError(
        f"the server cannot be reached: {why}", errno=errno.ECONNREFUSED, hint="is it running?"
    )


def untrusted(error: ssl.SSLError) -> IoError:
    """There is somebody, who could not show that they are the server: they were told nothing."""
    why = getattr(error, "verify_message", "") or "it does not speak TLS as we do"
    return IoError(
        f"the server cannot be trusted: {why}", errno=errno.EPROTO,
        hint="check the address, or give tls= what its certificate is checked by",
    )  # fmt: skip


def cut_off(why: str) -> IoError:
    return IoError(
        f"the connection to the server was cut off: {why}", errno=errno.ECONNRESET,
        hint=_NOT_KNOWN, details={_UNANSWERED: True},
    )  # fmt: skip


def too_slow(seconds: float) -> IoError:
    return IoError(
        f"the server did not answer within {seconds:g} seconds", errno=errno.ETIMEDOUT,
        hint=_NOT_KNOWN,
    )  # fmt: skip


def is_unanswered(error: BailiwickError) -> bool:
    """Whether the answer was lost, and with it what became of what was asked."""
    return error.details.get(_UNANSWERED) is True


def comes_back_s(error: BailiwickError) -> float | None:
    """In how many seconds a server that has done nothing yet says that it may be asked again; None
    where it does not."""
    seconds = error.details.get("retry_after_s")
    if error.status != 503 or not isinstance(seconds, (int, float)):
        return None
    return max(0.0, float(seconds))


def _foreign(status: int) -> BailiwickError:
    """An error page of something that is not Bailiwick."""
    if status >= 500:
        return IoError(
            f"something between here and the server answered {status}", errno=errno.ECONNREFUSED,
            hint="is the server running?", details={_UNANSWERED: True},
        )  # fmt: skip
    return no_answer(f"status {status}, without a kind")


def _shown(text: str) -> str:
    return escape_for_display(text[:_WORDS_MAX])


def _shown_or_none(text: str | None) -> str | None:
    return None if text is None else _shown(text)


def _details(told: dict[str, Any] | None) -> dict[str, Any]:
    """The details by the names that Python knows them by; hashes as plain digits."""
    details = {}
    for name, value in list((told or {}).items())[:_DETAILS_MAX]:
        known = _snake(name).replace("hash", "sha256")
        if known.endswith("sha256") and isinstance(value, str):
            value = value.removeprefix("sha256:")
        details[known] = value
    return details


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name[:64])
