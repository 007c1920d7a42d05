"""The tools: what each is called, says of itself, takes, answers and does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from bailiwick.toolbox import (
    arguments,
    change_tools,
    code_tool,
    command_tool,
    results,
    version_tools,
)
from bailiwick.toolbox.answer import Answered
from bailiwick.toolbox.arguments import Arguments
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.reads import lookup_tools, read_tool
from bailiwick.toolbox.results import ToolResult
from bailiwick.toolbox.schemas import input_schema, output_schema


class ToolOperation(NamedTuple):
    """One tool, whatever its name for a provider. The marks are those that MCP knows too."""

    name: str
    description: str
    takes: type[Arguments]
    answers: type[ToolResult]
    run: Callable[[Bench, Any], Awaitable[Answered]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    content: str | None = None
    """The field of an answer that holds content of files, between its tags."""
    worded: bool = False
    """Whether a model reads the answer as a text of its own."""
    details: Callable[[], str] | None = None
    """What follows the description, made when the tool is offered."""

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
    worded: bool = False


def tool_of(operation: ToolOperation, name: str) -> Tool:
    details = "" if operation.details is None else f" {operation.details()}"
    return Tool(
        name=name, operation=operation.name, description=operation.description + details,
        input_schema=input_schema(operation.takes), output_schema=output_schema(operation.answers),
        read_only=operation.read_only, destructive=operation.destructive,
        idempotent=operation.idempotent, parallel_safe=operation.parallel_safe,
        worded=operation.worded,
    )  # fmt: skip


_ALL = (
    ToolOperation(
        "read_file",
        "Read text, whole or from a line on, or a picture. Text is tagged as untrusted.",
        arguments.ReadFile, results.FileRead, read_tool.read_file,
        read_only=True, idempotent=True, content="text", worded=True,
    ),
    ToolOperation(
        "write_file",
        "Write a whole text file; makes it and its directories where missing.",
        arguments.WriteFile, results.FileWritten, change_tools.write_file,
        destructive=True, idempotent=True,
    ),
    ToolOperation(
        "edit_file",
        "Replace exact text in a file. oldText must occur once, unless replaceAll.",
        arguments.EditFile, results.FileEdited, change_tools.edit_file,
        destructive=True, content="diff",
    ),
    ToolOperation(
        "ls", "List a directory.",
        arguments.Ls, results.DirectoryListing, lookup_tools.ls,
        read_only=True, idempotent=True, worded=True,
    ),
    ToolOperation(
        "glob",
        "Find paths by pattern, such as src/**/*.py. Ignored files are left out.",
        arguments.GlobArguments, results.Matches, lookup_tools.glob,
        read_only=True, idempotent=True, worded=True,
    ),
    ToolOperation(
        "grep",
        "Find lines by regular expression in a file or beneath a directory.",
        arguments.Grep, results.LinesFound, lookup_tools.grep,
        read_only=True, idempotent=True, worded=True,
    ),
    ToolOperation(
        "stat", "Type, size and time of a path.",
        arguments.StatArguments, results.Status, lookup_tools.stat,
        read_only=True, idempotent=True,
    ),
    ToolOperation(
        "mkdir", "Make a directory; with recursive also those above it.",
        arguments.Mkdir, results.ChangeDone, change_tools.mkdir,
    ),
    ToolOperation(
        "rm", "Remove a file, or a directory (a full one only with recursive).",
        arguments.Rm, results.ChangeDone, change_tools.rm,
        destructive=True,
    ),
    ToolOperation(
        "move", "Rename or move a file or directory to a name that is free.",
        arguments.MoveArguments, results.ChangeDone, change_tools.move,
        destructive=True,
    ),
    ToolOperation(
        "tree", "All beneath a directory, some levels deep. Ignored files are left out.",
        arguments.TreeArguments, results.DirectoryListing, lookup_tools.tree,
        read_only=True, idempotent=True, worded=True,
    ),
    ToolOperation(
        "history", "Earlier versions of a file or directory, newest first.",
        arguments.HistoryArguments, results.VersionList, version_tools.history,
        read_only=True, idempotent=True, worded=True,
    ),
    ToolOperation(
        "undo", "Take back your own changes of one request or version.",
        arguments.UndoArguments, results.ChangesUndone, version_tools.undo,
        destructive=True,
    ),
    ToolOperation(
        "diff", "What changed in a file since a version, or since the one before.",
        arguments.DiffArguments, results.DifferenceShown, version_tools.diff,
        read_only=True, idempotent=True, content="diff", worded=True,
    ),
    ToolOperation(
        "run_command",
        "Run a shell command in a sandbox, without a network. What it changed comes back when it"
        " has ended. Its output is tagged as untrusted.",
        arguments.CommandArguments, results.CommandEnded, command_tool.run_command,
        destructive=True, content="output",
    ),
    ToolOperation(
        "run_code",
        "Run Python in a sandbox without files and network, for many steps at once. `state` is its"
        " only way to the workspace; its last expression, or the variable `result`, comes back."
        " What it prints and returns is tagged as untrusted.",
        arguments.CodeArguments, results.CodeEnded, code_tool.run_code,
        destructive=True, content="output", details=code_tool.calls_of_state,
    ),
)  # fmt: skip

OPERATIONS: dict[str, ToolOperation] = {operation.name: operation for operation in _ALL}
