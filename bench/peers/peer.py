"""What an adapter is: for each operation, the ways its library has to do it."""

import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from bench.scratch import AS_MEASURED, Sizes
from bench.timing import Contender

Contenders = Iterator[Contender]


class Places:
    """The directories of one run."""

    def __init__(
        self,
        memory: pathlib.Path,
        disk: pathlib.Path,
        state: pathlib.Path,
        sizes: Sizes = AS_MEASURED,
    ) -> None:
        self.memory = memory
        self.disk = disk
        self.state = state
        self.sizes = sizes

    @property
    def tree(self) -> pathlib.Path:
        """Where the many files lie that are searched."""
        return self.memory / "tree"

    @property
    def few(self) -> pathlib.Path:
        """Where the few files lie that are searched."""
        return self.memory / "few"


class Peer:
    """One library, opened on the places of a run."""

    name: ClassVar[str]
    own: ClassVar[bool] = False
    """Whether it is ours, or needs nothing but what we need."""
    remark: ClassVar[str]
    """What its figures do and do not include."""

    def __init__(self, places: Places) -> None:
        self.places = places

    async def open(self) -> None:
        """Get ready. Raises where the library is not installed."""

    async def close(self) -> None:
        """Let go of everything."""

    def version(self) -> str:
        return ""

    def read(self) -> Contenders:
        """1 KiB, an existing file."""
        yield from ()

    def governed(self) -> Contenders:
        """1 KiB, an existing file: the store alone, then with everything that governs it."""
        yield from ()

    def write(self) -> Contenders:
        """1 KiB over an existing file, without fsync."""
        yield from ()

    def durable_write(self) -> Contenders:
        """1 KiB over an existing file, on the disk when the call returns."""
        yield from ()

    def listing(self) -> Contenders:
        """1,000 entries with type, size and time."""
        yield from ()

    def stat(self) -> Contenders:
        yield from ()

    def edit(self) -> Contenders:
        """One word in 4 KB of text."""
        yield from ()

    def stream_in(self) -> Contenders:
        """64 MiB, chunk by chunk where the library can."""
        yield from ()

    def stream_out(self) -> Contenders:
        yield from ()

    def grep_few(self) -> Contenders:
        """A word in the few files."""
        yield from ()

    def grep_literal(self) -> Contenders:
        yield from ()

    def grep_pattern(self) -> Contenders:
        yield from ()

    def volume_read(self) -> Contenders:
        """1 KiB out of a filesystem in a database on tmpfs."""
        yield from ()

    def volume_write(self) -> Contenders:
        """1 KiB into it, durably as far as the database is concerned."""
        yield from ()

    def volume_durable(self) -> Contenders:
        """The same, on a disk."""
        yield from ()

    def volume_writers(self) -> Contenders:
        """1 KiB each of many writers at once."""
        yield from ()

    def volume_fork(self) -> Contenders:
        """A copy of a whole tree that shares everything, of a small and of a large one."""
        yield from ()

    def volume_move(self) -> Contenders:
        """A directory of many files."""
        yield from ()

    def volume_snapshot(self) -> Contenders:
        """A name for the state of a whole tree."""
        yield from ()

    def volume_remove(self) -> Contenders:
        """A directory of many files."""
        yield from ()

    def volume_remove_in_fork(self) -> Contenders:
        """The same in a copy that shares everything."""
        yield from ()

    def volume_compare(self) -> Contenders:
        """Two trees of many files that differ in a few."""
        yield from ()

    def volume_depth(self) -> Contenders:
        """A file, looked at in a tree and in a copy of a copy … of it."""
        yield from ()

    def memory_read(self) -> Contenders:
        """1 KiB out of a filesystem held in memory."""
        yield from ()

    def memory_write(self) -> Contenders:
        yield from ()

    def help(self) -> Contenders:
        """The help of a command line."""
        yield from ()

    def startup(self) -> Contenders:
        """An interpreter that imports the library and ends."""
        yield from ()


def there_and_back(edit: Callable[[str, str], Any]) -> Callable[[], Any]:
    """A call that edits a word, and the next time edits it back."""
    words = itertools.cycle((("alpha", "omega"), ("omega", "alpha")))
    return lambda: edit(*next(words))
