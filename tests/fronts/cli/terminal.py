"""A real terminal around the real command: a pseudo-terminal, and what a person saw on it."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from tests.fronts.cli.command import COMMAND, environment

SECONDS_MAX = 30


class Terminal:
    """One command on a terminal of 24 rows and 80 columns."""

    def __init__(self, *arguments, cwd, env=None, stdin_too=False, stdout_too=True):
        self.person, program = pty.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.child = subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            stdin=program if stdin_too else subprocess.DEVNULL,
            stdout=program if stdout_too else subprocess.PIPE,
            stderr=program, cwd=cwd, env=environment(**{"TERM": "xterm", **(env or {})}),
            start_new_session=True,
        )  # fmt: skip
        os.close(program)
        self.shown = b""
        self._until = time.monotonic() + SECONDS_MAX

    def wait_for(self, text):
        """Read until this was shown."""
        while text not in self.shown:
            assert self._read(), f"ended without {text!r}: {self.shown!r}"

    def _read(self):
        left = self._until - time.monotonic()
        ready, _, _ = select.select([self.person], [], [], max(0, left))
        assert ready, f"nothing more came: {self.shown!r}"
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            part = os.read(self.person, 65536)
            self.shown += part
            return bool(part)
        return False

    def poll(self, seconds):
        """Read what has come, or comes within so long."""
        assert time.monotonic() < self._until, f"nothing came: {self.shown!r}"
        if select.select([self.person], [], [], seconds)[0]:
            self._read()

    def type(self, text):
        os.write(self.person, text)

    def ended(self):
        """The exit code, once the command has ended; all that it wrote is in ``shown``."""
        while self._read():
            pass
        return self.child.wait(SECONDS_MAX)

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        if self.child.stdout is not None:
            self.child.stdout.close()
        os.close(self.person)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def shown_by(*arguments, **more):
    """All that a command shows on a terminal, and its exit code."""
    with Terminal(*arguments, **more) as terminal:
        code = terminal.ended()
        return terminal.shown.replace(b"\r\n", b"\n"), code
