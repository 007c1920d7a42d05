"""The OpenAI Agents SDK: function tools that pause by its own ``needs_approval``, an editor for its
``apply_patch`` tool, and an executor for its ``shell`` tool.

The SDK wants to know whether a call needs approval before it makes the call. It is rehearsed for
that: everything is looked up and judged, nothing is done. When the person has agreed, the call is
made with their word, for what they were shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from bailiwick.approvals import Answer, Approval, Asker
from bailiwick.commands import ExecResult
from bailiwick.errors import BailiwickError, ParseError
from bailiwick.fronts.tools.extras import extra
from bailiwick.scope import Scope
from bailiwick.toolbox import Pending, Tool, Toolbox, by_word, images_of, text_of
from bailiwick.toolbox.approval import SpeaksOfOne, binding_of
from bailiwick.toolbox.arguments import CommandArguments, read
from bailiwick.toolbox.command_tool import in_words, run_to_its_end
from bailiwick.toolbox.hints import Advice
from bailiwick.toolbox.patch import PatchPart, apply, rehearse

with extra("openai"):
    from agents import (
        ApplyPatchTool,
        FunctionTool,
        RunContextWrapper,
        ShellActionRequest,
        ShellCallOutcome,
        ShellCommandOutput,
        ShellCommandRequest,
        ShellResult,
        ShellTool,
        ToolOutputImage,
        ToolOutputText,
        apply_diff,
    )
    from agents.editor import ApplyPatchOperation, ApplyPatchResult
    from agents.items import ToolApprovalItem
    from agents.tool_context import ToolContext

Key = TypeVar("Key")
Kept = TypeVar("Kept")

_NO_CALL = ""
"""No call has this id: what is approved for it is approved for every call."""

_SHELL = "shell"

NOT_RUN = 126
"""What a shell says of a command that it may not run."""

_BESIDE_OUTPUT = 1_000
"""What stands beside the output of a command, in characters: two pairs of tags, and notes."""

_QUESTIONS_MAX = 1_000
"""Questions that are remembered for whoever shows them: those of calls under way, and some more."""


class AgentTools:
    """The tools of a workspace for an `Agent`: ``Agent(tools=AgentTools(tools).function_tools)``.

    A run that meets a rule which asks is interrupted; `question` says what to put before the
    person, and ``state.approve`` or ``state.reject`` answers it as for any other tool.

    For a run that another process has begun, ``agreed`` holds what the person agreed to there: for
    each call its question's ``binding``, or those of its questions. The state of a run says of a
    call that it was approved, but not what was shown; and whoever reaches a stored state can change
    both. So an approval of something that was neither shown here nor is in ``agreed`` does not
    count.
    """

    def __init__(
        self, tools: Toolbox, *, agreed: Mapping[str, str | Sequence[str]] | None = None
    ) -> None:
        self._tools = tools
        self._agreed = {
            call_id: (given,) if isinstance(given, str) else tuple(given)
            for call_id, given in (agreed or {}).items()
        }
        self._asked_about: set[str] = set()
        self._questions: dict[str, tuple[Pending, ...]] = {}
        self.function_tools: list[Any] = [self._function_tool(tool) for tool in tools.tools]

    def apply_patch_tool(self) -> ApplyPatchTool:
        """The SDK's ``apply_patch`` tool, on this workspace."""
        # The SDK tells an editor what to do, but not for which call: the patch itself has to say.
        asked: dict[_Patch, str] = {}

        def word(operation: ApplyPatchOperation) -> Asker | None:
            call_id = asked.pop(_patch_of(operation), None)
            if call_id is None:
                return self._word_from_elsewhere(operation.ctx_wrapper, "apply_patch")
            return self.word(operation.ctx_wrapper, "apply_patch", call_id)

        editor = PatchEditor(self._tools, word)

        async def needs_approval(
            context: RunContextWrapper[Any], operation: ApplyPatchOperation, call_id: str
        ) -> bool:
            question = await editor.rehearse(operation)
            if question is not None:
                _keep(asked, _patch_of(operation), call_id)
            return self.noted("apply_patch", call_id, question)

        return ApplyPatchTool(editor=editor, needs_approval=needs_approval)

    def shell_tool(self) -> ShellTool:
        """The SDK's ``shell`` tool: each command is run in a sandbox, and what it changed is
        brought back when it has ended. The tools must offer `run_command`."""
        self._tools.require("run_command")
        tool = self._tools.tool_name("run_command")

        async def needs_approval(
            context: RunContextWrapper[Any], action: ShellActionRequest, call_id: str
        ) -> bool:
            asked = [await self._tools.rehearse(tool, each) for each in _commands(action)]
            return self.noted(_SHELL, call_id, *asked)

        async def execute(request: ShellCommandRequest) -> ShellResult:
            call = request.data
            asker = self.word(request.ctx_wrapper, _SHELL, call.call_id)
            most = _output_max(self._tools, call.action)
            ran = [await self._ran(each, asker, most) for each in _commands(call.action)]
            return ShellResult(output=ran)

        return ShellTool(executor=execute, needs_approval=needs_approval)

    async def _ran(
        self, given: dict[str, Any], asker: Asker | None, bytes_max: int
    ) -> ShellCommandOutput:
        async def run() -> ShellCommandOutput:
            asked = read(CommandArguments, given)
            assert isinstance(asked, CommandArguments)

            async def work(scope: Scope) -> ShellCommandOutput:
                printed, result = await run_to_its_end(scope, asked, bytes_max)
                text = in_words(self._tools.bench(scope, "run_command"), printed, result)
                return ShellCommandOutput(text, "", _outcome(result), asked.command)

            return await self._tools.actor.run(work, asker=asker)

        answer = await self._tools.answered(run)
        if isinstance(answer, ShellCommandOutput):
            return answer
        refused = ShellCallOutcome("exit", NOT_RUN)
        return ShellCommandOutput("", text_of(answer), refused, given["command"])

    def question(self, interruption: ToolApprovalItem) -> Pending | None:
        """What is asked by an interruption of a run. None for one of another tool, or of a run
        that another process has begun: there its arguments have to do. None also where several
        things are asked, which are to be seen together: `questions`."""
        asked = self.questions(interruption)
        return asked[0] if len(asked) == 1 else None

    def questions(self, interruption: ToolApprovalItem) -> tuple[Pending, ...]:
        """All that is asked by an interruption of a run: of a call of the shell tool, each of its
        commands that has to be agreed to."""
        call_id = interruption.call_id
        return () if call_id is None else self._questions.get(call_id, ())

    def _function_tool(self, tool: Tool) -> FunctionTool:
        async def needs_approval(
            context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
        ) -> bool:
            question = await self._tools.rehearse(tool.name, arguments)
            return self.noted(tool.name, call_id, question)

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            asker = self.word(context, tool.name, context.tool_call_id)
            answer = await self._tools.call(tool.name, arguments, asker=asker)
            text, images = text_of(answer), images_of(answer)
            if not images:
                return text
            shown = [ToolOutputImage(image_url=each.data_url) for each in images]
            return [ToolOutputText(text=text), *shown]

        return FunctionTool(
            name=tool.name, description=tool.description, params_json_schema=tool.input_schema,
            on_invoke_tool=invoke, strict_json_schema=False, needs_approval=needs_approval,
        )  # fmt: skip

    def noted(self, name: str, call_id: str, *asked: Pending | None) -> bool:
        """Keep what a call asks for whoever shows it; whether it asks anything."""
        questions = tuple(each for each in asked if each is not None)
        if questions:
            _keep(self._questions, call_id, questions)
            self._asked_about.add(name)
        return bool(questions)

    def word(
        self, context: RunContextWrapper[Any] | None, name: str, call_id: str | None
    ) -> Asker | None:
        """The person's word, where the SDK says that they have given it for this very call."""
        if context is None or call_id is None or not context.is_tool_approved(name, call_id):
            return None
        questions = self._questions.pop(call_id, None)
        if questions is not None:
            return _AgreedTo(each.binding for each in questions)
        bindings = self._agreed.pop(call_id, None)
        if bindings is not None:
            return _AgreedTo(bindings)
        if name in self._asked_about and context.is_tool_approved(name, _NO_CALL):
            return by_word(True)  # approved for good, by who was asked about this tool here
        return None

    def _word_from_elsewhere(
        self, context: RunContextWrapper[Any] | None, name: str
    ) -> Asker | None:
        """The person's word for a call whose id is not known here: it is for what they were shown,
        so that it need not be known which of those it is."""
        if context is None:
            return None
        approved = [each for each in self._agreed if context.is_tool_approved(name, each)]

        async def answer(approval: Approval) -> Answer | None:
            asked = binding_of(approval.question)
            for call_id in approved:
                if asked in self._agreed.get(call_id, ()):
                    del self._agreed[call_id]  # a word counts once
                    return "once"
            return "no"

        return answer if approved else None


class _AgreedTo(SpeaksOfOne):
    """The word of a person who has agreed to what they were shown, once each."""

    def __init__(self, bindings: Iterable[str]) -> None:
        self._left = list(bindings)

    async def __call__(self, approval: Approval) -> Answer | None:
        asked = binding_of(approval.question)
        if asked not in self._left:
            return "no"
        self._left.remove(asked)
        return "once"


def _commands(action: ShellActionRequest) -> list[dict[str, Any]]:
    """What `run_command` is given for each command of a call."""
    seconds = {} if action.timeout_ms is None else {"timeout": action.timeout_ms / 1000}
    return [{"command": each, **seconds} for each in action.commands]


def _output_max(tools: Toolbox, action: ShellActionRequest) -> int:
    """How much of a command is told. The SDK cuts what is longer than a model asked for, and with
    it the end of the tags: so it is cut before."""
    most = tools.config.max_tool_result_bytes
    if action.max_output_length is None:
        return most
    room = action.max_output_length // len(action.commands) - _BESIDE_OUTPUT
    return max(min(most, room), 0)


def _outcome(result: ExecResult) -> ShellCallOutcome:
    if result.timed_out:
        return ShellCallOutcome("timeout")
    code = result.exit_code
    return ShellCallOutcome("exit", 128 + (result.signal or 0) if code is None else code)


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
    """Applies the patches of ``apply_patch``: each of them whole or not at all, and only onto the
    text that was read for it. See `bailiwick.toolbox.patch`."""

    def __init__(
        self, tools: Toolbox, word: Callable[[ApplyPatchOperation], Asker | None] | None = None
    ) -> None:
        """``word`` finds what a person has said about a patch."""
        self._tools = tools
        self._word = word

    async def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.apply([operation])

    async def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.apply([operation])

    async def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self.apply([operation])

    async def apply(self, operations: Sequence[ApplyPatchOperation]) -> ApplyPatchResult:
        """Apply a patch of several files: all of it, or nothing, where the store has transactions.
        The SDK asks for one operation at a time; this is for whoever reads whole patches."""
        words = (None if self._word is None else self._word(each) for each in operations)
        asker = next((word for word in words if word is not None), None)

        async def run() -> dict[str, Any]:
            parts = self._parts(operations)
            done = await self._tools.actor.run(lambda scope: apply(scope, parts), asker=asker)
            return {"ok": True, "done": "\n".join(done)}

        answer = await self._tools.answered(run)
        if answer["ok"]:
            return ApplyPatchResult(status="completed", output=answer["done"])
        return ApplyPatchResult(status="failed", output=text_of(answer))

    async def rehearse(self, *operations: ApplyPatchOperation) -> Pending | None:
        """Whether a patch would ask a person, and what."""
        try:
            parts = self._parts(operations)
        except BailiwickError:
            return None
        return await self._tools.actor.rehearse("apply_patch", lambda scope: rehearse(scope, parts))

    def _parts(self, operations: Sequence[ApplyPatchOperation]) -> list[PatchPart]:
        return [self._part(operation) for operation in operations]

    def _part(self, operation: ApplyPatchOperation) -> PatchPart:
        """What is asked for, where the configuration offers it."""
        kind, tool = _KINDS[operation.type]
        self._tools.require(tool)
        if operation.type == "update_file" and operation.move_to is not None:
            self._tools.require("move")
        creates = kind == "create"
        return PatchPart(
            kind, operation.path, lambda text: _patched(text, operation, creates=creates),
            move_to=operation.move_to if kind == "update" else None,
        )  # fmt: skip


_KINDS: dict[str, tuple[Literal["create", "update", "delete"], str]] = {
    "create_file": ("create", "write_file"),
    "update_file": ("update", "edit_file"),
    "delete_file": ("delete", "rm"),
}
"""What an operation of the SDK does, and the tool that a configuration offers for it."""


def _patched(text: str, operation: ApplyPatchOperation, *, creates: bool) -> str:
    try:
        return apply_diff(text, operation.diff or "", "create" if creates else "default")
    except ValueError:
        # Its words quote the file, which is not for an error to tell.
        raise ParseError(
            "the patch does not fit the file", hint=Advice("read the file and make the patch anew")
        ) from None
