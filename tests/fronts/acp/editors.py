"""An editor built on the real SDK, which starts the proxy as an editor starts an agent."""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import acp
from acp.schema import AllowedOutcome, DeniedOutcome

from tests.waiting import until

SCRIPT = Path(__file__).with_name("scripted_agent.py")
SCRIPTED_AGENT = (sys.executable, str(SCRIPT))


class Editor(acp.Client):
    """Answers every question as it was told, and notes all that reaches it. One that knows nothing
    of any extension."""

    capabilities = None
    ext_method = None

    def __init__(self, answer="allow_once"):
        self.answer = answer
        self.questions = []
        self.messages = []
        self.file_calls = []

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **more):
        self.messages.append(update)

    async def request_permission(self, options, session_id, tool_call, **more):
        self.questions.append((options, session_id, tool_call))
        if self.answer == "cancelled":
            return acp.RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        if self.answer is None:
            raise acp.RequestError.method_not_found("session/request_permission")
        chosen = next((o for o in options if o.kind == self.answer), options[0])
        return acp.RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def read_text_file(self, path, session_id, **more):
        """An editor's own file calls: through the proxy none of them is ever called."""
        self.file_calls.append(path)
        return acp.ReadTextFileResponse(content="of the editor itself")

    async def write_text_file(self, content, path, session_id, **more):
        self.file_calls.append(path)


class Desk:
    """An editor at work with an agent."""

    def __init__(self, editor, connection, process, session):
        self.editor = editor
        self.connection = connection
        self.process = process
        self.session = session

    async def run(self, *script):
        """Have the agent do something; what came of each step."""
        before = len(self.editor.messages)
        await self.connection.prompt(
            prompt=[acp.text_block(json.dumps(script))], session_id=self.session
        )
        await until(lambda: len(self.editor.messages) > before)
        return json.loads(self.editor.messages[-1].content.text)


def environment(tmp_path):
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state-of-user")}


async def start_proxy(tmp_path, *options, agent=SCRIPTED_AGENT, cwd=None):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bailiwick", "acp", *options, "--", *agent,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, limit=64 * 1024 * 1024, env=environment(tmp_path), cwd=cwd,
    )  # fmt: skip


@contextlib.asynccontextmanager
async def desk(tmp_path, *options, cwd, editor=None, agent=SCRIPTED_AGENT):
    """An editor that talks with the scripted agent through the proxy."""
    editor = editor or Editor()
    process = await start_proxy(tmp_path, *options, agent=agent)
    connection = acp.connect_to_agent(editor, process.stdin, process.stdout)
    try:
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await connection.new_session(cwd=str(cwd), mcp_servers=[])
        yield Desk(editor, connection, process, session.session_id)
    finally:
        await connection.close()
        process.stdin.close()
        said = await process.stderr.read()
        await process.wait()
        sys.stderr.write(said.decode())
