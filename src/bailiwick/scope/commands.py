"""The verbs of a scope that run programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, Self

import msgspec

from bailiwick import operations
from bailiwick.call import Call, Target
from bailiwick.errors import ParseError
from bailiwick.finishing import to_the_end
from bailiwick.late_module import LateModule
from bailiwick.limits import Limits
from bailiwick.operations import Command, Network, environment_of
from bailiwick.paths import PathText, ScopedPath, parse
from bailiwick.proposal import Proposal
from bailiwick.sandbox import CommandLimits, WindowSize
from bailiwick.scope.execution import Execution, OwnCopy, PublishWhen
from bailiwick.scope.roots_beside import RootsBeside
from bailiwick.scope.working_copies import WorkVerbs

if TYPE_CHECKING:
    from bailiwick.verbs import commands
    from bailiwick.verbs.commands import How, Started, Workroom
else:
    commands = LateModule("bailiwick.verbs.commands")

_AS_LONG_AS_IT_LIKES_S: Final = 365 * 24 * 3600
"""Of processor time, for what runs without a timeout: the kernel counts it in nanoseconds."""


class CommandVerbs(WorkVerbs):
    """Programs that see the tree as the scope does, and whose changes pass the same checks."""

    def exec(
        self,
        argv: Sequence[str] | None = None,
        *,
        shell: str | None = None,
        cwd: PathText = ".",
        env: Mapping[str, str] | None = None,
        stdin: bytes | Literal["pipe"] | None = None,
        timeout: float | None = None,
        limits: CommandLimits | None = None,
        network: Network = "none",
        publish: PublishWhen = "atomic",
        roots: Sequence[str] = (),
    ) -> Execution:
        """Run a program in a sandbox, on a working copy of this tree.

        ``argv`` are its words; ``shell`` is a text for ``/bin/sh`` instead. It sees what this scope
        may read, and nothing else of the machine but the programs of the system. When it has ended,
        what it changed goes through grant, policy, a person who is asked, quotas, history and
        ledger as one change of this request. With ``publish`` "atomic" nothing is brought back when
        anything is refused, or was changed by others meanwhile; "partial" leaves that out;
        "manual" keeps all of it in the working copy.

        ``stdin`` is what it can read; "pipe" lets more come by `Execution.write`. ``timeout`` is in
        seconds. ``roots`` names others that the subject holds grants on: it sees them at
        ``/roots/KIND/ID``, as that subject may read them, and cannot change them.

        Raises, once it is awaited or read from, `MissingAccess` without ``execute``, `Unsupported`
        where no sandbox is to be had, and `RootNotFound` for roots that nobody has, or that the
        subject holds no grant on.
        """
        scope, request_id = self._for_one_command()

        async def start() -> Started:
            if publish not in ("atomic", "partial", "manual"):
                raise ParseError("publish is atomic, partial or manual")
            beside = RootsBeside(scope, roots)
            command = Command(
                argv=words(argv, shell), cwd=str(scope._canonical(cwd)), network=network,
                environment=environment_of(env or {}),
                roots=tuple(roots),
            )  # fmt: skip
            how = commands.How(
                input_of(stdin),
                bounds(scope.limits, scope.limits.exec_seconds_max, timeout, limits),
            )
            await beside.find()
            try:
                room = commands.OwnRoom(beside.shown)
                return await scope._start_command(command, Target(cwd, "object"), how, room)
            finally:
                await to_the_end(beside.aclose())

        settlement = OwnCopy(scope._bring_back_from)
        return Execution(start, settlement, publish, request_id, scope._follow, scope._still_holds)

    def _for_one_command(self) -> tuple[Self, str]:
        """This scope with a request: all that comes of the command is of that one."""
        request_id = self._request_id or self._pipeline.machine.new_request_id()
        return self.with_request(request_id), request_id

    def _canonical(self, cwd: PathText) -> ScopedPath:
        root = self.root
        return parse(cwd, root.mount_point, root.names).path.beneath(self.grant.base)

    async def _start_command(
        self, command: Command, where: Target, how: How, room: Workroom
    ) -> Started:
        begun: list[Started] = []

        def remember(started: Started) -> Started:
            begun.append(started)
            return started

        async def prepare(call: Call) -> Proposal[Started]:
            found = msgspec.structs.replace(command, cwd=str(call.handle.path))
            lends = self._pipeline.commands
            proposal = await commands.run_command(call, lends, found, how, room)
            return msgspec.structs.replace(proposal, result=remember)

        try:
            return await self._run(operations.EXEC, "exec", where, prepare, command=command)
        except BaseException:
            # Cancelled when it had just begun: nobody will have it.
            for started in begun:
                await to_the_end(room.give_up(started))
            raise

    def _still_holds(self) -> None:
        """Raise where what a command was started under has ended."""
        self._refuse_closed()
        self._pipeline.standing.holds(self.grant, operations.EXEC)

    def _follow(self, execution: Execution) -> None:
        """Closing the root ends what is still running in it."""
        key = id(execution)
        dependents = self._pipeline.dependents
        dependents[key] = execution.aclose
        execution.on_end(lambda: dependents.pop(key, None))


def words(argv: Sequence[str] | None, shell: str | None) -> tuple[str, ...]:
    """The words of a command. Raises `ParseError`."""
    if (argv is None) == (shell is None):
        raise ParseError("a command is a list of words, or a text for a shell", hint="give one")
    if shell is not None:
        if not isinstance(shell, str):
            raise ParseError("the text for a shell is text")
        return ("/bin/sh", "-c", shell)
    if isinstance(argv, (str, bytes)) or not isinstance(argv, Sequence):
        raise ParseError("a command is a list of words", hint='["make", "test"], or shell=')
    return tuple(argv)


def input_of(
    stdin: object, terminal: WindowSize | None = None
) -> bytes | Literal["pipe"] | None:  # fmt: skip
    """What a command reads. Raises `ParseError`."""
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        if terminal is not None:
            raise ParseError("a terminal has no end", hint='stdin="pipe", and write what it reads')
        return bytes(stdin)
    if stdin is None or stdin == "pipe":
        return None if stdin is None else "pipe"
    raise ParseError('stdin is bytes, or "pipe"')


def bounds(
    most: Limits, seconds_max: float, timeout: float | None, given: CommandLimits | None
) -> CommandLimits:
    """What a command may use: no more than the scope's limits, and less where that was asked. Zero
    ``seconds_max`` lets it run as long as it likes, where it asks for that."""
    seconds = most.exec_seconds_max if timeout is None else timeout
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds >= 0:
        raise ParseError("timeout is a number of seconds, more than none")
    if seconds == 0 and seconds_max != 0:
        raise ParseError("timeout is more than no seconds", details={"limit": seconds_max})
    if seconds > seconds_max > 0:
        raise ParseError(
            "timeout is longer than a command may run here", details={"limit": seconds_max}
        )
    own = CommandLimits()
    bounds = CommandLimits(
        seconds_max=float(seconds),
        # One that may run for hours may compute for as long.
        cpu_seconds_max=max(own.cpu_seconds_max, int(seconds or _AS_LONG_AS_IT_LIKES_S)),
        memory_bytes_max=most.exec_memory_bytes_max,
        processes_max=most.exec_processes_max, descriptors_max=most.exec_descriptors_max,
        file_bytes_max=most.max_file_bytes, output_memory_bytes_max=most.exec_output_bytes_kept,
        output_bytes_max=most.exec_output_bytes_max,
    )  # fmt: skip
    if given is None:
        return bounds
    if not isinstance(given, CommandLimits):
        raise ParseError("limits takes a bailiwick.CommandLimits")
    try:
        msgspec.convert(msgspec.to_builtins(given), CommandLimits)
    except (msgspec.ValidationError, TypeError) as error:
        raise ParseError(f"a limit is wrong: {error}") from None
    less = {
        name: min(getattr(bounds, name), getattr(given, name))
        for name in CommandLimits.__struct_fields__
    }
    less["seconds_max"] = min(filter(None, (seconds, given.seconds_max)), default=0.0)
    return CommandLimits(**less)
