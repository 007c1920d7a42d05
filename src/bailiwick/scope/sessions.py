"""Sessions: one working copy over many commands, several of them at a time.

Every command of a session is judged, asked about and recorded as any other. What they change stays
in the session's working copy until it is published, which is one change of the tree.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy as copied
from typing import TYPE_CHECKING, Final, Literal, Self

import msgspec

from bailiwick.call import Target
from bailiwick.commands import PlacedCopy, SessionNote
from bailiwick.errors import Closed, ParseError
from bailiwick.finishing import ended, look_at, to_the_end
from bailiwick.late_module import LateModule
from bailiwick.operations import Command, Network, environment_of
from bailiwick.paths import PathText, ScopedPath, parse
from bailiwick.sandbox import CommandLimits, WindowSize
from bailiwick.scope.commands import CommandVerbs, bounds, input_of, words
from bailiwick.scope.execution import NOTHING, Execution
from bailiwick.scope.roots_beside import RootsBeside
from bailiwick.text.diff import UnifiedDiff
from bailiwick.working_copy import Publish, Published, Wanted, WorkChanges, refuse_unchanged

if TYPE_CHECKING:
    from bailiwick.scope import rooms
    from bailiwick.verbs import commands
    from bailiwick.verbs.commands import Started
else:
    commands = LateModule("bailiwick.verbs.commands")
    rooms = LateModule("bailiwick.scope.rooms")


class SessionVerbs(CommandVerbs):
    """Programs that build on what others have done before it is in the tree."""

    def session(
        self,
        *,
        cwd: PathText = ".",
        env: Mapping[str, str] | None = None,
        roots: Collection[str] = (),
    ) -> Session:
        """A session: one working copy of this tree for many commands, one after the other or at a
        time. ``cwd`` is where they are run, ``env`` the variables that each of them gets, ``roots``
        names others that all of them see, as `exec` does: each command under the grants of then.

        To be left as an asynchronous context manager, or closed. What was not published then is
        kept, and `open_session` goes on from there.
        """
        id = self._workplace().new_id() if self._pipeline.commands is not None else ""
        RootsBeside(self, roots)  # refuses what are no names
        environment_of(env or {})
        self._canonical(cwd)
        note = SessionNote(cwd=str(cwd), env=dict(env or {}), roots=tuple(roots))
        return Session(self, id, None, note)

    async def open_session(self, id: str) -> Session:
        """A session that was left, with its directory, its variables and its working copy. Its
        processes are gone: `Session.lost` tells which. What a single command left apart can be
        worked on in this way, too.

        Raises `PathNotFound`, and `Busy` where somebody works in it.
        """
        copy = await self._copy_left(id)
        try:
            note = await copy.session_note() or SessionNote()
        except BaseException:
            copy.close()
            raise
        where = ScopedPath(note.cwd)
        base = self.grant.base
        cwd = where.relative_to(base) if where.lies_in(base) else "."
        note = msgspec.structs.replace(note, cwd=str(cwd))
        return Session(self, id, copy, note)

    def _follow_session(self, session: Session) -> None:
        """Closing the root closes it."""
        self._pipeline.dependents[id(session._room)] = session.aclose

    def _forget_session(self, session: Session) -> None:
        self._pipeline.dependents.pop(id(session._room), None)


class Session:
    """One working copy, and the commands that are run in it.

    ``cwd`` and ``env`` hold for the commands that are started from then on; both are kept with the
    working copy. A `cd` inside a shell is that shell's own affair.
    """

    def __init__(
        self, scope: SessionVerbs, id: str, copy: PlacedCopy | None, note: SessionNote
    ) -> None:
        self._scope = scope
        self._room = rooms.SessionRoom(id, copy)
        self._executions: set[Execution] = set()
        self.id: Final = id
        """Of the session and of its working copy: `bailiwick work show ID`."""
        self._cwd: PathText = note.cwd
        self.env: dict[str, str] = dict(note.env)
        self.roots: Final = note.roots
        """The names of other roots that its commands see."""
        self.lost: Final = note.running
        """The words of commands that were under way when it was left: their processes are gone."""
        scope._follow_session(self)

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self._scope!r}>"

    @property
    def cwd(self) -> PathText:
        """Where the commands that come are run. Raises, when it is set, as a verb would there."""
        return self._cwd

    @cwd.setter
    def cwd(self, cwd: PathText) -> None:
        self._scope._canonical(cwd)
        self._cwd = cwd

    def with_request(self, request_id: str) -> Self:
        """This session under an id: what is done by it is told and recorded with ``request_id``."""
        return self._by(self._scope.with_request(request_id))

    def with_approval(self, approval_id: str) -> Self:
        """This session for a call that a person has approved: exactly the call they saw."""
        return self._by(self._scope.with_approval(approval_id))

    def _by(self, scope: SessionVerbs) -> Self:
        """This session, used through another form of its scope."""
        same = copied(self)
        same._scope = scope
        return same

    def exec(
        self,
        argv: Sequence[str] | None = None,
        *,
        shell: str | None = None,
        cwd: PathText | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | Literal["pipe"] | None = None,
        terminal: WindowSize | None = None,
        timeout: float | None = None,
        limits: CommandLimits | None = None,
        network: Network = "none",
        replayable: bool = True,
    ) -> Execution:
        """Run a program in the working copy of this session: see `Scope.exec`.

        It goes on in the background for whoever does not wait for its result. ``cwd`` and ``env``
        are for this command alone; ``env`` comes on top of the session's. With ``terminal`` its
        streams are a terminal of that size, which takes what `Execution.write` is given and no
        ``stdin`` of bytes; `Execution.resize` changes its size. ``timeout`` may be
        as long as ``Limits.session_seconds_max``. Without ``replayable`` its output is read once,
        by one reader, and not kept.
        """
        scope, request_id = self._scope._for_one_command()
        where = self.cwd if cwd is None else cwd
        variables = {**self.env, **(env or {})}

        async def start() -> Started:
            self._refuse_closed()
            beside = RootsBeside(scope, self.roots)
            command = Command(
                argv=words(argv, shell), cwd=str(scope._canonical(where)), network=network,
                session=self.id,
                environment=environment_of(variables),
                roots=self.roots,
            )  # fmt: skip
            most = scope.limits.session_seconds_max
            how = commands.How(
                input_of(stdin, terminal), bounds(scope.limits, most, timeout, limits), terminal,
                replayable,
            )  # fmt: skip
            self._room.note = SessionNote(
                cwd=str(scope._canonical(self.cwd)), env=dict(self.env), roots=self.roots
            )
            # It may be a directory that another command of the session has made.
            place = Target(where, "entry", parents=True)
            await beside.find()
            try:
                room = self._room.seeing(beside)
                return await scope._start_command(command, place, how, room)
            finally:
                await to_the_end(beside.aclose())

        room = self._room
        return Execution(start, room, "manual", request_id, self._follow, scope._still_holds)

    def _as_called(self, scope: SessionVerbs) -> Session:
        """This session for one call of whoever uses it: what is asked is asked as ``scope`` asks.
        It shares all but ``cwd``."""
        called = copy.copy(self)
        called._scope = scope
        return called

    def _enter(self, directory: str) -> bool:
        """Have the commands that come begin in a directory as programs see it; False for one that
        the grant does not reach."""
        place = self._room.place
        if place is None or not f"{directory}/".startswith(f"{place}/"):
            return False
        grant = self._scope.grant
        try:
            where = parse(directory[len(place) :].lstrip("/") or ".", "/", "posix").path
        except ParseError:
            return False
        if not (where.lies_in(grant.path) and where.lies_in(grant.base)):
            return False
        self.cwd = str(where.relative_to(grant.base))
        return True

    def _follow(self, execution: Execution) -> None:
        self._executions.add(execution)
        execution.on_end(lambda: self._executions.discard(execution))

    async def publish(
        self,
        publish: Publish = "atomic",
        *,
        paths: Iterable[PathText] | None = None,
        merge: bool = False,
    ) -> Published:
        """Bring what was changed back into the tree: all of it or these paths, as one change. With
        ``merge`` texts that others have changed too are joined with theirs, where lines allow it.

        The session goes on from there, with a new ``/tmp`` and ``HOME``. Raises `Busy` while
        commands are under way.
        """
        async with self._unused() as copy:
            only = self._scope._places(paths)
            if copy is None:
                refuse_unchanged(only)
                return NOTHING
            return await self._scope._bring_back(copy, publish, only, merge=merge)

    async def discard(self, paths: Iterable[PathText] | None = None) -> list[ScopedPath]:
        """Give up what was changed: all of it, or these paths with what lies beneath them. Raises
        `Busy` while commands are under way."""
        async with self._unused() as copy:
            wanted = Wanted("partial", self._scope._places(paths))
            if copy is None:
                refuse_unchanged(wanted.only)
                return []
            given_up = await self._scope._give_up(copy, wanted)
            if not (await copy.alterations()).any_left:
                await self._room.forget()
            return given_up

    async def changes(self) -> WorkChanges:
        """What publishing would do to the tree as it stands now. While commands are under way it
        is what they have done until then."""
        async with self._room.lock:
            self._refuse_closed()
            if self._room.copy is None:
                return WorkChanges(changes=[], withheld=[], conflicts=[])
            return await self._scope._changes_of(self._room.copy)

    async def diff(self, path: PathText) -> UnifiedDiff:
        """From what stands in the tree to what stands in the working copy."""
        place = self._scope._place(path)
        async with self._room.lock:
            self._refuse_closed()
            return await self._scope._difference_in(self._room.needed(place), place)

    async def aclose(self) -> None:
        """End every command that is under way, and keep the working copy where it holds anything
        that was not published. It ends by itself, also where whoever asked does not wait for it;
        whoever asks again does."""
        room = self._room
        if not room.left:
            room.leave()
            room.closing = asyncio.ensure_future(self._close())
            room.closing.add_done_callback(look_at)
        if room.closing is not None:
            await to_the_end(ended(room.closing))

    async def _close(self) -> None:
        try:
            for execution in list(self._executions):
                await execution.aclose()
            async with self._room.lock:
                await self._room.close()
        finally:
            self._scope._forget_session(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def _refuse_closed(self) -> None:
        if self._room.left:
            raise Closed("this session is closed")

    @asynccontextmanager
    async def _unused(self) -> AsyncGenerator[PlacedCopy | None, None]:
        """The working copy, in which nobody is at work as long as this is held."""
        async with self._room.lock:
            self._refuse_closed()
            await self._room.clear()
            yield self._room.copy
