"""An agent that does what its prompt says: file calls, as a list in JSON. Built on the real SDK.

    [["read", path, {"line": 1, "limit": 2}], ["write", path, "text"], ["permission"], …]

What came of each is sent back as a message of the agent, as JSON too.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys

import acp
from acp.schema import AgentCapabilities, PermissionOption, ToolCallUpdate


class ScriptedAgent(acp.Agent):
    def __init__(self):
        self.client = None
        self.told = None
        self.last = None

    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, client_capabilities=None, **more):
        self.told = client_capabilities
        return acp.InitializeResponse(
            protocol_version=protocol_version, agent_capabilities=AgentCapabilities()
        )

    async def new_session(self, cwd, mcp_servers=None, **more):
        return acp.NewSessionResponse(session_id="s1")

    async def cancel(self, session_id, **more):
        pass

    async def prompt(self, prompt, session_id, **more):
        script = json.loads(prompt[0].text)
        results = [await self._attempt(session_id, *step) for step in script]
        await self.client.session_update(
            session_id, acp.update_agent_message_text(json.dumps(results))
        )
        return acp.PromptResponse(stop_reason="end_turn")

    async def _attempt(self, session, what, *given):
        try:
            return {"ok": await getattr(self, f"_{what}")(session, *given)}
        except acp.RequestError as error:
            return {"code": error.code, "message": str(error), "data": error.data}

    async def _read(self, session, path, window=None):
        got = await self.client.read_text_file(path=path, session_id=session, **(window or {}))
        return got.content

    async def _write(self, session, path, text, meta=None):
        done = await self.client.write_text_file(
            content=text, path=path, session_id=session, **(meta or {})
        )
        return None if meta is None else done.field_meta

    async def _write_long(self, session, path, text, count, meta=None):
        """A text that is too long to be written into a prompt."""
        return await self._write(session, path, text * count, meta)

    async def _extension(self, session, method, params):
        return await self.client.ext_method(method, {"sessionId": session, **params})

    async def _write_many(self, session, path, count):
        """All at once: floods of calls."""
        calls = (self._attempt(session, "write", f"{path}{number}", "x") for number in range(count))
        return await asyncio.gather(*calls)

    async def _terminal(self, session, command, more=None):
        """A command, to its end: what it printed and how it ended, released."""
        made = await self._start(session, command, more)
        ended = await self._wait(session, made)
        told = await self._output(session, made)
        await self._release(session, made)
        return {**told, **ended}

    async def _start(self, session, command, more=None):
        made = await self.client.create_terminal(
            session_id=session, command=command, **(more or {})
        )
        self.last = made.terminal_id
        return made.terminal_id

    async def _wait(self, session, terminal=None):
        ended = await self.client.wait_for_terminal_exit(
            session_id=session, terminal_id=terminal or self.last
        )
        return {"code": ended.exit_code, "signal": ended.signal}

    async def _output(self, session, terminal=None):
        told = await self.client.terminal_output(
            session_id=session, terminal_id=terminal or self.last
        )
        return {"output": told.output, "truncated": told.truncated, "ended": bool(told.exit_status)}

    async def _kill(self, session):
        await self.client.kill_terminal(session_id=session, terminal_id=self.last)

    async def _release(self, session, terminal=None):
        await self.client.release_terminal(session_id=session, terminal_id=terminal or self.last)

    async def _until(self, session, text):
        """Look at the last terminal until it has printed that."""
        while text not in (await self._output(session))["output"]:
            pass

    async def _capabilities(self, session):
        return self.told.model_dump(by_alias=True)

    async def _permission(self, session):
        """The agent's own question, which is none of the proxy's business."""
        answer = await self.client.request_permission(
            options=[PermissionOption(option_id="mine", name="Mine", kind="allow_once")],
            session_id=session,
            tool_call=ToolCallUpdate(tool_call_id="t1", title="the agent's own"),
        )
        return answer.outcome.model_dump(by_alias=True)

    async def _raw(self, session, text):
        """A line as it stands, which no SDK would send."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    async def _spawn(self, session):
        """A child that outlives whoever does not look for it."""
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        return child.pid

    async def _crash(self, session):
        os.kill(os.getpid(), signal.SIGKILL)

    async def _leave(self, session, code):
        os._exit(code)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(ScriptedAgent()))
