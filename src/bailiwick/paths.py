"""From untrusted text to a place in a root. The only code that splits a path.

A `ScopedPath` is canonical text relative to a root: components joined by ``/``, none of them
empty, ``.`` or ``..``; the root itself is ``.``. Only this module makes one, so holding one means
the text was checked. The check is for good errors and one spelling per place; confinement does
not rest on it (a store confines by what it opens).

Pure: touches no store and nothing of the machine.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from bailiwick.errors import BailiwickError, ParseError, PathOutsideWorkspace, SymlinkEscape

PATH_BYTES_MAX = 4096
"""PATH_MAX of Linux, the smallest of the platforms that matter."""

NAME_BYTES_MAX = 255
"""NAME_MAX of every common filesystem."""

DEPTH_MAX = 256
"""Deeper trees are accidents or attacks; a walk holds one descriptor a level."""

RESERVED_PREFIX = ".bailiwick~"
"""Names that begin so are Bailiwick's own staging names: hidden from every verb."""

REMOVED = f"{RESERVED_PREFIX}removed"
"""At the top of a directory: where a directory of it lies that is removed, until all in it is gone.
No program is shown that name, whatever of the tree is hidden from it."""

NameRule = Literal["posix", "portable"]


@runtime_checkable
class _PathLike(Protocol):
    def __fspath__(self) -> str | bytes: ...


PathText = str | _PathLike
"""What a caller may give for a path: text, or a `pathlib` path."""


class ScopedPath(str):
    """A checked, canonical path relative to a root. Made by `parse` and by the methods below."""

    __slots__ = ()

    @property
    def is_root(self) -> bool:
        return self == "."

    @property
    def parts(self) -> tuple[str, ...]:
        return () if self == "." else tuple(self.split("/"))

    @property
    def levels(self) -> int:
        """How many components it has; none for the root."""
        return 0 if self == "." else self.count("/") + 1

    @property
    def order(self) -> str:
        """Sorts as paths compared component by component: a directory, then what lies in it."""
        return "" if self == "." else self.replace("/", "\0")

    @property
    def name(self) -> str:
        """The last component; empty for the root."""
        return "" if self == "." else self.rpartition("/")[2]

    @property
    def parent(self) -> ScopedPath:
        """The directory this lies in; the root is its own parent."""
        return ScopedPath(self.rpartition("/")[0] or ".")

    @property
    def parents(self) -> list[ScopedPath]:
        """The directories this lies in, the nearest first, but for the root."""
        found = []
        text, slash, _ = self.rpartition("/")
        while slash:
            found.append(ScopedPath(text))
            text, slash, _ = text.rpartition("/")
        return found

    def child(self, name: str) -> ScopedPath:
        """The place called ``name`` in this directory; ``name`` is one component, as listed."""
        return ScopedPath(name if self == "." else f"{self}/{name}")

    def lies_in(self, directory: ScopedPath) -> bool:
        """Whether this is ``directory`` or lies beneath it, compared by components."""
        return directory == "." or self == directory or self.startswith(f"{directory}/")

    def relative_to(self, directory: ScopedPath) -> ScopedPath:
        """This path as seen from ``directory``, in which it must lie."""
        if directory == ".":
            return self
        return ScopedPath(self[len(directory) + 1 :] or ".")

    def beneath(self, directory: ScopedPath) -> ScopedPath:
        """This path with ``directory`` put before it: the inverse of `relative_to`."""
        if directory == ".":
            return self
        return directory if self == "." else ScopedPath(f"{directory}/{self}")


ROOT = ScopedPath(".")


def from_parts(parts: tuple[str, ...] | list[str]) -> ScopedPath:
    """Join components that a store itself has listed or opened."""
    return ScopedPath("/".join(parts) or ".")


class Parsed(NamedTuple):
    """A checked path, and whether the caller's trailing slash demands a directory."""

    path: ScopedPath
    directory: bool


_PARSED_KEPT = 4_096
"""Paths remembered as parsed: agents name the same places again and again."""


# One short, plain, relative path: nothing here can need any of the checks below. Most calls end
# at this match.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.\-]*/)*[A-Za-z0-9_][A-Za-z0-9_.\-]*").fullmatch

_HOST_PREFIX = re.compile(r"//|\\\\|[A-Za-z]:").match

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]").search

_WINDOWS_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])"
    r"[ ]*(?:\..*)?",
    re.IGNORECASE | re.DOTALL,
).fullmatch

_WINDOWS_SHORT_NAME = re.compile(r"~[0-9]", re.ASCII).search


def parse(text: PathText, mount_point: str = "/", names: NameRule = "posix") -> Parsed:
    """Check ``text`` and return the place it names.

    ``..`` is collapsed lexically, and climbing above the root at any point is refused, even on
    the way back in. An absolute path must lie under ``mount_point``, compared by components.

    Raises `ParseError` for text that is no path at all, `PathOutsideWorkspace` for a place
    outside the root. Neither repeats an outside path.
    """
    return parse_text(text if type(text) is str else _text_of(text), mount_point, names)


@lru_cache(maxsize=_PARSED_KEPT)
def parse_text(text: str, mount_point: str, names: NameRule) -> Parsed:
    """`parse` for what is text already."""
    return _parsed(text, mount_point, names)


def named(text: str) -> ScopedPath | None:
    """What names a place of which a listing of the host tells, if any path does. It is not
    remembered: it would displace what agents name."""
    try:
        return _parsed(text, "/", "posix").path
    except BailiwickError:
        return None


def _parsed(text: str, mount_point: str, names: NameRule) -> Parsed:
    if len(text) <= NAME_BYTES_MAX and names == "posix" and _PLAIN(text):
        return Parsed(ScopedPath(text), False)
    if not text:
        raise ParseError("the path is empty", hint='the root itself is "."')
    if _HOST_PREFIX(text):
        raise _outside("drive letters, UNC and device paths are never inside a root")
    _check_characters(text)
    if text[0] == "/":
        text = _under_mount_point(text, mount_point)
    parts = _collapse(text)
    if names == "portable":
        for part in parts:
            check_portable(part)
    directory = text.endswith(("/", "/.", "/..")) or text in (".", "..")
    return Parsed(from_parts(parts), directory)


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _PathLike):
        text = value.__fspath__()
        if isinstance(text, str):
            return text
    raise ParseError(
        f"a path is text, not {type(value).__name__}", hint="decode bytes before passing them"
    )


def _outside(why: str) -> PathOutsideWorkspace:
    return PathOutsideWorkspace(
        f"the path lies outside this root: {why}",
        hint='name places relative to the root, for example "notes/today.md"',
    )


def _check_characters(text: str) -> None:
    if "\0" in text:
        raise ParseError("the path holds a NUL character")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise ParseError("the path holds a lone surrogate, so it is not valid text") from None
    if size > PATH_BYTES_MAX:
        raise ParseError(
            f"the path is {size} bytes long",
            details={"limit": PATH_BYTES_MAX},
            hint=f"at most {PATH_BYTES_MAX} bytes",
        )


def _under_mount_point(text: str, mount_point: str) -> str:
    """Strip the mount point by components: ``/work-evil`` is not under ``/work``."""
    wanted = [part for part in mount_point.split("/") if part]
    given = [part for part in text.split("/") if part not in ("", ".")]
    if given[: len(wanted)] != wanted:
        raise _outside("absolute paths must start with the root's mount point")
    rest = "/".join(given[len(wanted) :])
    return (rest + "/" if text.endswith(("/", "/.")) and rest else rest) or "."


def _collapse(text: str) -> list[str]:
    parts: list[str] = []
    for part in text.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if not parts:
                raise _outside("it climbs above the root")
            parts.pop()
            continue
        if len(part) > NAME_BYTES_MAX or len(part.encode()) > NAME_BYTES_MAX:
            raise ParseError(
                "a name in the path is too long",
                details={"limit": NAME_BYTES_MAX},
                hint=f"at most {NAME_BYTES_MAX} bytes a name",
            )
        if part.startswith(RESERVED_PREFIX):
            raise ParseError(
                f'names that begin with "{RESERVED_PREFIX}" are reserved', hint="choose another"
            )
        parts.append(part)
    if len(parts) > DEPTH_MAX:
        raise too_deep("the path is too deep")
    return parts


def is_reserved(path: ScopedPath) -> bool:
    """Whether something lies there out of sight: no caller can say such a name."""
    return path.name.startswith(RESERVED_PREFIX)


def too_deep(message: str, path: str | None = None) -> ParseError:
    """The refusal of what no path could name: it lies deeper, or something beneath it would."""
    return ParseError(
        message, path=path, details={"limit": DEPTH_MAX}, hint=f"at most {DEPTH_MAX} levels"
    )


def tree_too_deep(path: str | None = None) -> ParseError:
    """The refusal of a tree too deep to stand at ``path``, which may be one that is not named."""
    return too_deep("what lies beneath would be too deep there", path)


def link_steps(text: str) -> list[str]:
    """The steps of a link's text. A trailing slash stays as ``.``: it demands a directory."""
    steps = [part for part in text.split("/") if part]
    return [*steps, "."] if text.endswith("/") else steps


def check_stays_inside(target: str, path: ScopedPath) -> None:
    """Refuse a link text that leads out of the root, read from where the link stands.

    By its text alone: links on its way may turn it elsewhere, which following it will show.
    """
    if target.startswith("/"):
        raise SymlinkEscape("the link is absolute", path=path, hint="make it relative")
    depth = len(path.parts) - 1
    for part in target.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                raise SymlinkEscape("the link leads outside this root", path=path)
        elif part not in ("", "."):
            depth += 1


def check_portable(name: str) -> None:
    """Refuse a name that Windows would refuse, alias or reinterpret."""
    reason = None
    if _WINDOWS_DEVICE(name):
        reason = "is a device name on Windows"
    elif name[-1] in ". ":
        reason = "ends in a dot or a space, which Windows drops"
    elif any(c in name for c in '<>:"|?*\\'):
        reason = 'holds one of < > : " | ? * \\, which Windows refuses'
    elif _WINDOWS_SHORT_NAME(name):
        reason = "looks like a Windows short name"
    if reason:
        raise ParseError(f"the name {reason}", path=name, hint="this root keeps names portable")


def check_new_name(name: str) -> None:
    """Refuse a name that may exist but may not be created: one with control characters."""
    if _CONTROL(name):
        raise ParseError("a new name may not hold control characters", path=name)


def folded(name: str) -> str:
    """The form in which two names of a portable root are the same name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
