"""The closed list of operations and the access each needs.

Access is what a grant holds; an operation is what a rule, a hook and a ledger record name; a verb
is what a caller types. Every verb belongs to exactly one operation.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Literal, cast, get_args

import msgspec

from bailiwick.errors import ParseError
from bailiwick.model import Value

Access = Literal[
    "read", "write", "delete", "list", "move", "archive", "watch", "metadata", "execute"
]

ALL_ACCESS: frozenset[Access] = frozenset(get_args(Access))

FILE_ACCESS: frozenset[Access] = ALL_ACCESS - {"execute"}
"""What is held where nobody says what. To run programs is never part of it: ``execute`` is there
where it was asked for by name."""

REPLACE: Access = cast("Access", "replace")
"""Stands beside ``write`` in what rules see where a file or link stands there already, so that a
rule can be about replacing and leave creating free. No grant holds it: that is what ``write`` is
for."""


class Operation(msgspec.Struct, frozen=True, eq=False):
    """One operation: the access it needs on the path it names, and at its destination."""

    name: str
    access: frozenset[Access]
    verbs: tuple[str, ...]
    changes: bool = False
    destination_access: frozenset[Access] = frozenset()
    needed: frozenset[Access] = frozenset()
    """Both together: what a grant must hold for the operation to be worth looking at."""
    ruled: frozenset[Access] = frozenset()
    """What rules see at the path it names: what is moved away or unpacked can be read where it
    arrives, so that counts as reading."""
    ruled_new: frozenset[Access] = frozenset()
    """The same where nothing stands there yet, so that nothing is read or replaced."""
    ruled_over: frozenset[Access] = frozenset()
    """The same where a file or link stands there."""
    destination_over: frozenset[Access] = frozenset()
    """What rules see at its destination where a file or link stands there."""


def _operation(
    name: str,
    access: tuple[Access, ...],
    verbs: str,
    *,
    changes: bool = False,
    destination: tuple[Access, ...] = (),
    also_ruled: tuple[Access, ...] = (),
    replaces: bool = True,
) -> Operation:
    here, there = frozenset(access), frozenset(destination)
    ruled = here | frozenset(also_ruled)
    writes = changes and "write" in here
    return Operation(
        name, here, tuple(verbs.split()), changes, there, here | there, ruled,
        ruled_new=here if writes else ruled,
        ruled_over=ruled | {REPLACE} if writes and replaces else ruled,
        destination_over=there | {REPLACE} if "write" in there else there,
    )  # fmt: skip


READ = _operation(
    "read",
    ("read",),
    "read_bytes read_text read_json stream diff history compare snapshots forks open_fork"
    " work changes difference runs review",
)
METADATA = _operation("metadata", ("metadata",), "stat lstat exists readlink")
LIST = _operation("list", ("list",), "list find files glob")
SEARCH = _operation("search", ("read", "list"), "grep")
WRITE = _operation(
    "write",
    ("write",),
    "write_bytes write_text write_json write_stream append truncate make_dir symlink set_mode"
    " set_times lock",
    changes=True,
)
EDIT = _operation("edit", ("read", "write"), "edit restore", changes=True)
DELETE = _operation("delete", ("delete",), "remove", changes=True)
# A move that replaces something also needs `delete` there: known only once the place is resolved.
MOVE = _operation(
    "move", ("move",), "move", changes=True, destination=("write",), also_ruled=("read",)
)
COPY = _operation("copy", ("read",), "copy copy_from", changes=True, destination=("write",))
COPY_IN = _operation("copy-in", (), "copy_in", changes=True, destination=("write",))
ARCHIVE_EXTRACT = _operation(
    "archive-extract", ("archive",), "extract_archive", changes=True,
    destination=("archive", "write"), also_ruled=("read",),
)  # fmt: skip
ARCHIVE_CREATE = _operation("archive-create", ("archive", "read"), "create_archive", changes=True)
WATCH = _operation("watch", ("watch",), "watch on_change")
VERSION = _operation(
    "version",
    ("write",),
    "snapshot delete_snapshot fork delete_fork merge undo transaction publish discard"
    " accept reject",
    changes=True,
)

# What a command changes is judged as the operations it comes to, when it is brought back.
EXEC = _operation("exec", ("execute",), "exec session run code", changes=True)

# Adding to a file and cutting it are writes, after which the result tells of what stood there: for
# rules that counts as reading it, though a grant to write is enough.
WRITE_ONTO = _operation("write", ("write",), "append truncate", changes=True, also_ruled=("read",))

# A lease changes nothing of what it is on.
LEASE = _operation("write", ("write",), "lock", changes=True, replaces=False)

# A copy between two roots is one call on each of them: the source is only read, so it may be
# untrusted; what is made at the destination needs what the operation needs there.
COPY_SOURCE = _operation("copy", ("read",), "copy_from copy_in")
COPY_DESTINATION = _operation("copy", ("write",), "copy_from", changes=True)
COPY_IN_DESTINATION = _operation("copy-in", ("write",), "copy_in", changes=True)

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        READ, METADATA, LIST, SEARCH, WRITE, EDIT, DELETE, MOVE, COPY, COPY_IN,
        ARCHIVE_EXTRACT, ARCHIVE_CREATE, WATCH, VERSION, EXEC,
    )
}  # fmt: skip


Network = Literal["none", "loopback", "host"]

COMMAND_BYTES_MAX = 128 * 1024
"""What all words and variables of a command take together: what Linux takes for one word, and what
a question can still show whole. More goes by a file, or by its input."""

_SYSTEM = ("/usr/bin/", "/bin/", "/usr/local/bin/")
"""Directories of the system, which nobody writes to from within a sandbox."""


def environment_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Variables as a command carries them. Raises `ParseError` for what are none, and for a name of
    which a part would be taken for the value."""
    if not isinstance(variables, Mapping):
        raise ParseError('env takes a mapping ({"LANG": "C"})')
    if any("=" in str(name) for name in variables):
        raise ParseError("the name of a variable holds no =")
    return tuple(f"{name}={value}" for name, value in variables.items())


class Command(Value, frozen=True, kw_only=True):
    """What the operation ``exec`` carries: the words of a command, and how it is run.

    ``argv`` are words and no text of a shell: where a shell is meant, it is the program. ``cwd`` is
    relative to the root. ``environment`` are the variables that the caller sets, as ``NAME=VALUE``,
    and ``session`` the id of the session that the command is part of. ``roots`` are the names of
    others that it can read, and ``sandbox`` is what the root runs it in. Raises `ParseError` for
    what no program can be given.
    """

    argv: tuple[str, ...]
    cwd: str = "."
    network: Network = "none"
    session: str | None = None
    environment: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    sandbox: str = "bubblewrap"

    def __post_init__(self) -> None:
        if not isinstance(self.argv, tuple) or not isinstance(self.environment, tuple):
            raise ParseError("a command is a list of words", hint='["make", "test"]')
        if self.network not in get_args(Network):
            raise ParseError(f"the network of a command is one of {', '.join(get_args(Network))}")
        if not self.argv or not self.argv[0]:
            raise ParseError("a command begins with the name of a program")
        size = 0
        for word in (*self.argv, *self.environment, *self.roots, self.cwd):
            if not isinstance(word, str) or "\0" in word:
                raise ParseError("the words of a command are text without NUL")
            try:
                size += len(word.encode()) + 1
            except UnicodeEncodeError:
                raise ParseError("a word holds half a character (a lone surrogate)") from None
        if size > COMMAND_BYTES_MAX:
            raise ParseError(
                f"a command takes at most {COMMAND_BYTES_MAX} bytes", hint="use a file, or stdin"
            )
        names = [each.partition("=")[:2] for each in self.environment]
        if not all(equals and name.isascii() and name.isidentifier() for name, equals in names):
            raise ParseError("a variable is written NAME=VALUE")

    @property
    def program(self) -> str | None:
        """The name of a program of the system; None for one that is named by any other path.

        A bare name is looked up in directories of the system. What is named by a path may be a file
        that the caller wrote, whatever it is called.
        """
        first = self.argv[0]
        directory = next((each for each in _SYSTEM if first.startswith(each)), "")
        first = first.removeprefix(directory)
        return None if "/" in first or first in ("", ".", "..") else first

    @property
    def words(self) -> str:
        """The words as they would be typed into a shell, printable: no two commands have the
        same, and none looks like another."""
        return " ".join(map(_typed, self.argv))

    @property
    def recorded(self) -> str:
        """The words, and in brackets the sandbox where it is a weaker one than most have."""
        return self.words + ("" if self.sandbox == "bubblewrap" else f" (sandbox {self.sandbox})")

    @property
    def text(self) -> str:
        """All of it as a person reads it, and as an answer is bound to it: the variables, the
        words, and in brackets where it is run, with which network, and what else it reads. In words
        a bracket is quoted, so that nothing can be taken for it."""
        variables = (
            f"{name}={_typed(value)}"
            for name, _, value in (each.partition("=") for each in self.environment)
        )
        where = [] if self.cwd == "." else [f"in {_typed(self.cwd)}"]
        how = where if self.network == "none" else [*where, f"network {self.network}"]
        how += [f"reading {_typed(root)}" for root in self.roots]
        how += [] if self.sandbox == "bubblewrap" else [f"sandbox {self.sandbox}"]
        return " ".join((*variables, self.words, *([f"({', '.join(how)})"] if how else [])))


def _typed(word: str) -> str:
    """A word as it is typed into a shell. What would not be seen is written by its number, in the
    quotes that a shell has for that; no other word begins with those."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_typed_character, word))}'"


def _typed_character(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
