"""An editor of its own, on the Agent Client Protocol: its agent's files come from a scope.

Run it: ``python examples/acp_editor.py``. The agent follows a script; both ends run in this
program and talk over a pair of sockets, as they would over a process's standard streams.
"""

import asyncio
import socket
from typing import Any, cast

import acp
from acp.schema import AllowedOutcome

import bailiwick
from bailiwick.acp import FileSystemAdapter


class Editor:
    """Shows what the agent says, and asks its person where a rule wants that."""

    def __init__(self, fs: bailiwick.Scope) -> None:
        files = FileSystemAdapter(fs, request_permission=self.request_permission)
        self.read_text_file = files.read_text_file
        self.write_text_file = files.write_text_file

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        print(f"agent: {update.content.text}")

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **more: Any
    ) -> acp.RequestPermissionResponse:
        print(f"may it {tool_call.title}? the person says: this once")
        return acp.RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id="allow_once")
        )

    def on_connect(self, conn: acp.Agent) -> None:
        """The agent is there; this editor has nothing to keep of it."""


class Agent:
    """Does three things with files, and says what came of them."""

    def on_connect(self, conn: acp.Client) -> None:
        self.editor = conn

    async def prompt(self, prompt: Any, session_id: str, **more: Any) -> acp.PromptResponse:
        await self.editor.write_text_file(session_id, "/notes/today.md", "# Today\n")
        for path in ("/notes/today.md", "/.env", "/../secrets"):
            try:
                got = (await self.editor.read_text_file(session_id, path)).content.strip()
            except acp.RequestError as error:
                got = f"refused, {error.data['errorKind']}"  # type: ignore[index]
            said = acp.update_agent_message_text(f"{path}: {got}")
            await self.editor.session_update(session_id, said)
        return acp.PromptResponse(stop_reason="end_turn")


async def main() -> None:
    ours, theirs = socket.socketpair()
    near_reader, near_writer = await asyncio.open_connection(sock=ours)
    far_reader, far_writer = await asyncio.open_connection(sock=theirs)
    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".env", "KEY=value\n")
        agent = asyncio.create_task(acp.run_agent(cast(acp.Agent, Agent()), far_writer, far_reader))
        editor = acp.connect_to_agent(cast(acp.Client, Editor(fs)), near_writer, near_reader)
        await editor.prompt(session_id="s1", prompt=[acp.text_block("begin")])
        await editor.close()
        near_writer.close()
        await agent
    far_writer.close()
    await far_writer.wait_closed()


if __name__ == "__main__":
    asyncio.run(main())
