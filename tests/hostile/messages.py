"""Length-prefixed pickles between the test process and the child behind the wall.

Both ends are this test-suite; nothing hostile writes to these pipes.
"""

import os
import pickle
import select
import struct
import time
from typing import Any

_LENGTH = struct.Struct("!I")


class Silence(Exception):
    """The other end said nothing in the time it had."""


class Gone(Exception):
    """The other end has closed the pipe."""


class Skip(Exception):
    """A case does not apply here, for the reason given. Here, since the module that answers for it
    is the program that runs, and not the one that a case imports."""


def send(fd: int, message: Any) -> None:
    body = pickle.dumps(message)
    view = memoryview(_LENGTH.pack(len(body)) + body)
    while view:
        view = view[os.write(fd, view) :]


def receive(fd: int, timeout_s: float | None = None) -> Any:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    (length,) = _LENGTH.unpack(_read_exactly(fd, _LENGTH.size, deadline))
    return pickle.loads(_read_exactly(fd, length, deadline))


def _read_exactly(fd: int, size: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while size:
        if deadline is not None:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([fd], [], [], left)[0]:
                raise Silence
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            raise Gone
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
