"""The values Bailiwick hands out and the limits it keeps: frozen, plain, without behaviour.

Every result that can be bounded says so (``truncated``) and how to go on (``next_cursor``). Hashes
are 64 hex digits of SHA-256; times are nanoseconds since 1970; sizes are bytes.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, NamedTuple

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

_AMOUNT_MAX = 2**62
"""More than there is of anything, and one more of it is still a machine's number."""

Amount = Annotated[int, msgspec.Meta(ge=1, le=_AMOUNT_MAX)]
"""A limit on how many or how much: of nothing at all there is no use."""

Seconds = Annotated[float, msgspec.Meta(ge=0, le=365 * 24 * 3600)]
"""A limit on time. Zero means not to wait."""


class Value(msgspec.Struct, frozen=True, gc=False):
    """The base of every value: immutable, comparable, and made of what JSON has.

    A path in it is a `ScopedPath`, which is a text but not of the class `str` itself, so encoding a
    value takes one word more: ``msgspec.json.encode(value, enc_hook=str)``.

    Untracked by the garbage collector: a frozen value cannot come to hold itself, and a listing
    makes thousands.
    """


class Limits(Value, frozen=True, kw_only=True):
    """Every limit that can be set, with its reason, for a root and for a grant.

    What a field may be stands in its type, and is checked when a place is opened. A default never
    exceeds the largest amount that can be asked for.
    """

    text_read_bytes_max: Annotated[int, msgspec.Meta(ge=8, le=_AMOUNT_MAX)] = 256 * KiB
    """What one text read returns: about what a model can use of one answer. At least one character
    of any encoding must fit, or pages would not advance."""

    cursor_check_bytes_max: Amount = 16 * MiB
    """What is read again before a cursor goes on in a file that was changed meanwhile: so much from
    where the reading began, and as much of the page before. About ten milliseconds for each page of
    a log that never rests; a change in between, of a larger file, goes unnoticed."""

    text_write_bytes_max: Amount = 5 * MiB
    """What one text write or edit takes: far above source files, below a JSON body's 10 MiB."""

    edits_max: Amount = 1_000
    """Edits in one call: each of them looks through the whole text."""

    bytes_call_max: Amount = 100 * MiB
    """What one call may hold in memory, read or written; more goes by streams."""

    max_file_bytes: Amount = 1 * GiB
    """How large a file may become through this scope."""

    exec_seconds_max: Seconds = 120.0
    session_seconds_max: Seconds = 8 * 3600.0
    """How long a command may run: most builds end by then, and what hangs holds up no longer; and
    one of a session that asks for more, such as a server. Zero: as long as it likes."""

    exec_memory_bytes_max: Amount = 2 * GiB
    """Memory of one process of a command: enough for compilers and tests, several at a time."""

    exec_processes_max: Amount = 256
    """Processes and threads of a command at a time: parallel builds have tens, a fork bomb more."""

    exec_descriptors_max: Amount = 1_024
    """Files that one process of a command has open: what most systems give a program."""

    exec_output_bytes_kept: Amount = 1 * MiB
    """What is held in memory of a command's output; the rest lies in a file meanwhile."""

    exec_output_bytes_max: Amount = 64 * MiB
    """What is kept of a command's output in all: a long log. The rest is cut, and that is said."""

    exec_at_once_max: Amount = 64
    """Commands, and rooms of sessions, at a time in one process: each is three processes, some
    descriptors and its programs' memory. A quarter of it is for people alone."""

    exec_per_subject_max: Amount = 16
    """Those of one subject: three others have room. People are not held to it."""

    exec_kept_seconds: Seconds = 600.0
    exec_kept_max: Amount = 16
    """How long a server keeps the output of a command that has ended, for whoever comes back, and
    of how many commands of one subject, the newest: each may hold ``exec_output_bytes_max``."""

    exec_entries_max: Amount = 1_000_000
    """Names in a tree that commands are run in: all are looked at when one starts, and held."""

    exec_changes_bytes_max: Amount = 4 * GiB
    """What of the files that a command left is brought back: all of it is hashed, some seconds'
    work. What is over stays in the working copy, and that is said."""

    exec_tree_bytes_max: Amount = 4 * GiB
    """Content of a volume, as far as a command sees it: it is written out for each version."""

    exec_trees_kept: Amount = 8
    exec_trees_bytes_kept: Amount = 8 * GiB
    """Versions of a volume that stay written out for the commands to come: agents take turns with
    a few views of it, and what they share is linked. Those in use, or needed by a working copy,
    stay beyond that."""

    code_seconds_max: Seconds = 60.0
    """How long a run of code may take: half of a command's time. Zero: as long as it likes."""

    code_memory_bytes_max: Amount = 512 * MiB
    """Memory of one process of a run of code, and of its private directories together."""

    code_calls_max: Amount = 10_000
    """Calls of the scope in one run of code: a large project visited file by file."""

    code_handles_max: Amount = 32
    """Streams, forks, transactions and locks that a run of code has open at a time."""

    code_message_bytes_max: Amount = 8 * MiB
    """One call of code, or one answer: a text of 5 MiB with what JSON adds to it. Larger content
    goes by streams, whose pieces are smaller."""

    code_output_bytes_max: Amount = 256 * KiB
    """What is kept of what code prints, of its beginning and its end: as much as one read of text
    returns. The rest is left out, and that is said."""

    list_page_max: Amount = 2_000
    """Entries a page of `list`: a page a person or model can still take in."""

    glob_default: Amount = 5_000
    """Matches a `glob`, `find` or `files` returns unless asked for more."""

    glob_max: Amount = 50_000
    """The most matches that can be asked for: they are held in memory."""

    grep_matches_default: Amount = 1_000
    grep_matches_max: Amount = 50_000
    """Matches a `grep` returns: they are held in memory with their lines."""

    grep_file_bytes_default: Amount = 10 * MiB
    """Files larger than this are logs and dumps; they are named in `skipped_paths`."""

    grep_context_max: Annotated[int, msgspec.Meta(ge=0, le=_AMOUNT_MAX)] = 10
    """Lines of context on either side of a match."""

    grep_line_characters_max: Amount = 2_000
    """A longer line is shown around its match: minified files have lines of megabytes."""

    grep_seconds_max: Seconds = 10.0
    """After this a search returns what it has, marked `truncated`."""

    grep_nominate_files_min: Amount = 256
    """From so many files on a helper is asked first: starting one costs as much as reading them."""

    walk_entries_max: Amount = 1_000_000
    """Entries one walk visits: a bound on the time of a call on an unbounded tree."""

    depth_max: Amount = 256
    """Levels a walk descends: one descriptor is held for each."""

    diff_lines_max: Amount = 20_000
    """Lines of a unified diff that is shown; a larger one is summarised."""

    diff_bytes_max: Amount = 5 * MiB
    """Text on either side of a diff: what an edit can produce."""

    link_hops_max: Amount = 40
    """Links one lookup follows: the kernel's own number, so that all stores agree."""

    link_text_bytes_max: Amount = 4_096
    """The text of a link: PATH_MAX."""

    stream_chunk_bytes: Annotated[int, msgspec.Meta(ge=1, le=100 * MiB)] = 256 * KiB
    """One chunk of a stream: large enough to amortise a thread hop, small enough to hold many."""

    busy_retries_max: Amount = 128
    """Times a lookup that raced is tried again before it is `busy`; the worst seen was 2."""

    lock_wait_seconds_max: Seconds = 10.0
    """How long a write waits for another writer of the same file before it is `busy`."""

    lock_ttl_seconds_max: Seconds = 600.0
    """How long a lease may last: a caller that died keeps others out no longer than this."""

    lock_tokens_max: Amount = 1_000
    """Tokens of ended leases that a volume remembers, the newest: an older one is refused, be it
    the newest of its path. Each is a row that the change of a whole directory looks at."""

    history_default: Amount = 100
    """Versions told in one call unless asked otherwise."""

    history_max: Amount = 1_000
    """Versions told in one call at most: each is looked up by itself."""

    comparison_max: Amount = 10_000
    """Differences of two branches that one call tells."""

    hook_seconds_max: Seconds = 5.0
    """How long a before-hook may take; a slower one refuses the operation."""

    audit_ring_records: Amount = 4_096
    """Records kept in memory for a quick look back."""

    audit_batch_seconds_max: Seconds = 0.1
    """How long the record of a read may wait for others, to be written with them."""

    ask_seconds_max: Seconds = 300.0
    """How long a question waits for a person before the rule's default holds."""

    asked_root_seconds_max: Seconds = 86_400.0
    """For how long a root is asked for at most: longer than a day is for who grants it unasked."""

    asked_roots_max: Amount = 3
    """Roots that one subject asks people for within an hour: more would wear somebody out."""

    ask_diff_lines_max: Amount = 400
    """Lines of a change that are shown to the person who is asked."""

    ask_paths_max: Amount = 100
    """Paths of a bulk operation that are listed to the person who is asked; the rest is counted."""

    ask_tree_entries_max: Amount = 50_000
    """Entries of a tree about which a person is asked as a whole: each is looked at when they are
    asked, and again before it is moved or copied. More is refused, to be asked about in parts."""

    ask_tree_bytes_max: Amount = 256 * MiB
    """What is hashed of such a tree each time, about a second's work; a file beyond it is known by
    its version, so that nobody waits for gigabytes."""

    feed_changes_max: Amount = 1_000_000
    """Changes kept for replay: older ones cost disk, and a reader that far behind looks anew."""

    feed_memory_changes_max: Amount = 65_536
    """The same for a feed that is kept in memory only."""

    feed_seconds_max: Seconds = 7 * 24 * 3600.0
    """How long changes are kept for replay."""

    feed_subtree_paths_max: Amount = 10_000
    """Paths kept of a directory that was moved or removed whole."""

    archive_entries_max: Amount = 10_000
    """Entries of an archive: each becomes a file, and a bomb can hold billions."""

    archive_bytes_max: Amount = 256 * MiB
    """What all files of an archive hold together, unpacked."""

    archive_ratio_max: Amount = 200
    """Unpacked bytes for each packed one: text compresses 5 to 20 times, a bomb a thousand."""

    archive_depth_max: Amount = 64
    """Directories on the way to an entry of an archive."""

    temp_seconds_max: Seconds = 24 * 3600.0
    """How long a temporary root lives when its owner forgets it."""

    temp_roots_max: Amount = 16
    """Temporary roots of one subject at a time, in one process: more than an agent works in at
    once. Each holds descriptors, of which a process has a thousand where nobody says otherwise."""

    idempotency_seconds: Seconds = 24 * 3600.0
    """How long an idempotency key is remembered: who repeats a request does so within a day."""

    idempotency_keys_max: Amount = 10_000
    """Keys of one caller that are remembered at a time: one every nine seconds, all day long."""

    idempotency_answer_bytes_max: Amount = 1 * MiB
    """The largest answer that is kept with a key: a batch of a thousand operations is some 400 KiB.
    Of a larger one only the status is."""

    idempotency_bytes_max: Amount = 64 * MiB
    """What is kept with all keys of one caller: they share a database with the ledger."""

    history_bytes_max: Amount = 1 * GiB
    """What one change may add to the history of a directory: any file that could have been written
    through a scope can be taken back. What holds more is changed, and said not to be kept."""

    history_entries_max: Amount = 100_000
    """Places of one change that the history of a directory lists: a large project with all it
    depends on. Those beyond are counted."""

    run_paths_max: Amount = 20_000
    """Paths of one run that are told and compared: ten thousand files, and their directories."""

    run_digests_max: Amount = 100_000
    """Paths of runs of which it is remembered what they came to: half a kilobyte each."""

    review_note_characters_max: Amount = 2_000
    """What a person says to an agent of what they took back: a few sentences, which are put before
    a model with its next result."""

    review_note_lines_max: Amount = 40
    """Lines of what was taken back that an agent is shown again: it wrote them."""

    review_notes_told_max: Amount = 20
    """Notes that an agent is told with one result; the next one goes on."""

    review_wait_seconds_max: Seconds = 1.0
    """How long a rejection waits for an agent to end what it is in the middle of: a call that is
    about to end, and no longer than a person waits for an answer."""

    database_connections_max: Annotated[int, msgspec.Meta(ge=2, le=1_000)] = 10
    """Connections of one process to a PostgreSQL server, which has a hundred of them where nobody
    says otherwise: ten servers have room. One is for what is changed, the others for looks."""

    database_connect_seconds_max: Seconds = 5.0
    """How long a connection is waited for, be it made or be all of them in use: whoever asks is to
    know within seconds that the database is not there."""

    database_statement_seconds_max: Seconds = 8.0
    """How long a statement may take: the largest tree is counted in one, and a request is to end
    within fifteen seconds when the database is stuck, be it that it waits for a connection first
    and for the last word of the server after it."""

    database_lock_seconds_max: Seconds = 5.0
    """How long a change waits for those of other processes, each of which takes milliseconds."""


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
    """A change that has no content of its own: make_dir, remove, move, symlink, set_mode …"""

    path: ScopedPath
    changed: bool
    request_id: str
    destination: ScopedPath | None = None
    count: int = 1
    version: str | None = None


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
