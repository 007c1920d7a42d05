"""What each argument of a verb must be: one table for all verbs, in which a name means one thing.

A model's tool arguments come as whatever it wrote, so none is trusted to be of its type. A wrong
one is `ParseError` with the argument's name, before anything is done with it. Paths are not here:
`bailiwick.paths` parses them. Content is checked where it is encoded.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar, get_args

from bailiwick.call import Call
from bailiwick.errors import ParseError
from bailiwick.model import ANYTHING, Edit, EntryType, Expected, LineEnding, WriteMode
from bailiwick.proposal import Prepare, Proposal
from bailiwick.versions import check_leases

Result = TypeVar("Result")

Check = Callable[[str, object], None]

_INT_MAX = 2**63 - 1
"""What filesystems count with; a number of thousands of digits could not even be printed."""

_REQUEST_ID_CHARACTERS_MAX = 128

_is_sha256 = re.compile(r"[0-9a-f]{64}").fullmatch


def an_int(name: str, value: object) -> None:
    # True is an int to Python, and a mistake to everybody else.
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(name, "a whole number", value)
    if not -_INT_MAX <= value <= _INT_MAX:
        raise ParseError(f"{name} must be a whole number of 64 bits", details={"limit": _INT_MAX})


def seconds(name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _wrong(name, "a number of seconds", value)


def a_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise _wrong(name, "text", value)


def a_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise _wrong(name, "true or false", value)


def texts(name: str, value: object) -> None:
    """One text, or a list of them."""
    if isinstance(value, str):
        return
    if not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise _wrong(name, "a text or a list of texts", value)


def edits(name: str, value: object) -> None:
    if not isinstance(value, Sequence) or not all(isinstance(each, Edit) for each in value):
        raise _wrong(name, "a list of bailiwick.Edit", value)
    for edit in value:
        a_text("old", edit.old)
        a_text("new", edit.new)
        a_flag("replace_all", edit.replace_all)


def a_choice(choices: tuple[str, ...]) -> Check:
    what = f"one of {', '.join(choices)}"

    def check(name: str, value: object) -> None:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(name, what, value)

    return check


def _wrong(name: str, what: str, value: object) -> ParseError:
    given = "" if isinstance(value, str) and what.startswith("one of") else type(value).__name__
    return ParseError(f"{name} must be {what}" + (f", not {given}" if given else ""))


def _table(kinds: dict[Check, str]) -> dict[str, Check]:
    return {name: check for check, names in kinds.items() for name in names.split()}


_OPTIONAL = _table(
    {
        an_int: "length line limit tail depth size_min size_max modified_after_ns"
        " max_results max_file_bytes file_mode atime_ns since_ns",
        a_text: "format cursor encoding expected_sha256 expected_version old new"
        " expected_destination_sha256 expected_destination_version"
        " request_id subject version through",
        a_flag: "empty bom",
        texts: "include exclude",
        edits: "edits",
        a_choice(get_args(LineEnding)): "line_ending",
        a_choice(get_args(EntryType)): "type",
    }
)
"""Those that may be None, which most are."""

_CHECKS = _OPTIONAL | _table(
    {
        an_int: "offset size context mtime_ns",
        seconds: "ttl",
        a_text: "target pattern host_path name",
        a_flag: "parents replace_all dry_run include_ignored literal ignore_case word"
        " report_skipped recursive missing_ok replace overwrite rebase expand preview",
        a_choice(get_args(WriteMode)): "mode",
    }
)


def check_all(given: Mapping[str, object]) -> None:
    """Refuse the first argument that is not what its name says."""
    for name, value in given.items():
        if value is not None or name not in _OPTIONAL:
            _CHECKS[name](name, value)


def check_known(given: Mapping[str, object]) -> None:
    """Refuse the first argument of those named here that is not what its name says; of paths and
    content others know."""
    check_all({name: value for name, value in given.items() if name in _CHECKS})


def checking(given: Mapping[str, object], prepare: Prepare[Result]) -> Prepare[Result]:
    """``prepare`` after a look at what was given."""

    def checked(call: Call) -> Awaitable[Result | Proposal[Result]]:
        check_all(given)
        return prepare(call)

    return checked


def locking(lock_token: object, prepare: Prepare[Result]) -> Prepare[Result]:
    """``prepare`` for a caller that says it holds a lease: where there are none, that is refused
    and not ignored."""

    def checked(call: Call) -> Awaitable[Result | Proposal[Result]]:
        check_lock_token(call, lock_token)
        return prepare(call)

    return checked


def check_lock_token(call: Call, lock_token: object) -> None:
    if lock_token is not None:
        an_int("lock_token", lock_token)
        check_leases(call.store)


def check_sha256(expected: str | None) -> None:
    if expected is not None and not (isinstance(expected, str) and _is_sha256(expected)):
        raise ParseError("expected_sha256 must be 64 lowercase hex digits")


def expected(version: str | None, sha256: str | None, what: str = "expected") -> Expected:
    """What a caller last saw at a place; ``what`` is how its arguments begin."""
    if version is None and sha256 is None:
        return ANYTHING
    check_all({f"{what}_version": version, f"{what}_sha256": sha256})
    check_sha256(sha256)
    return Expected(version, sha256)


def check_request_id(request_id: object) -> None:
    """A caller's id stands in every record and log line: it must be short and fit on one."""
    if (
        not isinstance(request_id, str)
        or not 1 <= len(request_id) <= _REQUEST_ID_CHARACTERS_MAX
        or not request_id.isprintable()
    ):
        raise ParseError(
            f"request_id must be 1 to {_REQUEST_ID_CHARACTERS_MAX} printable characters"
        )
