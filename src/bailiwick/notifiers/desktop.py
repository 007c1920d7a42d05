"""A notification of the desktop, by the program ``notify-send`` where there is one.

What an agent named is shown by it, so it is passed as an argument of its own after ``--``, never by
a shell, without anything that a desktop would take for markup.
"""

from __future__ import annotations

import html
import logging
import os
import stat
import subprocess
from collections.abc import Collection
from typing import Final

from bailiwick.approvals import Approval
from bailiwick.errors import escape_for_display
from bailiwick.finishing import in_thread

_log = logging.getLogger("bailiwick.notifiers")

PROGRAM: Final = "notify-send"

SECONDS_MAX: Final = 5.0
"""How long the program may take: it hands a message to a desktop that is there or not."""

_TEXT_MAX: Final = 200
"""Characters of each text: what a desktop shows."""

_ENVIRONMENT: Final = (
    "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "HOME", "LANG", "LC_ALL", "PATH", "WAYLAND_DISPLAY",
    "XAUTHORITY", "XDG_RUNTIME_DIR",
)  # fmt: skip
"""What it needs to find the desktop. Tokens stay here."""


class Desktop:
    """Shows questions on the desktop. ``within`` are the directories that agents may write in, now
    and later: a program that lies there is not run."""

    def __init__(self, within: Collection[str]) -> None:
        self._within = within

    async def __call__(self, approval: Approval) -> None:
        await in_thread(self._show_blocking, approval)

    def _show_blocking(self, approval: Approval) -> None:
        program = find_program(self._within)
        if program is None:
            return
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        try:
            done = subprocess.run(
                [program, "--app-name=Bailiwick", "--", *texts_of(approval)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=SECONDS_MAX, env=kept, cwd="/", start_new_session=True, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            _log.info("the desktop was not told of a question", exc_info=error)
        else:
            if done.returncode:
                _log.info("the desktop was not told of a question: %d", done.returncode)


def texts_of(approval: Approval) -> tuple[bytes, bytes]:
    """The head and the body of a notification."""
    question = approval.question
    path = question.target or (question.paths[0] if question.paths else "")
    where = " → ".join(filter(None, (str(path), question.destination)))
    head = _shown(f"{question.subject} asks you")
    body = _shown(f"{question.operation} {where} in {question.root}")
    # Bodies are markup by the specification of desktops, heads by some desktops.
    return _plain(head), _plain(body)


def _shown(text: str) -> str:
    shown = escape_for_display(text)
    return shown if len(shown) <= _TEXT_MAX else shown[: _TEXT_MAX - 1] + "…"


def _plain(text: str) -> bytes:
    return html.escape(text, quote=False).encode("utf-8", "backslashreplace")


def find_program(within: Collection[str]) -> str | None:
    """The program, by the absolute entries of PATH: a file that only its owner may change, who is
    root or who runs this, outside the directories of agents. Blocks."""
    closed = [os.path.realpath(each) for each in within]
    for directory in os.get_exec_path():
        file = os.path.realpath(os.path.join(directory, PROGRAM))
        if not os.path.isabs(directory) or any(lies_in(file, each) for each in closed):
            continue
        try:
            found = os.stat(file)
        except OSError:
            continue
        if (
            stat.S_ISREG(found.st_mode)
            and not found.st_mode & 0o022
            and found.st_uid in (0, os.geteuid())
            and os.access(file, os.X_OK)
        ):
            return file
    return None


def lies_in(file: str, directory: str) -> bool:
    """Of two paths without links, whether one is the other or lies beneath it."""
    return file == directory or file.startswith(directory.rstrip("/") + "/")
