"""The commands of the text editor that Anthropic's models know, on a workspace.

The same commands serve the text editor tool and the memory tool: `view`, `create`, `str_replace`,
`insert`, `delete`, `rename`, `undo_edit`. Each is one of the file tools by another name, is offered
where that one is, and keeps its caps.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Annotated, Any

import msgspec

from bailiwick.approvals import Asker
from bailiwick.errors import (
    HashMismatch,
    MissingAccess,
    ParseError,
    PathNotFound,
    TextNotFound,
    escape_for_display,
)
from bailiwick.model import Entry
from bailiwick.scope import Scope
from bailiwick.toolbox import Toolbox
from bailiwick.toolbox.documents import whole_text
from bailiwick.toolbox.hints import Advice
from bailiwick.toolbox.truncation import cut_text, fitting, utf8_length
from bailiwick.toolbox.untrusted_text import cut_note
from bailiwick.versions import Version

_LINE_NUMBER_WIDTH = 6
_LEVELS = 2
"""How deep a directory is shown."""

_Lines = Annotated[list[int], msgspec.Meta(min_length=2, max_length=2)]


class EditorCommand(msgspec.Struct, frozen=True, kw_only=True, tag_field="command"):
    """The base of commands."""


class _Strict(EditorCommand, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands of which every field means something."""


class EditorView(_Strict, frozen=True, kw_only=True, tag="view"):
    path: str
    view_range: _Lines | None = None


class Create(_Strict, frozen=True, kw_only=True, tag="create"):
    path: str
    file_text: str


class StrReplace(_Strict, frozen=True, kw_only=True, tag="str_replace"):
    path: str
    old_str: str
    new_str: str = ""


class Insert(_Strict, frozen=True, kw_only=True, tag="insert"):
    """Older tools call the text ``new_str``, newer ones ``insert_text``."""

    path: str
    insert_line: Annotated[int, msgspec.Meta(ge=0)]
    insert_text: str | None = None
    new_str: str | None = None


class Delete(_Strict, frozen=True, kw_only=True, tag="delete"):
    path: str


class Rename(_Strict, frozen=True, kw_only=True, tag="rename"):
    old_path: str
    new_path: str


class UndoEdit(_Strict, frozen=True, kw_only=True, tag="undo_edit"):
    path: str


AnyCommand = EditorView | Create | StrReplace | Insert | Delete | Rename | UndoEdit

Work = Callable[[Scope], Coroutine[Any, Any, str]]


class Editor:
    """Obeys commands on the files of a workspace.

    ``place`` turns the path of a command into one of the workspace, and raises for one that is not
    there; ``commands`` are those the tool has; ``overwrite`` lets `create` replace a file.
    """

    def __init__(
        self,
        tools: Toolbox,
        commands: frozenset[str],
        *,
        place: Callable[[str], str] = str,
        overwrite: bool = False,
        characters_max: int | None = None,
    ) -> None:
        self._tools = tools
        self._commands = commands
        self._place = place
        self._overwrite = overwrite
        self._characters_max = characters_max

    def work(self, given: Any) -> Work:
        """What a command does, checked. Raises `ParseError`, `MissingAccess`."""
        command = self._read(given)
        match command:
            case EditorView():
                return lambda scope: self._view(scope, command)
            case Create():
                return lambda scope: self._create(scope, command)
            case StrReplace():
                return lambda scope: self._replace(scope, command)
            case Insert():
                return lambda scope: self._insert(scope, command)
            case Delete():
                return lambda scope: self._delete(scope, command)
            case Rename():
                return lambda scope: self._rename(scope, command)
            case UndoEdit():
                return lambda scope: self._undo(scope, command)

    async def answer(self, given: Any, *, asker: Asker | None = None) -> dict[str, Any]:
        """Obey a command: ``{"ok": true, "text": …}``, or what the tools say when they fail."""

        async def run() -> dict[str, Any]:
            text = await self._tools.actor.run(self.work(given), asker=asker)
            return {"ok": True, "text": text}

        return await self._tools.answered(run)

    def _read(self, given: Any) -> AnyCommand:
        if not isinstance(given, dict):
            raise ParseError("a command is a JSON object")
        name = given.get("command")
        if name not in self._commands:
            raise ParseError(
                "there is no such command",
                hint=Advice(f"commands are {', '.join(sorted(self._commands))}"),
            )
        present = {key: value for key, value in given.items() if value is not None}
        try:
            command: AnyCommand = msgspec.convert(present, AnyCommand)
        except (msgspec.ValidationError, TypeError) as error:
            raise ParseError(str(error)[:200]) from None
        return command

    # --- looking -----------------------------------------------------------------------------

    async def _view(self, scope: Scope, command: EditorView) -> str:
        path = self._place(command.path)
        if (await scope.stat(path)).type == "directory":
            return await self._view_directory(scope, command.path, path)
        self._tools.require("read_file")
        document = await whole_text(scope, path)
        lines = document.text.split("\n")
        first, last = self._range(command, len(lines))
        numbered = "\n".join(
            f"{number:>{_LINE_NUMBER_WIDTH}}\t{line}"
            for number, line in enumerate(lines[first - 1 : last], first)
        )
        return self._tagged(scope, numbered, path)

    def _range(self, command: EditorView, count: int) -> tuple[int, int]:
        if command.view_range is None:
            return 1, count
        first, last = command.view_range
        last = count if last == -1 else last
        if not 1 <= first <= last or first > count:
            raise ParseError(
                f"view_range must lie in [1, {count}]", hint=Advice("-1 means the last line")
            )
        return first, min(last, count)

    def _tagged(self, scope: Scope, text: str, path: str) -> str:
        most = self._characters_max
        shown = text if most is None else text[:most]
        cut = cut_text(shown, self._tools.config.max_tool_result_bytes)
        omitted = cut.omitted_bytes + utf8_length(text) - utf8_length(shown)
        wrapper = self._tools.bench(scope, "view").wrapper
        wrapper.begin(cut.text)
        note = cut_note(omitted, "go on with a `view_range`") if omitted else ""
        return wrapper.wrap(cut.text, path) + note

    async def _view_directory(self, scope: Scope, named: str, path: str) -> str:
        self._tools.require("ls")
        most = self._tools.config.max_dir_entries
        found = await scope.find(path, depth=_LEVELS, limit=most + 1, include_ignored=True)
        entries = [entry for entry in found.matches if not _is_hidden(entry, path)]
        shown = fitting(
            entries[:most], self._tools.config.max_tool_result_bytes,
            lambda entry: utf8_length(entry.path) + 16,
        )  # fmt: skip
        top = named.rstrip("/") or "/"
        rows = [f"-\t{top}", *(_row(entry, top, path) for entry in shown)]
        omitted = len(entries) - len(shown)
        if found.truncated or omitted:
            rows.append(f"[... truncated, at least {max(omitted, 1)} entries omitted]")
        return (
            f"Here're the files and directories up to {_LEVELS} levels deep in {named}, excluding "
            "hidden items and node_modules:\n" + "\n".join(rows)
        )

    # --- changing ----------------------------------------------------------------------------

    async def _create(self, scope: Scope, command: Create) -> str:
        self._tools.require("write_file")
        await scope.write_text(
            self._place(command.path), command.file_text, parents=True,
            mode="overwrite" if self._overwrite else "create",
        )  # fmt: skip
        return f"File created successfully at: {command.path}"

    async def _replace(self, scope: Scope, command: StrReplace) -> str:
        self._tools.require("edit_file")
        await scope.edit(self._place(command.path), old=command.old_str, new=command.new_str)
        return f"The file {command.path} has been edited."

    async def _insert(self, scope: Scope, command: Insert) -> str:
        self._tools.require("edit_file")
        text = command.new_str if command.insert_text is None else command.insert_text
        if text is None:
            raise ParseError("insert needs insert_text")
        path = self._place(command.path)
        document = await whole_text(scope, path)
        lines = document.text.split("\n")
        count = len(lines) - (1 if lines[-1] == "" else 0)
        if command.insert_line > count:
            raise TextNotFound(
                f"the file has {count} lines", hint=Advice(f"insert_line is from 0 to {count}")
            )
        lines[command.insert_line : command.insert_line] = text.removesuffix("\n").split("\n")
        await scope.write_text(path, "\n".join(lines), expected_sha256=document.sha256)
        return f"The file {command.path} has been edited."

    async def _delete(self, scope: Scope, command: Delete) -> str:
        self._tools.require("rm")
        await scope.remove(self._place(command.path), recursive=True)
        return f"Successfully deleted {command.path}"

    async def _rename(self, scope: Scope, command: Rename) -> str:
        self._tools.require("move")
        old, new = self._place(command.old_path), self._place(command.new_path)
        parent = new.rpartition("/")[0]
        if parent and not await scope.exists(parent):
            await scope.lstat(old)  # of what is not there nothing is to be left
            await scope.make_dir(parent, parents=True)
        await scope.move(old, new)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def _undo(self, scope: Scope, command: UndoEdit) -> str:
        if not self._tools.keeps_versions:
            raise MissingAccess("this workspace keeps no versions to go back to")
        self._tools.require("undo")
        path = self._place(command.path)
        before = version_before((await scope.history(path)).versions, str(scope.subject), path=path)
        await scope.restore(path, before)
        return f"Last edit to {command.path} undone successfully."


def version_before(versions: Sequence[Version], subject: str, *, path: str) -> str:
    """The version a file had before the last edit that a subject made and has not undone yet.

    ``versions`` are newest first. What somebody else changed since is not to be lost by it.
    """
    undone = 0
    for version, before in pairwise(versions):
        if version.subject != subject:
            raise HashMismatch(
                "it was changed by somebody else since", path=path,
                details={"current_sha256": None, "current_version": versions[0].version},
            )  # fmt: skip
        if version.verb in ("undo", "restore"):
            undone += 1
        elif undone:
            undone -= 1
        else:
            return before.version
    raise PathNotFound("there is no edit of yours to undo", path=path)


def _is_hidden(entry: Entry, top: str) -> bool:
    below = str(entry.path)[0 if top in ("", ".", "/") else len(top) :]
    return any(part.startswith(".") or part == "node_modules" for part in below.split("/") if part)


def _row(entry: Entry, top: str, path: str) -> str:
    below = str(entry.path)
    if path not in ("", ".", "/"):
        below = below[len(path.strip("/")) + 1 :]
    size = _size(entry.size) if entry.type == "file" else "-"
    # Escaped: a name may hold what looks like another row, or like our own words.
    shown = escape_for_display(below) + ("/" if entry.type == "directory" else "")
    return f"{size}\t{top.rstrip('/')}/{shown}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "K", "M"):
        if size < 1024:
            return f"{size:.1f}{unit}".replace(".0", "")
        size /= 1024
    return f"{size:.1f}G".replace(".0", "")
