"""The agent's process: started with its own group, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from bailiwick.errors import BailiwickError, PathNotFound, escape_for_display, from_os_error

_STEP_SECONDS = 0.02
_STEPS = 100
"""How often it is looked whether all have gone: two seconds, in steps."""


class _Streams(asyncio.subprocess.SubprocessStreamProtocol):
    """Notices when the process itself has ended: the streams may go on, held open by a child of
    it, and asyncio's own process waits for both."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit, loop=asyncio.get_running_loop())
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()


class AgentProcess:
    """A running agent, and whatever it has started itself in its group."""

    def __init__(self, transport: asyncio.SubprocessTransport, streams: _Streams) -> None:
        self._transport = transport
        self._streams = streams
        self._pid = transport.get_pid()
        assert streams.stdout is not None
        assert streams.stdin is not None
        self.streams = streams.stdout, streams.stdin
        """What it says, and what it hears."""

    @classmethod
    async def start(cls, command: Sequence[str], stream_bytes: int) -> AgentProcess:
        """Start it. What it writes to its stderr is seen where ours is."""
        try:
            transport, streams = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Streams(stream_bytes), *command, stderr=None, start_new_session=True
            )
        except OSError as error:
            failed: BailiwickError = from_os_error(error)
            if isinstance(error, FileNotFoundError):
                failed = PathNotFound("there is no such program")
            failed.hint = f"the agent was to be started as {escape_for_display(command[0])}"
            raise failed from None
        return cls(transport, streams)

    def hang_up(self) -> None:
        """Tell it that nobody talks to it any more: its input ends."""
        self.streams[1].close()

    async def wait(self) -> int:
        await self._streams.ended.wait()
        code = self._transport.get_returncode()
        assert code is not None
        return code

    async def end(self) -> int:
        """End it and all in its group: asked first, then not. Its exit code."""
        self.hang_up()
        if self._signal(signal.SIGTERM):
            await self._gone()
            self._signal(signal.SIGKILL)
        code = await self.wait()
        self._transport.close()
        return code

    async def _gone(self) -> None:
        """Wait until nobody is left of it, but not for ever."""
        for _ in range(_STEPS):
            if not self._signal(0):
                break
            await asyncio.sleep(_STEP_SECONDS)

    def _signal(self, number: int) -> bool:
        """Whether there was somebody to get it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)
            return True
        return False


def ending_of(code: int) -> str:
    """How a process ended, for a person."""
    if code >= 0:
        return f"with exit code {code}"
    with suppress(ValueError):
        return f"by the signal {signal.Signals(-code).name}"
    return f"by the signal {-code}"
