"""The tools: what each is called, says of itself, takes, answers and does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from bailiwick.toolbox import arguments, changing, looking, reading, remembering, results
from bailiwick.toolbox.arguments import Arguments
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.results import Result
from bailiwick.toolbox.schemas import input_schema, output_schema


class Operation(NamedTuple):
    """One tool, whatever its name for a provider. The marks are those that MCP knows too."""

    name: str
    description: str
    takes: type[Arguments]
    answers: type[Result]
    run: Callable[[Bench, Any], Awaitable[Result]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @property
    def parallel_safe(self) -> bool:
        """Whether calls may overlap. Two changes of one file in one step would undo each other,
        and a model that asked for both cannot have seen what came of the first."""
        return self.read_only


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model sees it, and its marks."""

    name: str
    operation: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    read_only: bool
    destructive: bool
    idempotent: bool
    parallel_safe: bool


def tool_of(operation: Operation, name: str) -> Tool:
    return Tool(
        name=name, operation=operation.name, description=operation.description,
        input_schema=input_schema(operation.takes), output_schema=output_schema(operation.answers),
        read_only=operation.read_only, destructive=operation.destructive,
        idempotent=operation.idempotent, parallel_safe=operation.parallel_safe,
    )  # fmt: skip


_ALL = (
    Operation(
        "read_file",
        "Read a text file, whole or from a line on. The text is tagged as untrusted.",
        arguments.ReadFile, results.FileRead, reading.read_file,
        read_only=True, idempotent=True,
    ),
    Operation(
        "write_file",
        "Write a whole text file; makes it and its directories where missing.",
        arguments.WriteFile, results.FileWritten, changing.write_file,
        destructive=True, idempotent=True,
    ),
    Operation(
        "edit_file",
        "Replace exact text in a file. oldText must occur once, unless replaceAll.",
        arguments.EditFile, results.FileEdited, changing.edit_file,
        destructive=True,
    ),
    Operation(
        "ls", "List a directory.",
        arguments.Ls, results.Listing, looking.ls,
        read_only=True, idempotent=True,
    ),
    Operation(
        "glob",
        "Find paths by pattern, such as src/**/*.py. Ignored files are left out.",
        arguments.Glob, results.Matches, looking.glob,
        read_only=True, idempotent=True,
    ),
    Operation(
        "grep",
        "Find lines by regular expression in a file or beneath a directory.",
        arguments.Grep, results.LinesFound, looking.grep,
        read_only=True, idempotent=True,
    ),
    Operation(
        "stat", "Type, size and time of a path.",
        arguments.Stat, results.Status, looking.stat,
        read_only=True, idempotent=True,
    ),
    Operation(
        "mkdir", "Make a directory; with recursive also those above it.",
        arguments.Mkdir, results.Done, changing.mkdir,
    ),
    Operation(
        "rm", "Remove a file, or a directory (a full one only with recursive).",
        arguments.Rm, results.Done, changing.rm,
        destructive=True,
    ),
    Operation(
        "move", "Rename or move a file or directory to a name that is free.",
        arguments.Move, results.Done, changing.move,
        destructive=True,
    ),
    Operation(
        "history", "Earlier versions of a file or directory, newest first.",
        arguments.History, results.Versions, remembering.history,
        read_only=True, idempotent=True,
    ),
    Operation(
        "undo", "Take back your own changes of one request or version.",
        arguments.Undo, results.Undone, remembering.undo,
        destructive=True,
    ),
    Operation(
        "diff", "What changed in a file since a version, or since the one before.",
        arguments.Diff, results.Difference, remembering.diff,
        read_only=True, idempotent=True,
    ),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _ALL}
