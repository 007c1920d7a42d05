"""What is piped or typed into a command, chunk by chunk, without a thread that waits for it.

A thread that reads the input would wait there until the input ends, whatever happens meanwhile:
Ctrl-C would be heard and not obeyed. So the event loop watches the input, and nobody waits in a
read.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator

_CHUNK_BYTES = 256 * 1024


async def input_chunks() -> AsyncGenerator[bytes, None]:
    """The input as it comes, to its end."""
    fd = sys.stdin.fileno()
    if os.isatty(fd):
        sys.stderr.write("reading from the terminal: Ctrl-D ends it, Ctrl-C gives up\n")
    while True:
        await _readable(fd)
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


async def whole_input() -> bytes:
    return b"".join([chunk async for chunk in input_chunks()])


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:
        return  # a file, or nothing: there reading never waits for anyone
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
