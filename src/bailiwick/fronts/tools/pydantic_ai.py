"""A pydantic-ai toolset. A rule that asks raises the framework's own `ApprovalRequired`, so that
the run ends with `DeferredToolRequests` and goes on with the person's answer."""

from __future__ import annotations

from typing import Any

from bailiwick.fronts.tools.extras import extra
from bailiwick.toolbox import Pending, Toolbox, images_of, text_of

with extra("pydantic-ai"):
    from pydantic_ai import ApprovalRequired, BinaryContent, RunContext, ToolReturn
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.toolsets.abstract import ToolsetTool
    from pydantic_core import SchemaValidator, core_schema

_SHOWN_MAX = 1_000
"""Questions that are remembered as shown: those of calls under way, and some more."""

_ANYTHING = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
"""Arguments are checked where they are used, and what is wrong with them is an answer."""


class BailiwickToolset(AbstractToolset[Any]):
    """The tools of a workspace: ``Agent(model, toolsets=[BailiwickToolset(tools)])``.

    The metadata of a deferred call is the question to show; handed back in
    ``DeferredToolResults.metadata`` it binds the answer to what was shown. An approval without it
    counts for what this toolset has shown; in another process the question is put again.
    """

    def __init__(self, tools: Toolbox, *, id: str | None = None) -> None:
        self._tools = tools
        self._id = id or f"bailiwick-{tools.name}"
        self._shown: dict[str, str] = {}

    @property
    def id(self) -> str:
        return self._id

    async def get_instructions(self, ctx: RunContext[Any]) -> str:
        return self._tools.system_prompt

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, description=tool.description,
                    parameters_json_schema=tool.input_schema, sequential=not tool.parallel_safe,
                    metadata={
                        "readOnly": tool.read_only, "destructive": tool.destructive,
                        "idempotent": tool.idempotent,
                    },
                ),
                max_retries=1,
                args_validator=_ANYTHING,
            )
            for tool in self._tools.tools
        }  # fmt: skip

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        call_id = ctx.tool_call_id or ""
        if ctx.tool_call_approved:
            handed = ctx.tool_call_metadata
            binding = handed.get("binding") if isinstance(handed, dict) else None
            binding = binding or self._shown.pop(call_id, None)
            if isinstance(binding, str):
                return self._told(
                    await self._tools.resume(name, tool_args, allowed=True, binding=binding)
                )
        answer = await self._tools.attempt(name, tool_args)
        if isinstance(answer, Pending):
            self._remember(call_id, answer)
            raise ApprovalRequired(metadata=answer.shown())
        return self._told(answer)

    def _told(self, answer: dict[str, Any]) -> Any:
        """An answer as the framework takes it: a text, with pictures beside it, or with
        ``structured`` the object, which it writes out itself."""
        if self._tools.config.structured or answer.get("ok") is False:
            return answer
        text, images = text_of(answer), images_of(answer)
        if not images:
            return text
        shown = [BinaryContent(data=each.data, media_type=each.mime_type) for each in images]
        return ToolReturn(return_value=text, content=shown)

    def _remember(self, call_id: str, pending: Pending) -> None:
        while len(self._shown) >= _SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        self._shown[call_id] = pending.binding
