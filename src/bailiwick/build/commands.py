"""Joining what it takes to run commands in a root."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from bailiwick.build.homes import Homes, Kept, default_state_dir, known_state_dir
from bailiwick.change_log import Logs
from bailiwick.commands import Commands, HostShare
from bailiwick.errors import ParseError
from bailiwick.finishing import in_thread, to_the_end
from bailiwick.grant import Root
from bailiwick.limits import Limits
from bailiwick.paths import NameRule
from bailiwick.sandbox import Sandbox, SandboxName, Shortfall
from bailiwick.store import HostDirectory, Store

if TYPE_CHECKING:
    from bailiwick.working_copies.folder import Folders
    from bailiwick.working_copies.lower import Lower
    from bailiwick.working_copies.removals import Removals
    from bailiwick.working_copies.temporary_place import TemporaryPlace
    from bailiwick.working_copies.workplace import DirectoryWorkplace


class RootCommands:
    """How commands are run in a root, put together when the first one is."""

    def __init__(
        self, store: Store, root: Root, limits: Limits, state_dir: str | None,
        share: HostShare | None = None, kept: Kept | None = None, over: RootCommands | None = None,
    ) -> None:  # fmt: skip
        """``share`` is what they may have of the machine besides, ``kept`` where the past of a
        directory lies. ``over``: those of the root that this is a branch of, which are closed."""
        self._store = store
        self._root = root
        self._limits = limits
        self._state_dir = state_dir
        self._share = share or HostShare()
        self._kept = kept
        self._commands: Commands | None = None
        self._passing: _Passing = _Passing(state_dir) if over is None else over._passing
        self._over = over
        self._removals: Removals | None = None

    def __call__(self) -> Commands:
        if self._commands is None:
            place = self._kept or kept_of(self._store, self._state_dir, making=True)
            place = place or Kept(self._passing.path(), "memory")
            root = self._root
            workplace = workplace_of(
                self._store, place, str(root), root.names, self._limits, self._being_removed()
            )
            sandbox = _sandbox(self._share.sandbox, self._limits, self._passing)
            self._commands = Commands(sandbox, workplace, self._share)
        return self._commands

    def _being_removed(self) -> Removals:
        if self._over is not None:
            return self._over._being_removed()
        if self._removals is None:
            from bailiwick.working_copies.removals import Removals

            self._removals = Removals()
        return self._removals

    def on(self, branch: Store) -> RootCommands:
        return RootCommands(
            branch, self._root, self._limits, self._state_dir, self._share, over=self
        )

    async def aclose(self) -> None:
        """When nothing is run in the root any more."""
        if self._removals is not None:
            await to_the_end(self._removals.wait())
        if self._passing.is_made:
            await in_thread(self._passing.remove)


class _Passing:
    """What is on disk for a root, and gone with its process: made when it is first needed. Of a
    process that was killed it goes when another needs one."""

    def __init__(self, state_dir: str | None) -> None:
        self._state_dir = state_dir
        self._made: TemporaryPlace | None = None
        self._making = threading.Lock()

    @property
    def is_made(self) -> bool:
        return self._made is not None

    def path(self) -> str:
        """Blocks, for any thread."""
        with self._making:
            if self._made is None:
                self._made = passing_place(self._state_dir)
            return self._made.path

    def remove(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            made.remove()


def passing_place(state_dir: str | None) -> TemporaryPlace:
    """Room on disk for what is gone with its process. Blocks."""
    from bailiwick.working_copies.temporary_place import temporary_place

    return temporary_place(os.path.join(state_dir or default_state_dir(), "passing"))


def _sandbox(name: SandboxName, limits: Limits, passing: _Passing) -> Sandbox:
    if name == "bubblewrap":
        from bailiwick.sandboxes.bubblewrap import Bubblewrap

        return Bubblewrap()
    from bailiwick.sandboxes.on_copies import Landlock, Unconfined
    from bailiwick.working_copies.removal import remove_tree

    kind = Landlock if name == "landlock" else Unconfined
    return kind(bytes_max=limits.exec_tree_bytes_max, remove=remove_tree, place=passing.path)


@cache
def sandbox_missing() -> tuple[Shortfall, ...]:
    """What commands lack on this machine, found out by trying."""
    from bailiwick.sandboxes.bubblewrap import Bubblewrap

    return Bubblewrap().missing()


def check_share(
    share: HostShare | None, places: Sequence[str | None], state_dir: str | None
) -> None:
    """Refuse to share what would lead round a boundary: the tree itself, which is seen in another
    way, our own state, and what a program can change to point elsewhere. Raises `ParseError`."""
    if share is None:
        return
    shared = [*share.readable, *([] if share.home is None else [share.home])]
    if any(not os.path.isabs(each) or os.path.normpath(each) != each for each in shared):
        raise ParseError("what is shared of the machine is an absolute path without . and ..")
    for each in shared:
        for kept in (*places, state_dir or default_state_dir()):
            if kept is not None and _overlap(each, kept):
                raise ParseError(
                    "what is shared of the machine cannot hold the root that programs are run in,"
                    " nor the state of Bailiwick, nor lie in them",
                    details={"path": each},
                )
    if share.home is not None and any(_overlap(each, share.home) for each in share.readable):
        raise ParseError("what may be read cannot lie in the home of programs, nor hold it")


def _overlap(one: str, other: str) -> bool:
    """Whether one holds the other, whatever links lead there."""
    one, other = os.path.realpath(one), os.path.realpath(other)
    return os.path.commonpath((one, other)) in (one, other)


async def finish_publishing(
    store: Store, names: NameRule, limits: Limits, state_dir: str | None, kept: Kept | None = None
) -> None:
    """Finish what a killed process had begun to bring back into a root."""
    state_dir = state_dir or known_state_dir()
    if kept is None and state_dir is not None:
        kept = kept_of(store, state_dir, making=False)
    if kept is not None and _has_work(kept):
        from bailiwick.working_copies.recovery import finish_all

        await finish_all(workplace_of(store, kept, "", names, limits), store)


def _has_work(kept: Kept) -> bool:
    """Whether there are working copies at all: most places never had one."""
    return os.path.exists(os.path.join(kept.folder, "work", kept.key))


def workplace_of(
    store: Store, place: Kept, root: str, names: NameRule, limits: Limits,
    removals: Removals | None = None,
) -> DirectoryWorkplace:  # fmt: skip
    """Where the working copies of a store are made and found again."""
    from bailiwick.sandboxes.private_copies import gather
    from bailiwick.sandboxes.uppers import let_through, open_left, parent_left, touched
    from bailiwick.stores.disk.syscalls import flush_all
    from bailiwick.working_copies.directory import Uppers
    from bailiwick.working_copies.folder import Folders
    from bailiwick.working_copies.removal import remove_tree
    from bailiwick.working_copies.workplace import DirectoryWorkplace

    folders = Folders(place.folder, place.key, flush_all)
    lower = _lower(store, place, folders, limits)
    uppers = Uppers(
        touched, open_left, parent_left, let_through, partial(gather, remove=remove_tree)
    )
    return DirectoryWorkplace(
        folders, root, store, lower, uppers, names=names, bytes_max=limits.exec_changes_bytes_max,
        removals=removals,
    )  # fmt: skip


def _lower(store: Store, place: Kept, folders: Folders, limits: Limits) -> Lower:
    """A directory is shown as it is, everything else is written out first."""
    if isinstance(store, HostDirectory):
        from bailiwick.working_copies.lower import DirectoryLower

        return DirectoryLower(store, entries_max=limits.exec_entries_max)
    from bailiwick.working_copies.materialised import MaterialisedLower
    from bailiwick.working_copies.tree_cache import TreeCache

    cache = TreeCache(
        os.path.join(place.folder, "lowers", place.key), folders.lowers,
        trees_max=limits.exec_trees_kept, bytes_max=limits.exec_trees_bytes_kept,
    )  # fmt: skip
    return MaterialisedLower(
        store, cache, entries_max=limits.exec_entries_max,
        bytes_max=limits.exec_tree_bytes_max,
    )  # fmt: skip


def kept_of(store: Store, state_dir: str | None, *, making: bool) -> Kept | None:
    """Where they are found again by whoever opens it; None for what is gone with its process."""
    if isinstance(store, HostDirectory):
        return Homes(state_dir).kept(path_of(store), making=making)
    if "Logs" in store.powers and isinstance(store, Logs):
        # A server has a state of its own within the user's: what lay there before goes on there.
        beside = Kept(state_dir or default_state_dir(), store.log.id)
        return beside if _has_work(beside) else Kept(Homes(state_dir).base, store.log.id)
    return None


def path_of(store: HostDirectory) -> str:
    """Where a directory lies on this machine."""
    directory = store.open_directory()
    try:
        return os.readlink(f"/proc/self/fd/{directory}")
    finally:
        os.close(directory)
