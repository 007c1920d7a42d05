"""The room that the commands of a session share: its working copy, mounted once for all of them.

What is hidden from them, and what what they change is compared with, is decided when it is mounted.
It stays until nothing may be at work in the copy, or until somebody may see less or more than
before: where a rule or a grant is another, and where something came into the tree that is hidden.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from bailiwick.call import Call
from bailiwick.commands import Commands, PlacedCopy, SessionNote
from bailiwick.errors import BailiwickError, Busy, Closed, PathNotFound
from bailiwick.finishing import to_the_end
from bailiwick.operations import Command, Network
from bailiwick.paths import ScopedPath
from bailiwick.sandbox import Process, Room
from bailiwick.scope.execution import NOTHING, PublishWhen, SettledWork
from bailiwick.scope.roots_beside import BesideTree, RootsBeside
from bailiwick.verbs.commands import (
    GiveBack,
    How,
    Sight,
    Started,
    for_sandbox,
    give_up,
    make_copy,
    sight_of,
    still_shows,
    view_of,
)

_WIDEST: Final[tuple[Network, ...]] = ("host", "loopback", "none")


class SessionRoom:
    """Where many commands are run. The working copy is made with the first of them."""

    def __init__(self, id: str, copy: PlacedCopy | None) -> None:
        self.lock: Final = asyncio.Lock()
        """Held while a command is started, and as long as nobody may start one."""
        self.copy = copy
        self.note = SessionNote()
        """What is kept of the session beside its copy, but for what is running."""
        self._id = id
        self._room: Room | None = None
        self._sight: Sight | None = None
        self._beside: tuple[BesideTree, ...] = ()
        self._give_back: GiveBack = lambda: None
        self._running: dict[Process, str] = {}
        self._noting = asyncio.Lock()
        self.left = False
        """Whether no command is to be started any more."""
        self.closing: asyncio.Future[None] | None = None
        """The end of all that is in it, once it was left."""

    @property
    def place(self) -> str | None:
        """Where the tree stood for the last command, as programs see it."""
        return None if self._sight is None else self._sight.place

    def seeing(self, beside: RootsBeside) -> RoomWithRoots:
        """This room, for a command that sees these roots besides."""
        return RoomWithRoots(self, beside)

    async def start(
        self, call: Call, commands: Commands, command: Command, how: How, beside: RootsBeside
    ) -> Started:
        async with self.lock:
            if self.left:
                raise Closed("this session is closed")
            give_back = commands.slots.take(call.grant)
            try:
                # Begun, it is begun: whoever is cancelled meanwhile gives it up then.
                return await to_the_end(
                    self._started(call, commands, command, how, give_back, beside)
                )
            except BaseException:
                give_back()
                raise

    async def _started(
        self,
        call: Call,
        commands: Commands,
        command: Command,
        how: How,
        give_back: GiveBack,
        beside: RootsBeside,
    ) -> Started:
        is_new = self.copy is None
        self.copy = copy = self.copy or await make_copy(call, commands, command, self._id)
        try:
            room, sight = await self._entered(call, commands, how, copy, beside)
            await self._write_note(command.words)
            process = await room.start(for_sandbox(command, how))
        except BaseException:
            if is_new:
                await to_the_end(self._drop_copy())
            raise
        self._running[process] = command.words
        return Started(command, process, copy, sight.writable, give_back, self._beside)

    async def give_up(self, started: Started) -> None:
        """What it has changed by then stays with what others did, as for one that is ended."""
        try:
            await started.process.close()
        finally:
            started.give_back()
        await self.settle(started, "manual")

    async def _entered(
        self, call: Call, commands: Commands, how: How, copy: PlacedCopy, beside: RootsBeside
    ) -> tuple[Room, Sight]:
        """The room, for someone who sees what it shows."""
        if (
            self._room is not None
            and self._sight is not None
            and await still_shows(call, copy, self._sight)
            and await beside.are_as(self._beside)
        ):
            return self._room, self._sight
        if self._running:
            raise Busy(
                "what may be shown of the tree is another since commands of this session began",
                hint="wait for them, or end them: the next one is shown the tree as it may be seen",
            )
        await self.clear()
        await copy.survey()
        sight = await sight_of(call, copy)
        await copy.show(sight.masked)
        network = next(each for each in _WIDEST if each in {*commands.share.networks, "none"})
        give_back = commands.slots.take(call.grant)
        try:
            self._beside = await beside.shown()
            others = [each.tree for each in self._beside]
            self._room = await commands.sandbox.open(
                view_of(commands, copy, sight, others, lasting=True),
                limits=how.limits,
                network=network,
            )
        except BaseException:
            give_back()
            await to_the_end(self._look_away())
            raise
        self._sight, self._give_back = sight, give_back
        return self._room, sight

    async def settle(
        self, started: Started, publish: PublishWhen, refused: BailiwickError | None = None
    ) -> SettledWork:
        """A command has ended: what it changed stays."""
        self._running.pop(started.process, None)
        if not self.left:
            with suppress(OSError):  # it would tell of one too many
                await self._write_note()
        return SettledWork(NOTHING, self._id if started.writable else None)

    def hurry(self) -> None:
        """Nobody is asked when a command has ended."""

    async def _write_note(self, *starting: str) -> None:
        async with self._noting:
            if self.copy is not None:
                running = (*self._running.values(), *starting)
                await self.copy.note_session(msgspec.structs.replace(self.note, running=running))

    # --- for whoever holds the lock ---------------------------------------------------------------

    async def clear(self) -> None:
        """See to it that nothing is mounted. Raises `Busy` where commands are under way."""
        if self._running:
            raise Busy("commands of this session are under way", hint="wait for them, or end them")
        room, self._room = self._room, None
        if room is not None:
            try:
                await to_the_end(room.close())
            finally:
                self._give_back()
                await to_the_end(self._look_away())

    async def _look_away(self) -> None:
        """Let go of what was shown of other roots."""
        beside, self._beside = self._beside, ()
        for each in beside:
            await each.aclose()

    def needed(self, path: ScopedPath) -> PlacedCopy:
        if self.copy is None:
            raise PathNotFound("was not changed in this session", path=path)
        return self.copy

    async def forget(self) -> None:
        """The copy is gone: the next command gets a new one."""
        async with self._noting:
            if self.copy is not None:
                self.copy.close()
                self.copy = None

    def leave(self) -> None:
        """No command is to be started any more. Needs no lock."""
        self.left = True

    async def close(self) -> None:
        """Keep the copy where it holds anything."""
        await self.clear()
        if self.copy is None:
            return
        if (await self.copy.alterations()).any_left:
            await self.copy.leave()
        else:
            await self.copy.discard()
        await self.forget()

    async def _drop_copy(self) -> None:
        """Of what was to be made for the first command nothing stays."""
        await self.clear()
        async with self._noting:
            copy, self.copy = self.copy, None
            if copy is not None:
                await give_up(copy)


class RoomWithRoots(NamedTuple):
    """A `Workroom`: the room of a session, for one command that sees other roots."""

    room: SessionRoom
    beside: RootsBeside

    async def start(self, call: Call, commands: Commands, command: Command, how: How) -> Started:
        return await self.room.start(call, commands, command, how, self.beside)

    async def give_up(self, started: Started) -> None:
        await self.room.give_up(started)
