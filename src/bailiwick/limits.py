"""Every limit that can be set, in one place, each with its reason."""

from __future__ import annotations

from typing import Annotated

import msgspec

from bailiwick.model import GiB, KiB, MiB, Value

_AMOUNT_MAX = 2**62
"""More than there is of anything, and one more of it is still a machine's number."""

Amount = Annotated[int, msgspec.Meta(ge=1, le=_AMOUNT_MAX)]
"""A limit on how many or how much: of nothing at all there is no use."""

Seconds = Annotated[float, msgspec.Meta(ge=0, le=365 * 24 * 3600)]
"""A limit on time. Zero means not to wait."""


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

    removed_counted_max: Amount = 10_000
    """Names in a directory of a volume that are counted when it is removed whole, so that it takes
    the same whatever lies in it: some milliseconds. Of a larger one it is told that more went."""

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
    """Keys of one caller in the root that are remembered at a time: one every nine seconds, all day
    long."""

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

    request_seconds_max: Seconds = 120.0
    """How long a request over HTTP may take in all, however many waits for a slow database or
    object store it is made of: clients wait no longer. An upload takes as long as its source."""

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
