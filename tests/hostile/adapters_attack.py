"""The live attacker of `attack`, against each way a model's calls come in: the adapters, called as
their providers and frameworks call them, and MCP over HTTP.

What the adapters share is attacked by `tools_attack`; here it is seen that none of them reaches for
a file by itself. The control is the reference server, in the same run.
"""

import asyncio
import contextlib
import itertools
import json
import math
import os
import tempfile
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import httpx2
from agents.tool_context import ToolContext
from anthropic.lib.tools import ToolError
from pydantic_ai import RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

import bailiwick
from bailiwick.build.governed import Authority
from bailiwick.errors import KINDS
from bailiwick.fronts.mcp.addresses import TEMPLATE
from bailiwick.fronts.tools.anthropic import run_calls, runnable_tools
from bailiwick.fronts.tools.langchain import langchain_tools
from bailiwick.fronts.tools.openai import run_responses
from bailiwick.fronts.tools.openai_agents import AgentTools
from bailiwick.fronts.tools.pydantic_ai import BailiwickToolset
from bailiwick.grant import AgentRun
from tests.fronts.mcp.clients import ENVELOPE, served, token_for
from tests.fronts.trust import trusted
from tests.hostile import claude_workspaces
from tests.hostile.attack import FAMILIES, Family, Ground, attacked, run_cell
from tests.hostile.controls import run_control
from tests.hostile.corpus import CONTAINMENTS
from tests.hostile.mcp_attack import CONFIG
from tests.hostile.tools_attack import TryTools, told

TEN = (
    "read_file", "write_file", "edit_file", "ls", "glob", "grep", "stat", "mkdir", "rm", "move",
)  # fmt: skip


class TryAdapter(TryTools):
    """The ten tools, as one adapter has them called."""

    calls: ClassVar[tuple[str, ...]] = TEN

    @contextlib.asynccontextmanager
    async def ready(self, root: str, containment: str) -> AsyncIterator[None]:
        yield

    async def call(self, operation: str, **given: Any) -> Any:
        text = await self.through(f"workspace__w__{operation}", given)
        if text.startswith("{"):  # a refusal, or a change: what was looked at is told as text
            told(json.loads(text))
        return text

    async def through(self, name: str, given: dict[str, Any]) -> str:
        """The answer of a tool, as the model is sent it."""
        raise NotImplementedError


class TryOpenAI(TryAdapter):
    async def through(self, name: str, given: dict[str, Any]) -> str:
        call = {"type": "function_call", "call_id": "c", "name": name,
                "arguments": json.dumps(given)}  # fmt: skip
        return (await run_responses(self.box, [call])).outputs[0]["output"]


class TryAnthropic(TryAdapter):
    async def through(self, name: str, given: dict[str, Any]) -> str:
        message = {"content": [{"type": "tool_use", "id": "t", "name": name, "input": given}]}
        return (await run_calls(self.box, message)).outputs[0]["content"]


class TryAnthropicRunner(TryAdapter):
    """The tools of the SDK's own tool runner."""

    @contextlib.asynccontextmanager
    async def ready(self, root: str, containment: str) -> AsyncIterator[None]:
        self.kit = {tool.name: tool for tool in runnable_tools(self.box)}
        yield

    async def through(self, name: str, given: dict[str, Any]) -> str:
        try:
            return await self.kit[name].call(given)
        except ToolError as error:
            return error.content


class TryAgents(TryAdapter):
    @contextlib.asynccontextmanager
    async def ready(self, root: str, containment: str) -> AsyncIterator[None]:
        self.kit = {tool.name: tool for tool in AgentTools(self.box).function_tools}
        yield

    async def through(self, name: str, given: dict[str, Any]) -> str:
        tool, arguments = self.kit[name], json.dumps(given)
        # The SDK finds out first whether to ask: that is a look at the tree too.
        await tool.needs_approval(None, given, "c")
        context = ToolContext(None, tool_name=name, tool_call_id="c", tool_arguments=arguments)
        return await tool.on_invoke_tool(context, arguments)


class TryLangChain(TryAdapter):
    @contextlib.asynccontextmanager
    async def ready(self, root: str, containment: str) -> AsyncIterator[None]:
        self.kit = {tool.name: tool for tool in langchain_tools(self.box)}
        yield

    async def through(self, name: str, given: dict[str, Any]) -> str:
        return await self.kit[name].ainvoke(given)


class TryPydanticAI(TryAdapter):
    @contextlib.asynccontextmanager
    async def ready(self, root: str, containment: str) -> AsyncIterator[None]:
        self.toolset = BailiwickToolset(self.box)
        self.context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        self.kit = await self.toolset.get_tools(self.context)
        yield

    async def through(self, name: str, given: dict[str, Any]) -> str:
        return json.dumps(await self.toolset.call_tool(name, given, self.context, self.kit[name]))


class TryClaude(TryAdapter):
    @contextlib.asynccontextmanager
    async def ready(self, root: str, containment: str) -> AsyncIterator[None]:
        self.session = claude_workspaces.workspace(self.box)
        yield

    async def through(self, name: str, given: dict[str, Any]) -> str:
        # The session finds out first whether to ask: that is a look at the tree too.
        assert await claude_workspaces.is_allowed(self.session, name, given)
        return await claude_workspaces.called(self.session, name, given)


class TryMcpOverHttp(TryAdapter):
    """The tools, the resources and the completions of `/mcp`."""

    calls = (*TEN, "read_resource", "read_directory", "complete")

    @contextlib.asynccontextmanager
    async def ready(self, root: str, containment: str) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory() as place:
            config = os.path.join(place, "bailiwick.toml")
            with open(config, "w") as file:
                file.write(CONFIG.format(root=root, containment=CONTAINMENTS[containment]))
            async with Authority.from_config(config) as authority:
                secret = await token_for(authority, AgentRun("test", "1"))
                headers = {
                    "authorization": f"Bearer {secret}", "mcp-protocol-version": "2026-07-28",
                    "accept": "application/json, text/event-stream",
                }  # fmt: skip
                async with (
                    served(authority) as self.url,
                    httpx2.AsyncClient(headers=headers, timeout=120, verify=trusted()) as self.http,
                ):
                    yield

    async def request(self, method: str, about: str | None, /, **params: Any) -> dict[str, Any]:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method,
                 "params": {**params, "_meta": ENVELOPE}}  # fmt: skip
        headers = {"mcp-method": method, **({} if about is None else {"mcp-name": about})}
        answer = await self.http.post(f"{self.url}/mcp", json=asked, headers=headers)
        text = answer.text
        if "data: " in text:
            text = text.partition("data: ")[2].splitlines()[0]
        said: dict[str, Any] = json.loads(text)
        if "error" in said:
            raise KINDS[said["error"]["data"]["errorKind"]](said["error"]["message"])
        return said["result"]

    async def call(self, operation: str, **given: Any) -> Any:
        result = await self.request("tools/call", operation, name=operation, arguments=given)
        if result["isError"]:
            told(json.loads(result["content"][0]["text"]))
        return json.dumps(result)

    async def read_resource(self) -> Any:
        return await self._read(self.at("f"))

    async def read_directory(self) -> Any:
        return await self._read(self.where)

    async def _read(self, path: str) -> Any:
        uri = f"bailiwick:///w/{path}"
        return json.dumps(await self.request("resources/read", uri, uri=uri))

    async def complete(self) -> Any:
        ref = {"type": "ref/resource", "uri": TEMPLATE}
        argument = {"name": "path", "value": f"{self.where}/"}
        found = await self.request("completion/complete", None, ref=ref, argument=argument)
        if not found["completion"]["values"]:
            raise KINDS["path_not_found"]("there is nothing to complete")
        return json.dumps(found)


FRONTS: dict[str, type[TryAdapter]] = {
    "openai": TryOpenAI,
    "openai agents": TryAgents,
    "anthropic": TryAnthropic,
    "anthropic runner": TryAnthropicRunner,
    "langchain": TryLangChain,
    "pydantic-ai": TryPydanticAI,
    "claude agent": TryClaude,
    "mcp over http": TryMcpOverHttp,
}


def run(front: str, tries: int, reference: str | None) -> dict[str, Any]:
    """Spread ``tries`` over calls, families and containments; called behind the wall."""
    ground, trying = Ground(), FRONTS[front]
    each = math.ceil(tries / (len(trying.calls) * len(FAMILIES) * len(CONTAINMENTS)))
    control = run_control(ground, reference)
    cells: list[tuple[str, Any]] = []
    for family, containment in itertools.product(FAMILIES, CONTAINMENTS):
        cells += asyncio.run(_run_family(trying, family, containment, each, ground))
    return {
        "tries": sum(cell.tries for _, cell in cells),
        "escapes": sum(cell.escapes for _, cell in cells),
        "notes": [f"{name}: {note}" for name, cell in cells for note in cell.notes],
        "inside": {name: sum(c.inside for n, c in cells if n == name) for name in trying.calls},
        "refused": sum(cell.refused for _, cell in cells),
        "internal": sum(cell.kinds.get("internal_error", 0) for _, cell in cells),
        "control": control,
    }


async def _run_family(
    trying: type[TryAdapter], family: Family, containment: str, tries: int, ground: Ground
) -> list[tuple[str, Any]]:
    options = {"containment": CONTAINMENTS[containment], "durability": "rename"}
    cells = []
    async with bailiwick.open(ground.root, **options) as fs:
        attempt = trying(fs, family, ground)
        try:
            async with attempt.ready(ground.root, containment):
                with attacked(family, ground):
                    for name in trying.calls:
                        cells.append((name, await run_cell(getattr(attempt, name), tries, ground)))
                        attempt.tidy()
        finally:
            attempt.close()
    return cells
