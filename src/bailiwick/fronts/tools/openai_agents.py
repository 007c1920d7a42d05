"""The OpenAI Agents SDK: function tools that pause by its own ``needs_approval``, and an editor for
its ``apply_patch`` tool.

The SDK wants to know whether a call needs approval before it makes the call. It is rehearsed for
that: everything is looked up and judged, nothing is done. When the person has agreed, the call is
made with their word, for what they were shown.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from bailiwick.approvals import Asker
from bailiwick.errors import BailiwickError, ParseError
from bailiwick.fronts.tools.extras import extra
from bailiwick.fronts.tools.rounds import as_text
from bailiwick.scope import Scope
from bailiwick.toolbox import Pending, Tool, Toolbox, by_word
from bailiwick.toolbox.documents import whole_text

with extra("openai"):
    from agents import ApplyPatchTool, FunctionTool, RunContextWrapper, apply_diff
    from agents.editor import ApplyPatchOperation, ApplyPatchResult
    from agents.items import ToolApprovalItem
    from agents.tool_context import ToolContext

Key = TypeVar("Key")
Kept = TypeVar("Kept")

_QUESTIONS_MAX = 1_000
"""Questions that are remembered for whoever shows them: those of calls under way, and some more."""


class AgentTools:
    """The tools of a workspace for an `Agent`: ``Agent(tools=AgentTools(tools).function_tools)``.

    A run that meets a rule which asks is interrupted; `question` says what to put before the
    person, and ``state.approve`` or ``state.reject`` answers it as for any other tool.
    """

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools
        self._questions: dict[str, Pending] = {}
        self.function_tools: list[Any] = [self._function_tool(tool) for tool in tools.tools]

    def apply_patch_tool(self) -> ApplyPatchTool:
        """The SDK's ``apply_patch`` tool, on this workspace."""
        # The SDK tells an editor what to do, but not for which call: the patch itself has to say.
        asked: dict[_Patch, str] = {}

        def word(operation: ApplyPatchOperation) -> Asker | None:
            call_id = asked.pop(_patch_of(operation), None)
            return self._word(operation.ctx_wrapper, "apply_patch", call_id)

        editor = PatchEditor(self._tools, word)

        async def needs_approval(
            context: RunContextWrapper[Any], operation: ApplyPatchOperation, call_id: str
        ) -> bool:
            question = await editor.rehearse(operation)
            if question is not None:
                _keep(asked, _patch_of(operation), call_id)
            return self._noted(call_id, question)

        return ApplyPatchTool(editor=editor, needs_approval=needs_approval)

    def question(self, interruption: ToolApprovalItem) -> Pending | None:
        """What is asked by an interruption of a run. None for one of another tool, or of a run
        that another process has begun: there its arguments have to do."""
        call_id = interruption.call_id
        return None if call_id is None else self._questions.get(call_id)

    def _function_tool(self, tool: Tool) -> FunctionTool:
        async def needs_approval(
            context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
        ) -> bool:
            return self._noted(call_id, await self._tools.rehearse(tool.name, arguments))

        async def invoke(context: ToolContext[Any], arguments: str) -> str:
            asker = self._word(context, tool.name, context.tool_call_id)
            return as_text(await self._tools.call(tool.name, arguments, asker=asker))

        return FunctionTool(
            name=tool.name, description=tool.description, params_json_schema=tool.input_schema,
            on_invoke_tool=invoke, strict_json_schema=False, needs_approval=needs_approval,
        )  # fmt: skip

    def _noted(self, call_id: str, question: Pending | None) -> bool:
        if question is not None:
            _keep(self._questions, call_id, question)
        return question is not None

    def _word(
        self, context: RunContextWrapper[Any] | None, name: str, call_id: str | None
    ) -> Asker | None:
        """The person's word, where the SDK says that they have given it for this very call."""
        if context is None or call_id is None or not context.is_tool_approved(name, call_id):
            return None
        question = self._questions.pop(call_id, None)
        return by_word(True, None if question is None else question.binding)


def function_tools(tools: Toolbox) -> list[Any]:
    """The tools of a workspace for an `Agent`, where nobody needs to see the questions."""
    return AgentTools(tools).function_tools


_Patch = tuple[str, str, str | None, str | None]


def _patch_of(operation: ApplyPatchOperation) -> _Patch:
    return operation.type, operation.path, operation.diff, operation.move_to


def _keep(kept: dict[Key, Kept], key: Key, value: Kept) -> None:
    """Remember one more, and forget the oldest where there are too many."""
    while len(kept) >= _QUESTIONS_MAX:
        del kept[next(iter(kept))]
    kept[key] = value


class PatchEditor:
    """Applies the patches of ``apply_patch``: each of them whole, and only onto the text that was
    read for it. A patch that also moves the file is two changes, one after the other."""

    def __init__(
        self, tools: Toolbox, word: Callable[[ApplyPatchOperation], Asker | None] | None = None
    ) -> None:
        """``word`` finds what a person has said about a patch."""
        self._tools = tools
        self._word = word

    async def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self._apply(operation)

    async def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self._apply(operation)

    async def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self._apply(operation)

    async def rehearse(self, operation: ApplyPatchOperation) -> Pending | None:
        """Whether a patch would ask a person."""
        try:
            return await self._tools.actor.rehearse("apply_patch", self._work(operation))
        except BailiwickError:
            return None

    async def _apply(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        asker = None if self._word is None else self._word(operation)

        async def run() -> dict[str, Any]:
            work = self._work(operation)
            return {"ok": True, "done": await self._tools.actor.run(work, asker=asker)}

        answer = await self._tools.answered(run)
        if answer["ok"]:
            return ApplyPatchResult(status="completed", output=answer["done"])
        return ApplyPatchResult(status="failed", output=as_text(answer))

    def _work(self, operation: ApplyPatchOperation) -> Callable[[Scope], Coroutine[Any, Any, str]]:
        tools, path = self._tools, operation.path

        async def create(scope: Scope) -> str:
            tools.require("write_file")
            text = _patched("", operation, creates=True)
            await scope.write_text(path, text, mode="create", parents=True)
            return f"created {path}"

        async def update(scope: Scope) -> str:
            tools.require("edit_file")
            if operation.move_to is not None:
                tools.require("move")
            before = await whole_text(scope, path)
            text = _patched(before.text, operation, creates=False)
            await scope.write_text(path, text, expected_sha256=before.sha256)
            if operation.move_to is None or operation.move_to == path:
                return f"updated {path}"
            await scope.move(path, operation.move_to)
            return f"updated {path}, now {operation.move_to}"

        async def delete(scope: Scope) -> str:
            tools.require("rm")
            await scope.remove(path)
            return f"deleted {path}"

        return {"create_file": create, "update_file": update, "delete_file": delete}[operation.type]


def _patched(text: str, operation: ApplyPatchOperation, *, creates: bool) -> str:
    try:
        return apply_diff(text, operation.diff or "", "create" if creates else "default")
    except ValueError:
        # Its words quote the file, which is not for an error to tell.
        raise ParseError(
            "the patch does not fit the file", hint="read the file and make the patch anew"
        ) from None
