"""What each argument of a verb must be: one table for all verbs, in which a name means one thing.

A model's tool arguments come as whatever it wrote, so none is trusted to be of its type. A wrong
one is `ParseError` with the argument's name, before anything is done with it. Paths are not here:
`bailiwick.paths` parses them. Content is checked where it is encoded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar, get_args

from bailiwick.call import Call
from bailiwick.errors import ParseError
from bailiwick.grant import Grant
from bailiwick.model import ANYTHING, Edit, EntryType, Expected, LineEnding, WriteMode
from bailiwick.proposal import Prepare, Proposal
from bailiwick.store import WritePlan
from bailiwick.verbs import writes
from bailiwick.verbs.modes import check_mode_in
from bailiwick.verbs.writes import AS_IT_WAS, FormAsked, How
from bailiwick.versions import check_leases

Result = TypeVar("Result")

Check = Callable[[str, object], None]

_INT_MAX = 2**63 - 1
"""What filesystems count with; a number of thousands of digits could not even be printed."""

_REQUEST_ID_CHARACTERS_MAX = 128

_USUAL_MODE: WriteMode = "overwrite"
_USUAL: How = _USUAL_MODE, None, None, False, None


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


def plan(grant: Grant, how: How = _USUAL, form: FormAsked = AS_IT_WAS) -> WritePlan:
    """How to publish. The usual way is not looked at: every small write comes by here."""
    mode, sha256, version, parents, file_mode = how
    if mode is not _USUAL_MODE or parents is not False or file_mode is not None:
        check_all({"mode": mode, "parents": parents, "file_mode": file_mode})
        check_mode_in(grant.root, file_mode)
    if sha256 is not None or version is not None:
        check_all({"expected_sha256": sha256, "expected_version": version})
    if form is not AS_IT_WAS:
        encoding, bom, line_ending = form
        if encoding is not None or bom is not None or line_ending is not None:
            check_all(form._asdict())
    return writes.plan(grant.limits.max_file_bytes, *how)


def expected(version: str | None, sha256: str | None, what: str = "expected") -> Expected:
    """What a caller last saw at a place; ``what`` is how its arguments begin."""
    if version is None and sha256 is None:
        return ANYTHING
    check_all({f"{what}_version": version, f"{what}_sha256": sha256})
    writes.check_sha256(sha256)
    return Expected(version, sha256)


def size_of(data: object) -> int | None:
    """How much is to be written, as far as that is known before it is looked at."""
    return len(data) if isinstance(data, (bytes, bytearray, memoryview, str)) else None


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
