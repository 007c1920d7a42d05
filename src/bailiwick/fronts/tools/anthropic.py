"""Anthropic: tool definitions for an application that runs the loop, tools for the SDK's own tool
runner, and the text editor, memory and bash tools that its models are trained on.

The SDK has no pause of its own. An application that runs the loop gets calls that wait for a person
from `run_calls`; with the tool runner the person is asked while the call waits, by the ``asker`` of
the tool or of the scope.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal

from bailiwick.approvals import Asker
from bailiwick.errors import ParseError
from bailiwick.fronts.tools.extras import extra
from bailiwick.fronts.tools.places import from_top
from bailiwick.fronts.tools.rounds import Round, ToolCall, field, run_round
from bailiwick.fronts.tools.text_editor import Editor
from bailiwick.scope import Scope
from bailiwick.scope.execution import PublishWhen
from bailiwick.toolbox import Pending, Tool, Toolbox, by_word, images_of, text_of
from bailiwick.toolbox.arguments import BashArguments, read
from bailiwick.toolbox.command_tool import in_words
from bailiwick.toolbox.shell import Shell

with extra("anthropic"):
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        BetaAsyncBuiltinFunctionTool,
        BetaBuiltinFunctionTool,
        ToolError,
    )

EditorVersion = Literal["20241022", "20250124", "20250429", "20250728"]

_COMMANDS = frozenset(("view", "create", "str_replace", "insert"))
_MEMORY_COMMANDS = _COMMANDS | {"delete", "rename"}
_OLD = ("20241022", "20250124")
_MEMORIES = "/memories"


def tool_params(tools: Toolbox) -> list[Any]:
    """The tools as ``client.messages.create(tools=…)`` takes them."""
    return [_param(tool) for tool in tools.tools]


def _param(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name, "description": tool.description, "input_schema": tool.input_schema,
    }  # fmt: skip


async def run_calls(tools: Toolbox, message: Any, *, bash: BashTool | None = None) -> Round:
    """Make the tool calls of a message; ``outputs`` are ``tool_result`` blocks for the next one.
    Those of the bash tool are made where it is given."""
    calls = [
        ToolCall(field(block, "id"), field(block, "name"), field(block, "input"))
        for block in field(message, "content")
        if field(block, "type") == "tool_use"
    ]
    more = () if bash is None else ((bash, _bash_result),)
    return await run_round(tools, calls, _tool_result, *more)


def _tool_result(call: ToolCall, answer: dict[str, Any]) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": call.id, "content": _content(answer)}
    return {**result, "is_error": True} if answer.get("ok") is False else result


def _content(answer: dict[str, Any]) -> str | list[Any]:
    """An answer as a block holds it: a text, or with pictures a list."""
    text, images = text_of(answer), images_of(answer)
    if not images:
        return text
    shown = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": each.mime_type, "data": each.base64},
        }
        for each in images
    ]
    return [{"type": "text", "text": text}, *shown]


def _bash_result(call: ToolCall, answer: dict[str, Any]) -> dict[str, Any]:
    result = _tool_result(call, answer)
    return {**result, "content": answer["text"]} if answer["ok"] else result


# --- for the tool runner -----------------------------------------------------------------------


class RunnableTool(BetaAsyncBuiltinFunctionTool):
    """One of the tools, for ``client.beta.messages.tool_runner``."""

    def __init__(self, tools: Toolbox, tool: Tool, asker: Asker | None) -> None:
        self._tools = tools
        self._tool = tool
        self._asker = asker

    def to_dict(self) -> Any:
        return _param(self._tool)

    async def call(self, input: object) -> Any:
        answer = await self._tools.call(self._tool.name, input, asker=self._asker)
        if answer.get("ok") is False:
            raise ToolError(text_of(answer))
        return _content(answer)


class TextEditor(BetaAsyncBuiltinFunctionTool):
    """The text editor tool of a version, for the tool runner; `Blocking` makes it one for the
    blocking runner.

    `create` does not replace a file unless ``overwrite`` is set. `undo_edit` is there for the
    versions that have it, and works where the workspace keeps versions. ``max_characters`` bounds
    a view, also for older versions, whose definition has no such field.
    """

    def __init__(
        self,
        tools: Toolbox,
        version: EditorVersion = "20250728",
        *,
        asker: Asker | None = None,
        overwrite: bool = False,
        max_characters: int | None = None,
    ) -> None:
        self.tools = tools
        self._version = version
        self._asker = asker
        self._max_characters = max_characters
        commands = _COMMANDS | {"undo_edit"} if version in _OLD else _COMMANDS
        mount_point = tools.actor.owner.root.mount_point
        self.editor = Editor(
            tools, commands, place=partial(from_top, mount_point=mount_point),
            overwrite=overwrite, characters_max=max_characters,
        )  # fmt: skip

    def to_dict(self) -> Any:
        old = self._version in _OLD
        name = "str_replace_editor" if old else "str_replace_based_edit_tool"
        param: dict[str, Any] = {"type": f"text_editor_{self._version}", "name": name}
        if self._max_characters is not None and self._version == "20250728":
            param["max_characters"] = self._max_characters
        return param

    async def call(self, input: object) -> str:
        return _told(await self.editor.answer(input, asker=self._asker))


class MemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool, for the tool runner: what the model calls ``/memories`` is the workspace."""

    def __init__(self, tools: Toolbox, *, asker: Asker | None = None) -> None:
        super().__init__()
        self.tools = tools
        self._asker = asker
        self._editor = Editor(tools, _MEMORY_COMMANDS, place=_in_memories)

    async def call(self, input: object) -> str:
        return _told(await self._editor.answer(input, asker=self._asker))

    async def execute(self, command: Any) -> str:
        """A command as the SDK's own objects say it."""
        return await self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        """Remove everything in the workspace that the agent may remove."""

        async def clear(scope: Any) -> str:
            self.tools.require("rm")
            cursor: str | None = None
            while True:
                page = await scope.list(".", cursor=cursor, include_ignored=True)
                for entry in page.entries:
                    await scope.remove(entry.path, recursive=True)
                cursor = page.next_cursor
                if cursor is None:
                    return "All memory cleared"

        return await self.tools.actor.run(clear, asker=self._asker)


class BashTool(BetaAsyncBuiltinFunctionTool):
    """The bash tool, for the tool runner, or for `run_calls`; `Blocking` makes it one for the
    blocking runner.

    ``tools`` must offer `run_command`. A session is kept over the calls: files that were not
    brought back, and the directory that a command ended in, are there for the next one. Processes
    and variables of a command end with it. What it changed is brought back after each command,
    unless ``publish`` is "manual": then `Shell.publish` of ``shell`` does that. ``timeout`` of a
    command is in seconds.
    """

    def __init__(
        self,
        tools: Toolbox,
        *,
        asker: Asker | None = None,
        publish: PublishWhen = "atomic",
        timeout: float | None = None,
    ) -> None:
        tools.require("run_command")
        self.tools = tools
        self.shell = Shell(publish)
        self._asker = asker
        self._seconds = timeout

    def to_dict(self) -> Any:
        return {"type": "bash_20250124", "name": "bash"}

    def __contains__(self, name: object) -> bool:
        return name == "bash"

    async def call(self, input: object) -> str:
        return _told(await self._answer(input, self._asker))

    async def attempt(self, name: str, arguments: Any = None) -> dict[str, Any] | Pending:
        """Run a command; where a person would have to be asked first, the answer is the question,
        and `resume` passes on their word."""

        async def run() -> dict[str, Any] | Pending:
            told = await self.tools.actor.attempt(name, self._work(arguments))
            return told if isinstance(told, Pending) else {"ok": True, "text": told}

        return await self.tools.answered(run)

    async def resume(
        self, name: str, arguments: Any, *, allowed: bool, binding: str | None = None
    ) -> dict[str, Any]:
        return await self._answer(arguments, by_word(allowed, binding))

    async def aclose(self) -> None:
        """End the session. What was not brought back is kept in a working copy."""
        await self.tools.actor.bridge.run(self.shell.aclose)

    async def _answer(self, given: Any, asker: Asker | None) -> dict[str, Any]:
        async def run() -> dict[str, Any]:
            return {
                "ok": True, "text": await self.tools.actor.run(self._work(given), asker=asker),
            }  # fmt: skip

        return await self.tools.answered(run)

    def _work(self, given: Any) -> Callable[[Scope], Coroutine[Any, Any, str]]:
        asked = read(BashArguments, given)
        assert isinstance(asked, BashArguments)
        if asked.restart:
            return self._restart
        if asked.command is None:
            raise ParseError("command or restart is needed")
        command = asked.command

        async def run(scope: Scope) -> str:
            most = self.tools.config.max_tool_result_bytes
            printed, result = await self.shell.run(scope, command, self._seconds, most)
            return in_words(self.tools.bench(scope, "run_command"), printed, result)

        return run

    async def _restart(self, scope: Scope) -> str:
        kept = await self.shell.restart()
        more = "" if kept is None else f" What was not brought back is kept as {kept}."
        return f"The shell was restarted.{more}"


class Blocking(BetaBuiltinFunctionTool):
    """A tool for the blocking runner, from one for the other."""

    def __init__(self, tool: RunnableTool | TextEditor | BashTool, tools: Toolbox) -> None:
        self._tool = tool
        self._tools = tools

    def to_dict(self) -> Any:
        return self._tool.to_dict()

    def call(self, input: object) -> Any:
        return self._tools.actor.bridge.run_blocking(lambda: self._tool.call(input))


class BlockingMemoryTool(BetaAbstractMemoryTool):
    """The memory tool for the blocking runner."""

    def __init__(self, tools: Toolbox, *, asker: Asker | None = None) -> None:
        super().__init__()
        self._tool = MemoryTool(tools, asker=asker)
        self._run = tools.actor.bridge.run_blocking

    def call(self, input: object) -> str:
        return self._run(lambda: self._tool.call(input))

    def execute(self, command: Any) -> str:
        return self._run(lambda: self._tool.execute(command))

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        return self._run(self._tool.clear_all_memory)


def runnable_tools(tools: Toolbox, *, asker: Asker | None = None) -> list[RunnableTool]:
    """The tools for ``client.beta.messages.tool_runner`` of the async client."""
    return [RunnableTool(tools, tool, asker) for tool in tools.tools]


def blocking_tools(tools: Toolbox, *, asker: Asker | None = None) -> list[Blocking]:
    """The tools for ``client.beta.messages.tool_runner`` of the blocking client."""
    return [Blocking(tool, tools) for tool in runnable_tools(tools, asker=asker)]


def _told(answer: dict[str, Any]) -> str:
    if answer["ok"]:
        text: str = answer["text"]
        return text
    raise ToolError(text_of(answer))


def _in_memories(path: str) -> str:
    if path != _MEMORIES and not path.startswith(f"{_MEMORIES}/"):
        raise ParseError(f"paths begin with {_MEMORIES}")
    below = path[len(_MEMORIES) :].strip("/")
    return below or "."
