"""Starting code that a model wrote, in a sandbox that shows nothing of the tree.

The question and the record are about the code itself, the rules about it as the words of a command.
What it does to the tree are calls of the scope, each judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

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


class StartedCode(NamedTuple):
    """An interpreter that waits for code, and what is to be called when it has ended."""

    process: Process
    give_back: Callable[[], None]


async def start_code(
    call: Call, lends: LendsInterpreter | None, command: Command, limits: CommandLimits
) -> Proposal[StartedCode]:
    """Start an interpreter that waits for code."""
    if lends is None:
        raise Unsupported("no code is run in this root")
    interpreter = lends()
    for each in interpreter.sandbox.missing():
        if each.fatal:
            raise Unsupported(each.what, hint=each.remedy)
    interpreter.slots.refuse_full(call.grant)  # nobody is asked about what cannot be begun
    call.command = command

    async def start() -> StartedCode:
        invocation = Invocation(
            argv=interpreter.argv, stdin="pipe", limits=limits, replayable=False
        )
        view = View(trees=(), readable=tuple(map(HostPath, interpreter.readable)))
        give_back = interpreter.slots.take(call.grant)
        try:
            return StartedCode(await interpreter.sandbox.start(invocation, view), give_back)
        except BaseException:
            give_back()
            raise

    return Proposal(RunCommand(call.handle, command.text, start), as_it_is)
