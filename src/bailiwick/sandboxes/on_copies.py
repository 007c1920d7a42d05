"""Weaker sandboxes, for whoever has decided so: commands on a copy of their tree, without anything
mounted.

The tree is copied for each command, and what the command left in the copy becomes what overlayfs
would have left: so what it changed passes the boundary as any other change does. Around it are
limits, and an end of all that it started. `Landlock` also keeps it from the files, the network, and
the processes of the machine; `Unconfined` does not. Everything else that a view can ask for is
refused rather than passed over.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

from bailiwick.errors import PathNotFound, Unsupported
from bailiwick.model import GiB
from bailiwick.sandbox import (
    CommandLimits,
    Invocation,
    Network,
    Room,
    Shortfall,
    Tree,
    View,
    ViewMaking,
)
from bailiwick.sandboxes import launch, plans, seccomp
from bailiwick.sandboxes.private_copies import TREE, fill, gather
from bailiwick.sandboxes.processes import RunningProcess
from bailiwick.sandboxes.readiness import in_a_thread, running

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SYS_LANDLOCK_CREATE: Final = 444
_LANDLOCK_MIN: Final = 6
"""Of Linux 6.12: before, what is confined could still send signals to what is not."""

Remove = Callable[[int, str], None]
"""Takes away what a program left, by the directory that it lies in and its name."""

Place = Callable[[], str]
"""A directory for copies that are of no use when their process has gone. Blocks."""


def remove_plainly(parent: int, name: str) -> None:
    """For what nobody has filled with names that resist."""
    path = f"/proc/self/fd/{parent}/{name}"
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(name, dir_fd=parent)


class Unconfined:
    """Runs commands as they are, on a copy of their tree."""

    name = "none"

    def __init__(
        self, *, bytes_max: int = 4 * GiB, remove: Remove = remove_plainly,
        place: Place = tempfile.gettempdir,
    ) -> None:  # fmt: skip
        """``bytes_max``: of a tree that is copied. ``place``: where that is done of one that is
        only read."""
        self._bytes_max = bytes_max
        self._remove = remove
        self._place = place

    def missing(self) -> tuple[Shortfall, ...]:
        if sys.platform != "linux" or os.uname().machine not in seccomp.ARCHITECTURES:
            what = "what a command leaves behind is found, and its network kept from it, on Linux"
            remedy = f"run on Linux, on one of {', '.join(sorted(seccomp.ARCHITECTURES))}"
            return (Shortfall(what=what, remedy=remedy, fatal=True),)
        return self._lesser

    @property
    def _lesser(self) -> tuple[Shortfall, ...]:
        what = "commands are not confined: they can do what the user can who runs this"
        return (Shortfall(what=what, remedy="use the sandbox bubblewrap", fatal=False),)

    async def start(self, command: Invocation, view: View | ViewMaking) -> RunningProcess:
        if not isinstance(view, View):
            view = await view()
        self._check(view)
        plans.check_command(command, view)
        if command.network == "loopback":
            raise Unsupported(f"in the sandbox {self.name} a command has no loopback of its own")
        copy = _CopyOfTree(view, self._bytes_max, self._remove, self._place)
        try:
            launched = await in_a_thread(self._launched, command, view, copy)
            return await running(launched, command, self.name, copy.end)
        except BaseException:
            copy.discard()
            raise

    def _launched(self, command: Invocation, view: View, copy: _CopyOfTree) -> launch.Launched:
        copy.make()
        rules = self._rules(command, view, copy)
        launcher = launch.Launcher(command, depth=1)
        return launcher.start_on_copy(plans.on_copy(command, view, copy.path, rules))

    def _rules(
        self, command: Invocation, view: View, copy: _CopyOfTree
    ) -> list[tuple[bytes, bool]] | None:
        return None

    async def open(
        self, view: View, *, limits: CommandLimits | None = None, network: Network = "none"
    ) -> Room:
        raise Unsupported(
            f"sessions are not kept in the sandbox {self.name}: each command has a copy of its own",
            hint="run single commands, or use the sandbox bubblewrap",
        )

    def _check(self, view: View) -> None:
        plans.check_view(view)
        for each in self.missing():
            if each.fatal:
                raise Unsupported(each.what, hint=each.remedy)
        if len(view.trees) != 1:
            raise Unsupported(
                f"in the sandbox {self.name} a command sees no other root: nothing can be mounted",
                hint="leave out `roots`, copy what it needs into its own root first, or use the"
                " sandbox bubblewrap",
            )


class Landlock(Unconfined):
    """Runs commands in what Landlock, a filter of system calls and limits draw around a process, on
    a copy of their tree."""

    name = "landlock"

    def missing(self) -> tuple[Shortfall, ...]:
        found = super().missing()
        if found[0].fatal:
            return found
        return self._lesser if self._too_old is None else (self._too_old,)

    @cached_property
    def _too_old(self) -> Shortfall | None:
        offered = landlock_offered()
        if offered >= _LANDLOCK_MIN:
            return None
        has = f"version {offered} of it" if offered > 0 else "none"
        return Shortfall(
            what=f"Landlock that keeps processes apart is not to be had: this kernel offers {has}",
            remedy="use the sandbox bubblewrap, or Linux 6.12 or newer with Landlock switched on"
            " (lsm=landlock,… among the words that the kernel is started with)",
            fatal=True,
        )

    @property
    def _lesser(self) -> tuple[Shortfall, ...]:
        missing = [
            "commands see whether a file is there and how large it is, wherever it lies",
            "what they write to their private directories is not limited in size",
        ]
        if os.getuid() == 0:
            missing.append("how many processes a command has is not limited for root")
        remedy = "use the sandbox bubblewrap"
        return tuple(Shortfall(what=each, remedy=remedy, fatal=False) for each in missing)

    def _rules(
        self, command: Invocation, view: View, copy: _CopyOfTree
    ) -> list[tuple[bytes, bool]] | None:
        """What may be read, and what may be written to as well."""
        found = [(os.fsencode(path), False) for path in plans.readable_system(command.network)]
        found += [(os.fsencode(path), True) for path in plans.HARMLESS_DEVICES]
        found += [(os.fsencode(each.path), False) for each in view.readable]
        found.append((os.fsencode(copy.tree), copy.is_writable))
        found += [(os.fsencode(path), True) for path in copy.private]
        if view.home is not None:
            found.append((os.fsencode(view.home), True))
        return found


def landlock_offered() -> int:
    """The version of Landlock's interface that this kernel has; not more than 0 for none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(
        libc.syscall(
            ctypes.c_long(_SYS_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1)
        )
    )


class _CopyOfTree:
    """The copy that one command works in. Its methods block."""

    def __init__(self, view: View, bytes_max: int, remove: Remove, place: Place) -> None:
        self._tree: Final[Tree] = view.trees[0]
        self._bytes_max = bytes_max
        self._remove = remove
        self._place = place
        self._upper = -1
        self._work = -1
        self._own: str | None = None
        self.path = self._tree.work or ""

    @property
    def is_writable(self) -> bool:
        return self._tree.upper is not None

    @property
    def tree(self) -> str:
        return f"{self.path}/{TREE}"

    @property
    def private(self) -> tuple[str, ...]:
        return (f"{self.path}/home", f"{self.path}/tmp")

    def make(self) -> None:
        if self._tree.upper is None:
            self.path = self._own = tempfile.mkdtemp(prefix="bailiwick-copy-", dir=self._place())
        else:
            self._upper = _opened(self._tree.upper)
            launch.lock_upper(self._upper)
        self._work = _opened(self.path)
        masked = [plans.masked_name(path) for path in self._tree.masked]
        with _lower(self._tree) as lower:
            fill(lower, self._work, masked, self._bytes_max)
        for path in self.private:
            os.mkdir(path, 0o700)

    def end(self) -> None:
        """When nothing of the command is left: what it changed goes where changes are kept."""
        try:
            if self._upper >= 0:
                gather(self._upper, self._work, self._remove)
        finally:
            self.discard()

    def discard(self) -> None:
        """Let go, and take away what is of no use to anybody. May be called twice."""
        work, self._work = self._work, -1
        upper, self._upper = self._upper, -1
        own, self._own = self._own, None
        if own is not None:
            with contextlib.suppress(OSError):
                if work >= 0:
                    self._empty(work)
                os.rmdir(own)
        if work >= 0:
            os.close(work)
        if upper >= 0:
            os.close(upper)

    def _empty(self, directory: int) -> None:
        """By its descriptor: a command may have put something else where it stood."""
        with os.scandir(directory) as entries:
            found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
        for name, is_directory in found:
            if is_directory:
                self._remove(directory, name)
            else:
                os.unlink(name, dir_fd=directory)


def _opened(path: str) -> int:
    try:
        return os.open(path, _DIRECTORY)
    except OSError as error:
        raise PathNotFound("a directory for what is changed cannot be opened") from error


@contextlib.contextmanager
def _lower(tree: Tree) -> Iterator[int]:
    try:
        if isinstance(tree.lower, int):
            fd = os.open(".", _DIRECTORY, dir_fd=tree.lower)
        else:
            fd = os.open(tree.lower, _DIRECTORY)
    except OSError as error:
        raise PathNotFound("a tree of the view cannot be opened") from error
    try:
        yield fd
    finally:
        os.close(fd)
