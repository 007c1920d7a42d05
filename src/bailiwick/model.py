"""The values Bailiwick hands out: frozen, plain, without behaviour.

Every result that can be bounded says so (``truncated``) and how to go on (``next_cursor``). Hashes
are 64 hex digits of SHA-256; times are nanoseconds since 1970; sizes are bytes.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple

import msgspec

from bailiwick.errors import HashMismatch, escape_for_display
from bailiwick.paths import ScopedPath

KiB, MiB, GiB = 1024, 1024**2, 1024**3

EntryType = Literal["file", "directory", "symlink", "other"]
LineEnding = Literal["lf", "crlf", "mixed", "none"]
WriteMode = Literal["create", "overwrite", "replace"]
MatchedIgnore = Literal["file", "directory"]
Symlinks = Literal["reject", "in-root"]
Hardlinks = Literal["reject", "allow"]
Durability = Literal["full", "rename"]
Containment = Literal["auto", "require-kernel", "walk"]
NewFileMode = Literal["private", "umask"] | int
Switch = Literal["on", "off"]


class Value(msgspec.Struct, frozen=True, gc=False):
    """The base of every value: immutable, comparable, and made of what JSON has.

    A path in it is a `ScopedPath`, which is a text but not of the class `str` itself, so encoding a
    value takes one word more: ``msgspec.json.encode(value, enc_hook=str)``.

    Untracked by the garbage collector: a frozen value cannot come to hold itself, and a listing
    makes thousands.
    """


class Expected(NamedTuple):
    """What a caller last saw at a place: what must stand there at the instant of a change."""

    version: str | None = None
    sha256: str | None = None

    @property
    def conditional(self) -> bool:
        return self.version is not None or self.sha256 is not None

    def check(self, path: ScopedPath, version: str | None, sha256: str | None) -> None:
        """Refuse what has another version or hash. Nothing (no ``version``) never fits, nor does
        what has no hash where one is expected. Raises `HashMismatch`."""
        if not self.conditional:
            return
        hash_fits, version_fits = self.sha256 in (None, sha256), self.version in (None, version)
        if version is None or not hash_fits or not version_fits:
            found = {"current_sha256": sha256, "current_version": version}
            said = "it is not what was expected" if version else "there is nothing any more"
            hint = "read it again and repeat the change"
            raise HashMismatch(said, path=path, details=found, hint=hint)


ANYTHING = Expected()
"""No condition."""


class Stat(Value, frozen=True, kw_only=True):
    """What is known of one object."""

    path: ScopedPath
    name: str
    type: EntryType
    size: int
    mode: int
    mtime_ns: int
    version: str
    links: int
    created_ns: int | None = None
    """When it was made: moves and overwrites keep it. None on a directory of the host, where every
    write makes a new file, and for what a volume held before it kept that."""
    target: str | None = None
    mime: str | None = None
    """What a file holds, by its name, else by its first bytes where the caller may read them."""
    read_only: bool = False
    """Whether it lies in a mount that can only be read, whoever asks."""


class Entry(Value, frozen=True):
    """One row of a listing.

    A name that is not valid text on disk is listed escaped with ``addressable = False``. What lies
    in a mount that can only be read is ``read_only``.
    """

    name: str
    parent: ScopedPath
    type: EntryType
    size: int
    mtime_ns: int
    ignored: bool = False
    addressable: bool = True
    read_only: bool = False

    @property
    def path(self) -> ScopedPath:
        return self.parent.child(self.name)

    @property
    def display(self) -> str:
        """The name with control and invisible characters made visible, for eyes."""
        return escape_for_display(self.name)


class Page(Value, frozen=True, kw_only=True):
    """One page of a listing, sorted by name."""

    path: ScopedPath
    entries: list[Entry]
    truncated: bool
    next_cursor: str | None
    request_id: str


class Found(Value, frozen=True, kw_only=True):
    """What a glob, find or files call found, sorted by path.

    ``truncated`` says that there may be more, ``next_cursor`` how to go on, and ``reason`` why the
    search stopped early. ``omitted`` counts the matches that were seen and left out: all there are
    where no cursor was given, else one, since what follows is the next page's.
    """

    base: ScopedPath
    matches: list[Entry]
    truncated: bool
    omitted: int
    visited: int
    request_id: str
    reason: str | None = None
    unreadable: list[ScopedPath] = []
    next_cursor: str | None = None

    @property
    def paths(self) -> list[ScopedPath]:
        return [match.path for match in self.matches]


class BytesRead(Value, frozen=True):
    """Bytes of a file. ``size`` is the whole file's; ``truncated`` says that it goes on."""

    path: ScopedPath
    data: bytes
    offset: int
    size: int
    truncated: bool
    version: str
    request_id: str

    @property
    def sha256(self) -> str | None:
        """The hash of the file when all of it was read, else None. Computed when asked for: it
        would be a tenth of the cost of a small read."""
        if self.offset or self.truncated:
            return None
        return hashlib.sha256(self.data).hexdigest()


class TextRead(Value, frozen=True, kw_only=True):
    """Text of a file, or a window of its lines.

    ``size`` is the file's, ``returned_bytes`` the window's as stored. ``partial_line`` says that
    the window ends inside a line, so that the next page joins it without a newline.

    ``total_lines`` counts as a person does: ``"a\\n"`` has one line, an empty file none. It is
    known where the end of the file was reached with all lines counted, ``ends_with_newline`` where
    it was reached. A window past the end is empty, and knows both.
    """

    path: ScopedPath
    text: str
    encoding: str
    bom: bool
    line_ending: LineEnding
    size: int
    returned_bytes: int
    sha256: str | None
    version: str
    truncated: bool
    request_id: str
    first_line: int | None = 1
    total_lines: int | None = None
    next_cursor: str | None = None
    partial_line: bool = False
    matched_ignore: MatchedIgnore | None = None
    ends_with_newline: bool | None = None

    @property
    def line_feeds(self) -> int | None:
        """How many line feeds the file holds, where its lines are counted."""
        total = self.total_lines
        if not total:
            return total
        return total if self.ends_with_newline else total - 1


class JsonRead(Value, frozen=True, kw_only=True):
    """A parsed JSON document and what it was parsed from."""

    path: ScopedPath
    value: Any
    sha256: str
    version: str
    request_id: str


class WriteResult(Value, frozen=True, kw_only=True):
    """What a write made. ``mode`` is how it was asked for, ``file_mode`` the permission bits.

    ``sha256`` is None for an append or truncate by someone who may not read the file: it would tell
    what stood there before.
    """

    path: ScopedPath
    mode: WriteMode
    created: bool
    size: int
    sha256: str | None
    version: str
    file_mode: int
    request_id: str
    encoding: str | None = None
    bom: bool | None = None
    line_ending: LineEnding | None = None
    matched_ignore: MatchedIgnore | None = None


class Edit(Value, frozen=True):
    """Replace ``old`` by ``new``; everywhere with ``replace_all``, else ``old`` must be unique."""

    old: str
    new: str
    replace_all: bool = False


class EditResult(Value, frozen=True, kw_only=True):
    """What an edit changed, or would change (``dry_run``)."""

    path: ScopedPath
    replacements: int
    diff: str
    diff_truncated: bool
    first_changed_line: int | None
    sha256_before: str
    sha256: str
    size: int
    version: str
    dry_run: bool
    request_id: str
    encoding: str | None = None
    bom: bool | None = None
    line_ending: LineEnding | None = None
    matched_ignore: MatchedIgnore | None = None


class DiffResult(Value, frozen=True, kw_only=True):
    """The difference of two texts as a unified diff, or a summary where that is too large.

    Two files are ``equal`` by their bytes, a file and a given text by their text. ``binary``
    content is compared by size and hash; ``text`` then says so in words, as it does where two files
    hold the same text in different encodings.
    """

    a: str
    b: str
    equal: bool
    text: str
    added_lines: int
    removed_lines: int
    truncated: bool
    binary: bool
    request_id: str


class ChangeResult(Value, frozen=True, kw_only=True):
    """A change that has no content of its own: make_dir, remove, move, symlink, set_mode …

    ``count`` is how many objects were removed or copied. With ``count_truncated`` they were more
    than that, and not counted further.
    """

    path: ScopedPath
    changed: bool
    request_id: str
    destination: ScopedPath | None = None
    count: int = 1
    count_truncated: bool = False
    version: str | None = None


class MoreThan(int):
    """More than so many: what a store says that has stopped counting."""


class Change(Value, frozen=True, kw_only=True):
    """One row of the change feed.

    ``subject`` and ``request_id`` are empty for a change that another program made. ``subtree``
    marks a directory that was moved or removed whole; ``beneath`` names what lay in it, relative to
    it, as far as that was kept (``beneath_truncated``), and ``beneath_links`` those of it that are
    links, where that is known. ``rescan`` says that changes under ``path`` may have gone unnoticed,
    ``reset`` that the cursor asked for is too old. What has a ``cursor`` can be continued from.
    """

    kind: Literal["created", "updated", "deleted", "moved", "rescan", "reset"]
    path: ScopedPath
    type: EntryType
    subject: str
    request_id: str
    version: str | None = None
    origin: ScopedPath | None = None
    subtree: bool = False
    time_ns: int = 0
    cursor: str = ""
    beneath: tuple[str, ...] = ()
    beneath_truncated: bool = False
    beneath_links: tuple[str, ...] = ()
