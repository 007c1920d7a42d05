"""How a set of tools is configured: what it offers, and how much it gives and takes.

Every field is enforced. The names on the wire are those a configuration file of another framework
uses (`maxToolResultBytes`); Python says `max_tool_result_bytes`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypedDict

import msgspec

from bailiwick.errors import ParseError
from bailiwick.grant import check_globs
from bailiwick.model import KiB, MiB

BASE_OPERATIONS = (
    "read_file", "write_file", "edit_file", "ls", "glob", "grep", "stat", "mkdir", "rm", "move",
    "tree",
)  # fmt: skip
HISTORY_OPERATIONS = ("history", "undo", "diff")
"""Offered only where the store keeps versions."""
COMMAND_OPERATIONS = ("run_command",)
"""Offered only where the grant holds ``execute`` and programs can be run. A person's own scope is
passed on with ``execute`` only where ``operations`` names it: nobody's agent gets a shell by
surprise."""
CODE_OPERATIONS = ("run_code",)
"""The same for code, which is run in every root."""
ALL_OPERATIONS = (*BASE_OPERATIONS, *HISTORY_OPERATIONS, *COMMAND_OPERATIONS, *CODE_OPERATIONS)

_Positive = Annotated[int, msgspec.Meta(ge=1)]

_is_name = re.compile(r"[A-Za-z0-9_-]{1,40}").fullmatch
"""Providers take 64 characters of these for a tool's name; ours adds 23 of its own."""


class ToolOptions(TypedDict, total=False):
    """The options of `bailiwick.tools`, for type checkers; `ToolConfig` has the defaults."""

    fs: bool
    operations: Collection[str] | None
    allowed_paths: Collection[str] | None
    max_file_size_mb: float | None
    max_tool_result_bytes: int
    max_dir_entries: int
    max_glob_matches: int
    max_grep_matches: int
    max_image_bytes: int
    structured: bool


class ToolConfig(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """What tools may do and how much they answer. Raises `ParseError` for what means nothing."""

    fs: bool = True
    """Whether there are file tools at all."""

    operations: tuple[str, ...] | None = None
    """Which of them; None means all that the store can serve."""

    allowed_paths: tuple[str, ...] | None = None
    """Globs, relative to what the scope sees as its top; None means all of it. They narrow the
    grant, so links, moves and searches meet them too."""

    max_file_size_mb: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None
    """How large a file may become by `write_file` and `edit_file`; the scope's own limit, where
    not set."""

    max_tool_result_bytes: Annotated[int, msgspec.Meta(ge=256)] = 256 * KiB
    """Content in one answer. Less than a few lines is of no use to anyone."""

    max_dir_entries: _Positive = 1_000
    max_glob_matches: _Positive = 1_000
    max_grep_matches: _Positive = 200
    """What `grep` gives unless the model asks for another number; it may ask for fewer or, up to
    the scope's own limit, for more."""

    max_image_bytes: Annotated[int, msgspec.Meta(ge=0)] = 3 * MiB
    """Pictures in one answer, as they are stored: a provider takes 5 MB, a third of which is what
    base64 adds. 0 means that none are shown."""

    structured: bool = False
    """Whether a model is told the object of an answer, as JSON, instead of a text: content of files
    is escaped then, and all of it is longer."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.operations or ()) - set(ALL_OPERATIONS))
        if unknown:
            known = ", ".join(ALL_OPERATIONS)
            raise ParseError(f"there is no tool {unknown[0]!r}", hint=f"the tools are {known}")
        if self.allowed_paths is not None:
            check_globs(self.allowed_paths, "allowed_paths")
            if not self.allowed_paths:
                raise ParseError(
                    "allowed_paths is empty: nothing could be reached", hint="leave it out for all"
                )

    @property
    def names_commands(self) -> bool:
        """Whether it was said by name that programs may be run."""
        named = (*COMMAND_OPERATIONS, *CODE_OPERATIONS)
        return any(each in named for each in self.operations or ())

    def offers(self, operation: str) -> bool:
        return self.fs and (self.operations is None or operation in self.operations)

    @property
    def file_bytes_max(self) -> int | None:
        return None if self.max_file_size_mb is None else int(self.max_file_size_mb * MiB)


def read_config(given: Mapping[str, Any]) -> ToolConfig:
    """A configuration from names as Python or as JSON spells them, checked strictly."""
    fields = ToolConfig.__struct_fields__
    wire = dict(zip(fields, ToolConfig.__struct_encode_fields__, strict=True))
    named = {wire.get(key, key): _plain(value) for key, value in given.items()}
    try:
        return msgspec.convert(named, ToolConfig)
    except (msgspec.ValidationError, TypeError) as error:
        # A `ParseError` raised by the struct's own check arrives as its cause.
        if isinstance(error.__cause__, ParseError):
            raise error.__cause__ from None
        raise ParseError(f"a tool option is wrong: {error}") from None


def check_name(name: str) -> str:
    """The name of a workspace as it can stand in a tool's name."""
    if not isinstance(name, str) or _is_name(name) is None:
        raise ParseError("a workspace's name is 1 to 40 letters, digits, - and _")
    return name


def _plain(value: Any) -> Any:
    """A collection as JSON has it: a list, always in the same order."""
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping)):
        return list(value)
    return value
