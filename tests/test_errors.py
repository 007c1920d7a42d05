"""One tree of errors, one closed list of kinds, one table from the machine's numbers."""

import copy
import errno
import inspect
import pickle

import hypothesis.strategies as st
import pytest
from hypothesis import given

from bailiwick import errors
from bailiwick.errors import (
    KINDS,
    BailiwickError,
    HashMismatch,
    InternalError,
    IoError,
    OperationalError,
    PathNotFound,
    PermissionDenied,
    PolicyError,
    escape_for_display,
    from_os_error,
)

POLICY, OPERATIONAL = "policy", "operational"
REFUSED = (403, errno.EACCES, PermissionError, POLICY, False)
WIRE = (errno.EINVAL, ValueError, OPERATIONAL, False)

# kind → status, errno, what it is in plain Python, category, whether a retry can help.
TABLE = {
    "path_outside_workspace": (400, errno.EXDEV, PermissionError, POLICY, False),
    "symlink_escape": (400, errno.EXDEV, PermissionError, POLICY, False),
    "hardlink_refused": (403, errno.EPERM, PermissionError, POLICY, False),
    "too_many_links": (400, errno.ELOOP, OSError, OPERATIONAL, False),
    "parse_error": (400, errno.EINVAL, ValueError, OPERATIONAL, False),
    "not_a_regular_file": (400, errno.EINVAL, OSError, OPERATIONAL, False),
    "is_a_directory": (400, errno.EISDIR, IsADirectoryError, OPERATIONAL, False),
    "not_a_directory": (400, errno.ENOTDIR, NotADirectoryError, OPERATIONAL, False),
    "path_not_found": (404, errno.ENOENT, FileNotFoundError, OPERATIONAL, False),
    "root_not_found": (404, errno.ENOENT, FileNotFoundError, OPERATIONAL, False),
    "file_already_exists": (409, errno.EEXIST, FileExistsError, OPERATIONAL, False),
    "directory_not_empty": (409, errno.ENOTEMPTY, OSError, OPERATIONAL, False),
    "hash_mismatch": (409, errno.ESTALE, OSError, OPERATIONAL, True),
    "lock_held": (423, errno.EAGAIN, BlockingIOError, OPERATIONAL, True),
    "file_too_large": (413, errno.EFBIG, OSError, POLICY, False),
    "binary_file": (422, errno.EILSEQ, ValueError, OPERATIONAL, False),
    "text_not_found": (422, errno.EINVAL, ValueError, OPERATIONAL, False),
    "ambiguous_text_match": (422, errno.EINVAL, ValueError, OPERATIONAL, False),
    "untrusted_workspace": REFUSED,
    "missing_access": REFUSED,
    "policy_denied": REFUSED,
    "approval_denied": REFUSED,
    "approval_timeout": REFUSED,
    "grant_expired": REFUSED,
    "grant_revoked": REFUSED,
    "permission_denied": (403, errno.EACCES, PermissionError, OPERATIONAL, False),
    "read_only": (403, errno.EROFS, OSError, POLICY, False),
    "quota_exceeded": (507, errno.EDQUOT, OSError, POLICY, False),
    "rate_limited": (429, errno.EAGAIN, BlockingIOError, POLICY, True),
    "busy": (503, errno.EAGAIN, BlockingIOError, OPERATIONAL, True),
    "io_error": (503, errno.EIO, OSError, OPERATIONAL, True),
    "unsupported": (501, errno.ENOTSUP, NotImplementedError, OPERATIONAL, False),
    "closed": (503, errno.EBADF, ValueError, OPERATIONAL, True),
    "internal_error": (500, errno.EIO, RuntimeError, OPERATIONAL, False),
    "unauthenticated": (401, errno.EACCES, PermissionError, POLICY, False),
    "forbidden_origin": (403, errno.EACCES, PermissionError, POLICY, False),
    "route_not_found": (404, *WIRE),
    "method_not_allowed": (405, *WIRE),
    "unsupported_media_type": (415, *WIRE),
    "range_not_satisfiable": (416, *WIRE),
}

BY_ERRNO = {
    errno.ENOENT: "path_not_found",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.ELOOP: "too_many_links",
    errno.EISDIR: "is_a_directory",
    errno.ENOTDIR: "not_a_directory",
    errno.EEXIST: "file_already_exists",
    errno.ENOTEMPTY: "directory_not_empty",
    errno.EROFS: "read_only",
    errno.EDQUOT: "quota_exceeded",
    errno.EFBIG: "file_too_large",
    errno.ENAMETOOLONG: "parse_error",
    errno.EINVAL: "parse_error",
    errno.EAGAIN: "busy",
}

MACHINE_FAILED = [
    errno.ENOSPC, errno.EIO, errno.EBUSY, errno.ETXTBSY, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
    errno.ETIMEDOUT, errno.ECONNREFUSED,
]  # fmt: skip


def classes():
    """Every error class of the module, leaves and inner nodes."""
    found = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]
    return [cls for cls in found if issubclass(cls, BailiwickError)]


@pytest.mark.spec("ERR-1", "ERR-2")
def test_the_list_of_kinds_is_closed():
    assert KINDS.keys() == TABLE.keys()
    assert all(KINDS[kind].kind == kind for kind in KINDS)


@pytest.mark.spec("ERR-1", "ERR-2")
@pytest.mark.parametrize("kind", TABLE)
def test_every_kind_is_as_the_table_says(kind):
    status, number, twin, category, retryable = TABLE[kind]
    error = KINDS[kind]("what happened", path="d/f", hint="do this")
    assert (error.status, error.errno) == (status, number)
    assert isinstance(error, twin)
    assert (error.category, error.retryable) == (category, retryable)
    assert isinstance(error, PolicyError if category == POLICY else OperationalError)
    assert (error.message, error.path, error.hint) == ("what happened", "d/f", "do this")
    assert str(error) == "d/f: what happened (do this)"


@pytest.mark.spec("ERR-1")
@pytest.mark.parametrize("kind", TABLE)
def test_plain_python_handlers_catch_every_kind(kind):
    twin = TABLE[kind][2]
    with pytest.raises(twin) as caught:
        raise KINDS[kind]("what happened", path="d/f")
    if isinstance(caught.value, OSError):
        assert caught.value.errno == TABLE[kind][1]
        assert caught.value.filename == "d/f"
        assert caught.value.strerror == "what happened"


@pytest.mark.spec("ERR-1")
def test_the_docstring_draws_the_whole_tree():
    for cls in KINDS.values():
        assert f"{cls.__name__} " in errors.__doc__
        assert f" {cls.kind} " in errors.__doc__


@pytest.mark.spec("ERR-1")
def test_a_status_and_errno_can_be_told_apart_per_case():
    assert HashMismatch("changed", status=412).status == 412
    assert PermissionDenied("the root stays", errno=errno.EPERM).errno == errno.EPERM


@pytest.mark.spec("ERR-1")
@pytest.mark.parametrize("kind", TABLE)
@pytest.mark.parametrize("duplicate", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_an_error_survives_a_round_trip(kind, duplicate):
    error = KINDS[kind](
        "what happened", path="d/f", hint="do this", status=499, errno=77,
        decided_by="rule 3", details={"limit": 5},
    )  # fmt: skip
    error.request_id = "r1"
    again = duplicate(error)
    assert type(again) is type(error)
    for name in (
        "message", "path", "hint", "status", "errno", "decided_by", "details", "request_id",
    ):  # fmt: skip
        assert getattr(again, name) == getattr(error, name), name
    assert str(again) == str(error)


@pytest.mark.spec("ERR-1")
def test_details_are_each_error_s_own():
    first, second = PathNotFound("a"), PathNotFound("b")
    first.details["x"] = 1
    assert second.details == {}


@pytest.mark.spec("ERR-3")
@pytest.mark.parametrize("number", BY_ERRNO, ids=errno.errorcode.get)
def test_an_errno_becomes_its_kind(number):
    error = from_os_error(OSError(number, "said the machine", "/host/secret"), "d/f")
    assert (error.kind, error.errno, error.path) == (BY_ERRNO[number], number, "d/f")


@pytest.mark.spec("ERR-3")
@pytest.mark.parametrize("number", MACHINE_FAILED, ids=errno.errorcode.get)
def test_a_failing_machine_is_never_a_refusal(number):
    error = from_os_error(OSError(number, "said the machine"))
    assert (type(error), error.errno) == (IoError, number)
    assert not isinstance(error, PermissionError)
    assert error.hint


@pytest.mark.spec("ERR-3")
@given(number=st.integers(1, 200))
def test_every_errno_has_a_kind(number):
    error = from_os_error(OSError(number, "said the machine", "/host/secret"))
    assert error.kind == BY_ERRNO.get(number, "io_error")
    assert error.errno == number


@pytest.mark.spec("ERR-3")
def test_what_is_no_errno_is_internal():
    assert type(from_os_error(OSError("no number"))) is InternalError


def test_an_error_of_our_own_stays_as_it_is():
    error = PathNotFound("gone")
    assert from_os_error(error, "other") is error


@pytest.mark.spec("PATH-7", "ERR-1")
@given(number=st.integers(1, 200))
def test_nothing_of_the_host_is_repeated(number):
    raised = OSError(number, "cannot open /host/secret", "/host/secret", None, "/host/other")
    error = from_os_error(raised, "d/f")
    spoken = f"{error} {error!r} {error.args} {error.details} {pickle.dumps(error)!r}"
    assert "host" not in spoken
    assert "secret" not in spoken


@pytest.mark.spec("PATH-5")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain.txt", "plain.txt"),
        ("日本語 é", "日本語 é"),
        ("a\nb", "a\\x0ab"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x7f\x85", "\\x7f\\x85"),
        ("a\u202egpj", "a\\u202egpj"),
        ("\u200b\ufeff", "\\u200b\\ufeff"),
        ("\udcff", "\\udcff"),
        ("\U000e0001", "\\U000e0001"),
        ("a\u3164\u2800b", "a\\u3164\\u2800b"),
        ("back\\slash", "back\\slash"),
    ],
)
def test_what_could_disguise_a_name_is_made_visible(text, shown):
    assert escape_for_display(text) == shown


@pytest.mark.spec("PATH-5")
@given(text=st.text(st.characters(), max_size=30))
def test_what_is_displayed_is_printable_and_encodable(text):
    shown = escape_for_display(text)
    assert shown.isprintable()
    shown.encode()
    assert escape_for_display(shown) == shown


@pytest.mark.spec("PATH-5")
def test_an_error_escapes_the_name_it_carries():
    error = PathNotFound("gone", path="a\n\x1b[31mb")
    assert str(error) == "a\\x0a\\x1b[31mb: gone"
    assert error.path == "a\n\x1b[31mb"


@pytest.mark.spec("ERR-1")
def test_every_class_says_what_it_means():
    for cls in classes():
        if not cls.__name__.startswith("_"):
            assert cls.__doc__
            assert cls.__doc__.strip().endswith("."), cls
