"""What is measured, and the figure each case has to reach."""

from collections.abc import Callable, Iterable, Iterator

from bench.peers.bailiwick_disk import (
    BARE_STORE,
    GOVERNED,
    GREP,
    GREP_SKIPPED,
    HELP,
    IMPORT,
    LIST,
    READ_BYTES,
    READ_TEXT,
    STREAM_IN,
    STREAM_OUT,
    WRITE_BYTES,
    WRITE_TEXT,
)
from bench.peers.bailiwick_volume import (
    FORKS,
    VOLUME_GREP,
    VOLUME_GREP_SKIPPED,
    VOLUME_IN,
    VOLUME_OUT,
    VOLUME_READ,
    VOLUME_STORE_WRITE,
    VOLUME_WRITE,
    VOLUME_WRITERS,
    at_depth,
    of,
)
from bench.peers.fsspec_local import CAT_FILE
from bench.peers.peer import Peer
from bench.peers.plain import DURABLE, INTERPRETER, PLAIN, PLAIN_LIST, RIPGREP
from bench.peers.sqlite_reference import REFERENCE_WRITERS
from bench.scratch import NEEDLES, SMALL, Sizes
from bench.timing import Bar, Case, Contender

SLOW_ROUNDS = 40
"""For cases whose calls take milliseconds and more."""


def all_cases(peers: list[Peer], sizes: Sizes) -> Iterator[Case]:
    """Every case, with those of the peers that can do it."""
    yield from _small_files(peers)
    yield from _looking(peers, sizes)
    yield from _searching(peers, sizes)
    yield from _streams(peers, sizes)
    yield from _volumes(peers)
    yield from _whole_trees(peers, sizes)
    yield from _in_memory(peers)
    yield from _startup(peers)


def _small_files(peers: list[Peer]) -> Iterator[Case]:
    yield Case(
        "read",
        "Read a file of 1 KiB",
        _contenders(peers, Peer.read),
        [
            Bar(READ_BYTES, PLAIN, 2.5),
            Bar(READ_BYTES, CAT_FILE, 1, own=True),
            Bar(READ_TEXT, PLAIN, 2.5),
            Bar(READ_TEXT, CAT_FILE, 1, own=True),
        ],
        expected=len(SMALL),
    )
    yield Case(
        "governed",
        "Read a file of 1 KiB: what governing it costs",
        _contenders(peers, Peer.governed),
        [Bar(GOVERNED, BARE_STORE, 1.6)],
        expected=len(SMALL),
        note="Grant, revocation, rules, ledger on disk and feed, against the store alone.",
    )
    yield Case(
        "write",
        "Write 1 KiB over an existing file, without fsync",
        _contenders(peers, Peer.write),
        [Bar(WRITE_BYTES, PLAIN, 4.5), Bar(WRITE_TEXT, PLAIN, 4.5)],
        note='Bailiwick with `durability="rename"`: atomic, and without fsync like the others.',
    )
    yield Case(
        "durable-write",
        "Write 1 KiB over an existing file, durably, on a disk",
        _contenders(peers, Peer.durable_write),
        [Bar(WRITE_BYTES, DURABLE, 1.3)],
        note='Bailiwick with its default, `durability="full"`.',
    )
    yield Case("edit", "Replace one word in 4 KB of text", _contenders(peers, Peer.edit))


def _looking(peers: list[Peer], sizes: Sizes) -> Iterator[Case]:
    yield Case(
        "list",
        f"List {sizes.listed:,} entries with type, size and time",
        _contenders(peers, Peer.listing),
        [Bar(LIST, PLAIN_LIST, 12)],
        expected=sizes.listed,
        rounds=100,
        block_ms=4,  # about one call of most: all are interrupted equally often
    )
    yield Case("stat", "Stat a file", _contenders(peers, Peer.stat), expected=len(SMALL))


def _searching(peers: list[Peer], sizes: Sizes) -> Iterator[Case]:
    many = f"{sizes.searched_many:,} files, 227 MB,"
    for key, title, method, at_most in (
        ("grep-few", f"Search {sizes.searched_few:,} files for a rare word", Peer.grep_few, 2),
        ("grep", f"Search {many} for a rare word", Peer.grep_literal, 1.5),
        ("grep-pattern", f"Search {many} for a pattern without a literal", Peer.grep_pattern, 1.5),
    ):
        yield Case(
            key,
            title,
            _contenders(peers, method),
            [
                Bar(GREP, RIPGREP, at_most),
                Bar(GREP_SKIPPED, RIPGREP, 3),
                Bar(VOLUME_GREP, RIPGREP, 3),
                Bar(VOLUME_GREP_SKIPPED, RIPGREP, 3),
            ],
            expected=NEEDLES,
            rounds=SLOW_ROUNDS,
            block_ms=0,
            note="Ripgrep with `--no-ignore --hidden -n`. All of the tree is read.",
        )


def _streams(peers: list[Peer], sizes: Sizes) -> Iterator[Case]:
    yield Case(
        "stream-in",
        "Write 64 MiB as a stream",
        _contenders(peers, Peer.stream_in),
        [Bar(STREAM_IN, PLAIN, 2.5), Bar(VOLUME_IN, PLAIN, 3)],
        rounds=SLOW_ROUNDS,
        block_ms=0,
        note="Bailiwick's result says the SHA-256 of what was written.",
    )
    yield Case(
        "stream-out",
        "Read 64 MiB as a stream",
        _contenders(peers, Peer.stream_out),
        [Bar(STREAM_OUT, PLAIN, 1.5), Bar(VOLUME_OUT, PLAIN, 2)],
        expected=sizes.large,
        rounds=SLOW_ROUNDS,
        block_ms=0,
    )


def _volumes(peers: list[Peer]) -> Iterator[Case]:
    yield Case(
        "volume-read",
        "Read 1 KiB from a filesystem in SQLite",
        _contenders(peers, Peer.volume_read),
        [Bar(VOLUME_READ, PLAIN, 2.5)],
        expected=len(SMALL),
    )
    yield Case(
        "volume-write",
        "Write 1 KiB into a filesystem in SQLite, a commit each",
        _contenders(peers, Peer.volume_write),
        [Bar(VOLUME_WRITE, PLAIN, 6, own=True), Bar(VOLUME_STORE_WRITE, PLAIN, 6, own=True)],
        note="The database on tmpfs. Bailiwick keeps a version and its log with each write.",
    )
    yield Case(
        "volume-durable",
        "Write 1 KiB into a filesystem in SQLite, durably, on a disk",
        _contenders(peers, Peer.volume_durable),
        [
            Bar(VOLUME_WRITE, DURABLE, 0.5, own=True),
            Bar(VOLUME_STORE_WRITE, DURABLE, 0.5, own=True),
        ],
    )
    yield Case(
        "volume-writers",
        "64 writers at once, 1 KiB each, ever other files",
        _contenders(peers, Peer.volume_writers),
        [Bar(VOLUME_WRITERS, REFERENCE_WRITERS, 1)],
        block_ms=0,
    )
    yield Case(
        "volume-depth",
        "Stat a file in a tree of 100,000, and in a fork of a fork of a fork of a fork of it",
        _contenders(peers, Peer.volume_depth),
        [Bar(at_depth(FORKS), at_depth(0), 1.5)],
        note="Ever another file: hardly any of it is remembered.",
    )


FLAT = 2.0
"""So many times what a small tree takes is still flat."""


def _whole_trees(peers: list[Peer], sizes: Sizes) -> Iterator[Case]:
    """What must not take longer where there is more; twice the time for two calls."""
    for key, what, method, ms in (
        ("volume-fork", "fork", Peer.volume_fork, 5),
        ("volume-snapshot", "snapshot", Peer.volume_snapshot, 5),
        ("volume-move", "move there and back", Peer.volume_move, 10),
        ("volume-remove", "remove", Peer.volume_remove, 5),
        ("volume-remove-fork", "fork and remove", Peer.volume_remove_in_fork, 10),
        ("volume-compare", "compare", Peer.volume_compare, 20),
    ):
        few, many = sizes.trees
        small, large = of(what, few), of(what, many)
        yield Case(
            key,
            f"{what.capitalize()}: a tree of {few:,} and of {many:,} files",
            _contenders(peers, method),
            [Bar(large, large, ms, "ms"), Bar(large, small, FLAT, own=True)],
            rounds=SLOW_ROUNDS,
            block_ms=0,
        )


def _in_memory(peers: list[Peer]) -> Iterator[Case]:
    yield Case(
        "memory-read",
        "Read 1 KiB from a filesystem in memory",
        _contenders(peers, Peer.memory_read),
        expected=len(SMALL),
    )
    yield Case(
        "memory-write",
        "Write 1 KiB into a filesystem in memory",
        _contenders(peers, Peer.memory_write),
    )


def _startup(peers: list[Peer]) -> Iterator[Case]:
    yield Case(
        "help",
        "Show the help of the command line",
        _contenders(peers, Peer.help),
        [Bar(HELP, INTERPRETER, 1.8)],
        rounds=SLOW_ROUNDS,
        block_ms=0,
    )
    yield Case(
        "import",
        "Start an interpreter and import",
        _contenders(peers, Peer.startup),
        [Bar(IMPORT, INTERPRETER, 150, "extra_ms")],
        rounds=SLOW_ROUNDS,
        block_ms=0,
    )


def _contenders(
    peers: list[Peer], operation: Callable[[Peer], Iterable[Contender]]
) -> list[Contender]:
    """The ways of all peers to do one thing. Named by the base class, done by the peer's own."""
    return [way for peer in peers for way in getattr(peer, operation.__name__)()]
