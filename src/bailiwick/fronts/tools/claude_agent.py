"""The Claude Agent SDK: a workspace as a server in this process, its own file and shell tools
switched off, and its permission callback for the questions of rules.

    workspace = ClaudeWorkspace(tools, ask=ask)
    async with ClaudeSDKClient(workspace.options()) as client: ...

The SDK runs Claude Code, whose own tools read and write the machine, past every grant. So they are
switched off by name, and a hook refuses each call of a tool that is neither of the workspace nor
named by the application: what a later release adds is refused too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from bailiwick.errors import ParseError
from bailiwick.fronts.tools.extras import extra
from bailiwick.toolbox import Pending, Tool, Toolbox, images_of, text_of
from bailiwick.toolbox.box import call_key

with extra("claude-agent"):
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        HookMatcher,
        McpSdkServerConfig,
        McpToolAnnotations,
        PermissionResultAllow,
        PermissionResultDeny,
        SdkMcpTool,
        ToolPermissionContext,
        create_sdk_mcp_server,
    )

Ask = Callable[[Pending], Awaitable[bool]]
"""Puts a question to a person; whether they agree."""

BUILT_IN: Final = (
    "Agent", "Bash", "BashOutput", "Edit", "Glob", "Grep", "KillShell", "LS", "Monitor",
    "MultiEdit", "NotebookEdit", "NotebookRead", "PowerShell", "Read", "REPL", "Task", "Write",
)  # fmt: skip
"""Tools of Claude Code that reach files or programs of the machine, or start agents that would."""

_AGREED_MAX: Final = 1_000
"""Calls that were agreed to and not made yet: those under way, and some more."""


class ClaudeWorkspace:
    """The tools of a workspace for one session of the SDK.

    ``ask`` is called for each call that a rule wants a person asked about; what they agreed to is
    what is done, or nothing. Without it such a call is refused. ``also`` names other tools that the
    session may use, such as ``WebSearch``, or those of another server.
    """

    def __init__(
        self,
        tools: Toolbox,
        *,
        ask: Ask | None = None,
        name: str = "workspace",
        also: Collection[str] = (),
    ) -> None:
        wrong = sorted(set(also) & set(BUILT_IN))
        if wrong:
            raise ParseError(f"{wrong[0]} would go round the workspace", hint="leave it out")
        self._tools = tools
        self._ask = ask
        self._name = name
        self._also = frozenset(also)
        self._own = {f"mcp__{name}__{tool.name}": tool for tool in tools.tools}
        self._agreed: dict[tuple[str, bytes], list[str]] = {}

    @property
    def server(self) -> McpSdkServerConfig:
        """The tools as a server in this process."""
        made = [self._sdk_tool(tool) for tool in self._tools.tools]
        return create_sdk_mcp_server(self._name, tools=made)

    def options(self, **more: Any) -> ClaudeAgentOptions:
        """Options for the SDK, and ``more`` of its own. Those that would go round the workspace
        are refused: they are set here."""
        for given in ("tools", "can_use_tool", "permission_mode", "setting_sources", "settings"):
            if given in more:
                raise ParseError(f"{given} is set by the workspace", hint="leave it out")
        hooks = {event: list(some) for event, some in (more.pop("hooks", None) or {}).items()}
        # Ours comes first, and each can only refuse.
        hooks["PreToolUse"] = [
            HookMatcher(hooks=[self.refuse_others]),
            *hooks.get("PreToolUse", ()),
        ]
        servers = {**more.pop("mcp_servers", {}), self._name: self.server}
        off = [*more.pop("disallowed_tools", ()), *BUILT_IN]
        more.setdefault("system_prompt", self._tools.system_prompt)
        return ClaudeAgentOptions(
            tools=[each for each in sorted(self._also) if not each.startswith("mcp__")],
            mcp_servers=servers, strict_mcp_config=True, disallowed_tools=off,
            can_use_tool=self.can_use_tool, hooks=hooks, setting_sources=[], **more,
        )  # fmt: skip

    async def can_use_tool(
        self, name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """The SDK's permission callback: a call that asks nobody is allowed, any other is what the
        person says. What grants and rules forbid is refused by the call itself."""
        tool = self._own.get(name)
        if tool is None:
            if name in self._also:
                return PermissionResultAllow()
            return PermissionResultDeny(message=_GOES_ROUND)
        pending = await self._tools.rehearse(tool.name, given)
        if pending is None:
            return PermissionResultAllow()
        if self._ask is None or not await self._ask(pending):
            return PermissionResultDeny(message="the person did not agree")
        while len(self._agreed) >= _AGREED_MAX:
            del self._agreed[next(iter(self._agreed))]
        self._agreed.setdefault(call_key(tool.name, given), []).append(pending.binding)
        return PermissionResultAllow()

    async def refuse_others(self, event: Any, call_id: str | None, context: Any) -> Any:
        """A hook before each call: what is not of this workspace, nor named, is refused."""
        name = event["tool_name"]
        if name in self._own or name in self._also:
            return {}
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "deny",
                "permissionDecisionReason": _GOES_ROUND,
            },
        }  # fmt: skip

    def _sdk_tool(self, tool: Tool) -> SdkMcpTool[Any]:
        async def run(given: dict[str, Any]) -> dict[str, Any]:
            answer = await self._answer(tool, given)
            content: list[dict[str, Any]] = [{"type": "text", "text": text_of(answer)}]
            content += [
                {"type": "image", "data": each.base64, "mimeType": each.mime_type}
                for each in images_of(answer)
            ]
            return {"content": content, "is_error": answer.get("ok") is False}

        marks = McpToolAnnotations(
            readOnlyHint=tool.read_only, destructiveHint=tool.destructive,
            idempotentHint=tool.idempotent, openWorldHint=False,
        )  # fmt: skip
        return SdkMcpTool(tool.name, tool.description, tool.input_schema, run, marks)

    async def _answer(self, tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
        key = call_key(tool.name, given)
        agreed = self._agreed.get(key)
        if agreed:
            binding = agreed.pop(0)
            if not agreed:
                del self._agreed[key]
            return await self._tools.resume(tool.name, given, allowed=True, binding=binding)
        answer = await self._tools.attempt(tool.name, given)
        return answer.answer() if isinstance(answer, Pending) else answer


_GOES_ROUND: Final = "this would go round the workspace: use its tools"
