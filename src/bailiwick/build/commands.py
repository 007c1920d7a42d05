"""Joining what it takes to run commands in a directory of this machine."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from typing import TYPE_CHECKING

from bailiwick.build.stores import default_state_dir
from bailiwick.commands import Commands, CommandSlots, HostShare, LendsCommands
from bailiwick.errors import ParseError
from bailiwick.grant import Root
from bailiwick.model import Limits
from bailiwick.paths import NameRule
from bailiwick.sandbox import Shortfall
from bailiwick.store import HostDirectory, Store

if TYPE_CHECKING:
    from bailiwick.working_copies.workplace import DirectoryWorkplace


def commands_for(
    store: Store, root: Root, limits: Limits, state_dir: str | None, share: HostShare | None = None
) -> LendsCommands | None:
    """How commands are run in a root, put together when the first one is; None where it is no
    directory of this machine. ``share`` is what they may have of the machine besides."""
    if not isinstance(store, HostDirectory):
        return None
    directory: HostDirectory = store

    @cache
    def commands() -> Commands:
        from bailiwick.sandboxes.bubblewrap import Bubblewrap

        workplace = _workplace(directory, str(root), root.names, limits, state_dir)
        return Commands(Bubblewrap(), workplace, _slots(), share or HostShare())

    return commands


@cache
def _slots() -> CommandSlots:
    """What commands use up is the machine's, whichever roots they are run in."""
    return CommandSlots()


@cache
def sandbox_missing() -> tuple[Shortfall, ...]:
    """What commands lack on this machine, found out by trying."""
    from bailiwick.sandboxes.bubblewrap import Bubblewrap

    return Bubblewrap().missing()


def check_share(share: HostShare | None, directory: str, state_dir: str | None) -> None:
    """Refuse to share what would lead round a boundary: the tree itself, which is seen in another
    way, our own state, and what a program can change to point elsewhere. Raises `ParseError`."""
    if share is None:
        return
    shared = [*share.readable, *([] if share.home is None else [share.home])]
    if any(not os.path.isabs(each) or os.path.normpath(each) != each for each in shared):
        raise ParseError("what is shared of the machine is an absolute path without . and ..")
    for each in shared:
        for kept in (directory, state_dir or default_state_dir()):
            if _overlap(each, kept):
                raise ParseError(
                    "what is shared of the machine cannot hold the directory that programs are run"
                    " in, nor the state of Bailiwick, nor lie in them",
                    details={"path": each},
                )
    if share.home is not None and any(_overlap(each, share.home) for each in share.readable):
        raise ParseError("what may be read cannot lie in the home of programs, nor hold it")


def _overlap(one: str, other: str) -> bool:
    """Whether one holds the other, whatever links lead there."""
    one, other = os.path.realpath(one), os.path.realpath(other)
    return os.path.commonpath((one, other)) in (one, other)


async def finish_publishing(
    store: Store, names: NameRule, limits: Limits, state_dir: str | None
) -> None:
    """Finish what a killed process had begun to bring back into a directory."""
    if isinstance(store, HostDirectory) and _has_work(store, state_dir):
        from bailiwick.working_copies.recovery import finish_all

        await finish_all(_workplace(store, "", names, limits, state_dir), store)


def _workplace(
    directory: HostDirectory, root: str, names: NameRule, limits: Limits, state_dir: str | None
) -> DirectoryWorkplace:
    from bailiwick.sandboxes.uppers import open_left, touched
    from bailiwick.working_copies.folder import Folders
    from bailiwick.working_copies.workplace import DirectoryWorkplace

    folders = Folders(state_dir or default_state_dir(), _key(directory))
    return DirectoryWorkplace(
        folders, root, directory, touched, open_left, names=names,
        entries_max=limits.exec_entries_max,
    )  # fmt: skip


def _has_work(directory: HostDirectory, state_dir: str | None) -> bool:
    """Whether there are working copies at all: most places never had one."""
    return os.path.exists(os.path.join(state_dir or default_state_dir(), "work", _key(directory)))


def _key(store: HostDirectory) -> str:
    """A directory has the same working copies whoever opens it, by its place."""
    directory = store.open_directory()
    try:
        place = os.readlink(f"/proc/self/fd/{directory}")
    except OSError:  # without /proc no command runs either
        status = os.fstat(directory)
        place = f"{status.st_dev} {status.st_ino}"
    finally:
        os.close(directory)
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
