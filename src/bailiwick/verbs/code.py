"""Starting code that a model wrote, in a sandbox that shows nothing of the tree.

The question and the record are about the code itself, the rules about it as the words of a command.
What it does to the tree are calls of the scope, each judged by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from bailiwick.call import Call
from bailiwick.commands import LendsInterpreter
from bailiwick.errors import Unsupported
from bailiwick.operations import Command
from bailiwick.proposal import Proposal, as_it_is
from bailiwick.sandbox import CommandLimits, HostPath, Invocation, Process, View
from bailiwick.version_acts import RunCommand

PROGRAM: Final = "bailiwick.code"
"""What rules and records call it. No program of a system is called that, so that a rule about code
lets no command through, nor one about commands code."""


def command_of(source: str) -> Command:
    """Code as rules see it, and as a person is shown it. Raises `ParseError`."""
    return Command(argv=(PROGRAM, source))


async def start_code(
    call: Call, lends: LendsInterpreter | None, command: Command, limits: CommandLimits
) -> Proposal[Process]:
    """Start an interpreter that waits for code."""
    if lends is None:
        raise Unsupported("no code is run in this root")
    interpreter = lends()
    for each in interpreter.sandbox.missing():
        if each.fatal:
            raise Unsupported(each.what, hint=each.remedy)
    call.command = command

    def start() -> Awaitable[Process]:
        invocation = Invocation(
            argv=interpreter.argv, stdin="pipe", limits=limits, replayable=False
        )
        view = View(trees=(), readable=tuple(map(HostPath, interpreter.readable)))
        return interpreter.sandbox.start(invocation, view)

    return Proposal(RunCommand(call.handle, command.text, start), as_it_is)
