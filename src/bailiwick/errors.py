"""Every error Bailiwick raises: one tree, one closed list of kinds.

    BailiwickError
    ├── PolicyError                 someone decided: a boundary, a grant, a rule, a person, a limit
    │   ├── PathOutsideWorkspace    path_outside_workspace   PermissionError
    │   ├── SymlinkEscape           symlink_escape           PermissionError
    │   ├── HardlinkRefused         hardlink_refused         PermissionError
    │   ├── FileTooLarge            file_too_large           OSError
    │   ├── UntrustedWorkspace      untrusted_workspace      PermissionError
    │   ├── MissingAccess           missing_access           PermissionError
    │   ├── PolicyDenied            policy_denied            PermissionError
    │   ├── ApprovalDenied          approval_denied          PermissionError
    │   ├── ApprovalTimeout         approval_timeout         PermissionError
    │   ├── GrantExpired            grant_expired            PermissionError
    │   ├── GrantRevoked            grant_revoked            PermissionError
    │   ├── ReadOnly                read_only                OSError
    │   ├── QuotaExceeded           quota_exceeded           OSError
    │   ├── RateLimited             rate_limited             BlockingIOError     retry
    │   ├── Unauthenticated         unauthenticated          PermissionError
    │   └── ForbiddenOrigin         forbidden_origin         PermissionError
    └── OperationalError            something happened
        ├── TooManyLinks            too_many_links           OSError
        ├── ParseError              parse_error              ValueError
        ├── NotARegularFile         not_a_regular_file       OSError
        ├── IsADirectory            is_a_directory           IsADirectoryError
        ├── NotADirectory           not_a_directory          NotADirectoryError
        ├── PathNotFound            path_not_found           FileNotFoundError
        ├── RootNotFound            root_not_found           FileNotFoundError
        ├── FileAlreadyExists       file_already_exists      FileExistsError
        ├── DirectoryNotEmpty       directory_not_empty      OSError
        ├── HashMismatch            hash_mismatch            OSError             retry
        ├── LockHeld                lock_held                BlockingIOError     retry
        ├── BinaryFile              binary_file              ValueError
        ├── TextNotFound            text_not_found           ValueError
        ├── AmbiguousTextMatch      ambiguous_text_match     ValueError
        ├── PermissionDenied        permission_denied        PermissionError
        ├── Busy                    busy                     BlockingIOError     retry
        ├── IoError                 io_error                 OSError             retry
        ├── Unsupported             unsupported              NotImplementedError
        ├── Closed                  closed                   ValueError          retry
        ├── InternalError           internal_error           RuntimeError
        ├── RouteNotFound           route_not_found          ValueError
        ├── MethodNotAllowed        method_not_allowed       ValueError
        ├── UnsupportedMediaType    unsupported_media_type   ValueError
        └── RangeNotSatisfiable     range_not_satisfiable    ValueError

Each class is also the standard library's own class for the same situation, so plain
``except FileNotFoundError`` works. A message never holds a host path outside the root nor
file content; paths in it are escaped for display.

This module knows nothing else of Bailiwick and touches nothing of the machine.
"""

from __future__ import annotations

import errno as _errno
from typing import Any, ClassVar, Literal

Category = Literal["policy", "operational"]

_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as printable and show nothing."""


def escape_for_display(text: str) -> str:
    """Return ``text`` with everything that could disguise it made visible.

    Control characters, lone surrogates, bidirectional overrides and other invisible characters
    become ``\\xNN`` or ``\\uNNNN``, so that a name can neither break a log line nor repaint a
    terminal. A backslash stays as it is: the result is for eyes, not for parsing back.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if c.isprintable() and c not in _BLANKS else _escape_character(c) for c in text
    )


def _escape_character(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class BailiwickError(Exception):
    """The root of the tree. Raised only as one of the classes below.

    Attributes: ``kind`` (stable text), ``status`` (HTTP), ``errno`` (number), ``category``,
    ``retryable``, ``message``, ``path`` (scoped, or None), ``hint`` (what to do next, or None),
    ``details`` (machine-readable: current hash, limit, count …), ``decided_by`` (the rule or hook,
    where someone decided) and ``request_id``.
    """

    kind: ClassVar[str]
    category: ClassVar[Category]
    retryable: bool = False
    """Whether trying again can help. It goes with the kind, unless whoever raises it knows better:
    what is closing opens again, the input of a program that has ended does not."""
    default_status: ClassVar[int]
    default_errno: ClassVar[int]

    # Declared here because an OSError twin has them too, and they must agree.
    errno: int | None
    strerror: str | None
    filename: Any

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        hint: str | None = None,
        status: int | None = None,
        errno: int | None = None,
        decided_by: str | None = None,
        details: dict[str, Any] | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.hint = hint
        self.status = self.default_status if status is None else status
        self.errno = self.default_errno if errno is None else errno
        self.decided_by = decided_by
        self.details: dict[str, Any] = details or {}
        self.request_id: str | None = None
        if retryable is not None:
            self.retryable = retryable
        if isinstance(self, OSError):
            # What `except OSError` handlers of plain Python look at.
            self.strerror = message
            self.filename = path

    def __str__(self) -> str:
        text = self.message
        if self.path is not None:
            text = f"{escape_for_display(self.path)}: {text}"
        return f"{text} ({self.hint})" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.__dict__.copy(), self.errno))


def _rebuild(
    cls: type[BailiwickError], message: str, state: dict[str, Any], errno: int | None
) -> BailiwickError:
    """Unpickle: OSError keeps its fields outside ``__dict__``, so they are set again here."""
    error = cls(message, path=state.get("path"), errno=errno)
    error.__dict__.update(state)
    return error


class PolicyError(BailiwickError):
    """Someone decided: a boundary, a grant, a rule, a person or a limit said no."""

    category = "policy"


class OperationalError(BailiwickError):
    """Something happened: the tree, the content or the machine is not as the call needs it."""

    category = "operational"


class PathOutsideWorkspace(PolicyError, PermissionError):
    """The path names a place outside the root."""

    kind = "path_outside_workspace"
    default_status = 400
    default_errno = _errno.EXDEV


class SymlinkEscape(PolicyError, PermissionError):
    """A link leads outside, or links are not followed here."""

    kind = "symlink_escape"
    default_status = 400
    default_errno = _errno.EXDEV


class HardlinkRefused(PolicyError, PermissionError):
    """The file has more than one name, and this root refuses such files."""

    kind = "hardlink_refused"
    default_status = 403
    default_errno = _errno.EPERM


class FileTooLarge(PolicyError, OSError):
    """The content exceeds a limit; ``details["limit"]`` names it."""

    kind = "file_too_large"
    default_status = 413
    default_errno = _errno.EFBIG


class _Refused(PolicyError, PermissionError):
    default_status = 403
    default_errno = _errno.EACCES


class UntrustedWorkspace(_Refused):
    """The root is not trusted: it can be read, not changed."""

    kind = "untrusted_workspace"


class MissingAccess(_Refused):
    """The grant does not hold the access this operation needs."""

    kind = "missing_access"


class PolicyDenied(_Refused):
    """A rule said no; ``decided_by`` names it."""

    kind = "policy_denied"


class ApprovalDenied(_Refused):
    """A person was asked and said no, or nobody could be asked and the default is no."""

    kind = "approval_denied"


class ApprovalTimeout(_Refused):
    """A person was asked and did not answer in time."""

    kind = "approval_timeout"


class GrantExpired(_Refused):
    """The grant's time is up."""

    kind = "grant_expired"


class GrantRevoked(_Refused):
    """The grant, or one it descends from, was taken back."""

    kind = "grant_revoked"


class ReadOnly(PolicyError, OSError):
    """The place can only be read."""

    kind = "read_only"
    default_status = 403
    default_errno = _errno.EROFS


class QuotaExceeded(PolicyError, OSError):
    """The grant or root holds as many bytes or files as it may."""

    kind = "quota_exceeded"
    default_status = 507
    default_errno = _errno.EDQUOT


class RateLimited(PolicyError, BlockingIOError):
    """Too many operations in a minute; ``details["retry_after_s"]`` says when to come back."""

    kind = "rate_limited"
    retryable = True
    default_status = 429
    default_errno = _errno.EAGAIN


class Unauthenticated(PolicyError, PermissionError):
    """No token, or one that is not known."""

    kind = "unauthenticated"
    default_status = 401
    default_errno = _errno.EACCES


class ForbiddenOrigin(PolicyError, PermissionError):
    """The request's Host or Origin is not one this server answers."""

    kind = "forbidden_origin"
    default_status = 403
    default_errno = _errno.EACCES


class TooManyLinks(OperationalError, OSError):
    """More link hops than a lookup may take; most often a loop."""

    kind = "too_many_links"
    default_status = 400
    default_errno = _errno.ELOOP


class ParseError(OperationalError, ValueError):
    """An argument, path, pattern or document is malformed; the message says which."""

    kind = "parse_error"
    default_status = 400
    default_errno = _errno.EINVAL


class NotARegularFile(OperationalError, OSError):
    """The object is a FIFO, socket, device or the like; the message names which."""

    kind = "not_a_regular_file"
    default_status = 400
    default_errno = _errno.EINVAL


class IsADirectory(OperationalError, IsADirectoryError):
    """A directory stands where a file is needed."""

    kind = "is_a_directory"
    default_status = 400
    default_errno = _errno.EISDIR


class NotADirectory(OperationalError, NotADirectoryError):
    """Something else stands where a directory is needed."""

    kind = "not_a_directory"
    default_status = 400
    default_errno = _errno.ENOTDIR


class PathNotFound(OperationalError, FileNotFoundError):
    """Nothing has this name."""

    kind = "path_not_found"
    default_status = 404
    default_errno = _errno.ENOENT


class RootNotFound(OperationalError, FileNotFoundError):
    """No root has this name."""

    kind = "root_not_found"
    default_status = 404
    default_errno = _errno.ENOENT


class FileAlreadyExists(OperationalError, FileExistsError):
    """Something already has this name."""

    kind = "file_already_exists"
    default_status = 409
    default_errno = _errno.EEXIST


class DirectoryNotEmpty(OperationalError, OSError):
    """The directory holds something."""

    kind = "directory_not_empty"
    default_status = 409
    default_errno = _errno.ENOTEMPTY


class HashMismatch(OperationalError, OSError):
    """The content is not what the caller expected.

    ``details`` carries ``current_sha256`` and ``current_version`` (None: nothing is there); without
    the hash for who may not read the file.
    """

    kind = "hash_mismatch"
    retryable = True
    default_status = 409
    default_errno = _errno.ESTALE


class LockHeld(OperationalError, BlockingIOError):
    """Someone else holds the lease on this path."""

    kind = "lock_held"
    retryable = True
    default_status = 423
    default_errno = _errno.EAGAIN


class BinaryFile(OperationalError, ValueError):
    """The content is not text, or not text in the encoding asked for."""

    kind = "binary_file"
    default_status = 422
    default_errno = _errno.EILSEQ


class TextNotFound(OperationalError, ValueError):
    """The old text of an edit does not stand in the file."""

    kind = "text_not_found"
    default_status = 422
    default_errno = _errno.EINVAL


class AmbiguousTextMatch(OperationalError, ValueError):
    """The old text stands more than once; ``details`` has the count and the lines."""

    kind = "ambiguous_text_match"
    default_status = 422
    default_errno = _errno.EINVAL


class PermissionDenied(OperationalError, PermissionError):
    """The operating system said no, or the root itself was to be removed or moved."""

    kind = "permission_denied"
    default_status = 403
    default_errno = _errno.EACCES


class Busy(OperationalError, BlockingIOError):
    """A lookup kept racing, or a lock was not free in time."""

    kind = "busy"
    retryable = True
    default_status = 503
    default_errno = _errno.EAGAIN


class IoError(OperationalError, OSError):
    """The machine failed: disk full, too many open files, a broken device. Never a refusal."""

    kind = "io_error"
    retryable = True
    default_status = 503
    default_errno = _errno.EIO


class Unsupported(OperationalError, NotImplementedError):
    """The store has not this power, or cannot serve this option."""

    kind = "unsupported"
    default_status = 501
    default_errno = _errno.ENOTSUP


class Closed(OperationalError, ValueError):
    """The scope is closed or closing."""

    kind = "closed"
    retryable = True
    default_status = 503
    default_errno = _errno.EBADF


FORKED = "it was opened before this process was forked: open it again here"
"""The hint of what is `Closed` in a forked child, which has the memory of its parent's threads but
not the threads."""


class InternalError(OperationalError, RuntimeError):
    """A fault in Bailiwick or a part of it: not an errno, not a refusal."""

    kind = "internal_error"
    default_status = 500
    default_errno = _errno.EIO


class _WireOnly(OperationalError, ValueError):
    default_errno = _errno.EINVAL


class RouteNotFound(_WireOnly):
    """HTTP only: no such route."""

    kind = "route_not_found"
    default_status = 404


class MethodNotAllowed(_WireOnly):
    """HTTP only: the route has not this method."""

    kind = "method_not_allowed"
    default_status = 405


class UnsupportedMediaType(_WireOnly):
    """HTTP only: the body's type is not one the route takes."""

    kind = "unsupported_media_type"
    default_status = 415


class RangeNotSatisfiable(_WireOnly):
    """HTTP only: the range lies outside the content."""

    kind = "range_not_satisfiable"
    default_status = 416


def _leaves(cls: type[BailiwickError]) -> list[type[BailiwickError]]:
    below = [leaf for sub in cls.__subclasses__() for leaf in _leaves(sub)]
    return below or [cls]


KINDS: dict[str, type[BailiwickError]] = {leaf.kind: leaf for leaf in _leaves(BailiwickError)}
"""The closed list: every kind and its class. Fronts map all of them."""


_BY_ERRNO: dict[int, type[BailiwickError]] = {
    _errno.ENOENT: PathNotFound,
    _errno.EACCES: PermissionDenied,
    _errno.EPERM: PermissionDenied,
    _errno.ELOOP: TooManyLinks,
    _errno.EISDIR: IsADirectory,
    _errno.ENOTDIR: NotADirectory,
    _errno.EEXIST: FileAlreadyExists,
    _errno.ENOTEMPTY: DirectoryNotEmpty,
    _errno.EROFS: ReadOnly,
    _errno.EDQUOT: QuotaExceeded,
    _errno.EFBIG: FileTooLarge,
    _errno.ENAMETOOLONG: ParseError,
    _errno.EINVAL: ParseError,
    _errno.EAGAIN: Busy,
}

_MESSAGES: dict[str, str] = {
    "path_not_found": "no such file or directory",
    "permission_denied": "the operating system refused",
    "too_many_links": "too many levels of links",
    "is_a_directory": "is a directory",
    "not_a_directory": "not a directory",
    "file_already_exists": "already exists",
    "directory_not_empty": "directory is not empty",
    "read_only": "the filesystem is read-only",
    "quota_exceeded": "the filesystem's quota is used up",
    "file_too_large": "the file is larger than the filesystem allows",
    "parse_error": "the operating system does not accept this name or value",
    "busy": "the lookup kept racing with other changes",
}

_IO_HINTS: dict[int, str] = {
    _errno.ENOSPC: "the disk is full, in bytes or in inodes: free some space",
    _errno.EIO: "the device reported a fault: check the disk",
    _errno.EBUSY: "something holds the object: try again",
    _errno.ETXTBSY: "the file is being executed: try again when it is not",
    _errno.EMFILE: "this process has too many open files: raise its limit or close some",
    _errno.ENFILE: "the machine has too many open files",
    _errno.ENOMEM: "the machine is out of memory",
    _errno.ETIMEDOUT: "the storage did not answer in time: try again",
    _errno.ECONNREFUSED: "the storage is not reachable: is it running?",
    _errno.EXDEV: "source and destination are on different filesystems",
}


def from_os_error(error: OSError, path: str | None = None) -> BailiwickError:
    """Turn an errno into its kind. The table is complete: what it does not name is `io_error`.

    The operating system's own text and file names are dropped, since they may hold host paths.
    A store that knows more about a code (an EXDEV from a lookup is an escape, an ELOOP where links
    are refused too) decides before it comes here.
    """
    if isinstance(error, BailiwickError):
        return error
    number = error.errno
    if number is None:
        return InternalError("an operating system error without a number", path=path)
    cls = _BY_ERRNO.get(number)
    if cls is not None:
        return cls(_MESSAGES[cls.kind], path=path, errno=number)
    name = _errno.errorcode.get(number, str(number))
    return IoError(
        f"the machine failed ({name})", path=path, errno=number, hint=_IO_HINTS.get(number)
    )
