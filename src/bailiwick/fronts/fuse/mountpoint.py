"""One mount, from its beginning to its end."""

from __future__ import annotations

import contextlib
import os
import select
from typing import Final, Self

from bailiwick.fronts.fuse.device import attach, detach, mounted_at, open_table
from bailiwick.fronts.fuse.server import Answering, FuseWorkers
from bailiwick.fronts.fuse.tree import MountedTree
from bailiwick.portal import SyncScope

_CHANGES: Final = frozenset(("write", "delete"))
_END_SECONDS_MAX: Final = 10.0
"""How long what is under way may take when the mount ends: a question to a person takes longer,
and is not waited for."""

_UNREACHABLE_SECONDS_MAX: Final = 1.0
"""The same where it was unmounted by others, and is still there in another namespace: nobody can be
woken."""


class FuseMount:
    """A scope, mounted on a directory while this is entered.

    ``as_of`` shows what was at a version or snapshot; that, a grant that changes nothing and
    ``read_only`` are mounted read-only. Leaving it publishes what is still being written.
    """

    def __init__(
        self,
        scope: SyncScope,
        directory: str,
        *,
        as_of: str | None = None,
        read_only: bool = False,
    ) -> None:
        self.directory = os.path.abspath(directory)
        self.read_only = (
            read_only or as_of is not None or not scope.access & _CHANGES or not scope.root.trusted
        )
        self._scope = scope
        self._as_of = as_of
        self._tree = MountedTree(scope, as_of=as_of, read_only=self.read_only)
        self._descriptor = self._ending = self._end = -1
        self._over = False
        self._workers: FuseWorkers | None = None

    def __enter__(self) -> Self:
        self._scope.lstat(".", as_of=self._as_of)  # before anything is mounted in vain
        self._descriptor = attach(self.directory, read_only=self.read_only)
        self._ending, self._end = os.pipe()
        os.set_blocking(self._end, False)
        self._workers = FuseWorkers(self._descriptor, Answering(self._tree), self.end)
        self._workers.start()
        return self

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody unmounts it, or says by `end` that it is over; whether that was."""
        with open_table() as table:
            while not self._over and mounted_at(self.directory) is not None:
                # The table is told of by what select calls an exception.
                told, _, changed = select.select([self._ending], [], [table], timeout_s)
                if told or not changed:
                    return bool(told)
        return True

    def end(self) -> None:
        """Have `wait` come back, also before it is entered. For handlers of signals too: it takes
        no lock."""
        self._over = True
        if self._end >= 0:
            with contextlib.suppress(OSError):  # it was said often enough, or has ended
                os.write(self._end, b"x")

    def __exit__(self, *error: object) -> None:
        workers, self._workers = self._workers, None
        if workers is None:
            return
        with contextlib.ExitStack() as stack:
            patience = _END_SECONDS_MAX
            if not workers.ended.is_set():
                patience = self._detach(workers, stack)
            self._tree.contents.publish_all()
            if workers.join(patience):
                self._tree.contents.close()
                end, self._end = self._end, -1
                for descriptor in (self._descriptor, self._ending, end):
                    os.close(descriptor)

    def _detach(self, workers: FuseWorkers, stack: contextlib.ExitStack) -> float:
        """Take it out of the tree; how long it may take to end.

        Programs that still have files open, and mounts of other namespaces that were made of this
        one, keep threads waiting until the descriptor is closed, which ends it for them too. So
        the threads are woken, by what is asked of the top that is held meanwhile.
        """
        if mounted_at(self.directory) is None:
            return _UNREACHABLE_SECONDS_MAX
        top = os.open(self.directory, os.O_PATH | os.O_DIRECTORY)
        stack.callback(os.close, top)
        detach(self.directory)
        workers.end(lambda: _ask(top))
        return _END_SECONDS_MAX


def _ask(top: int) -> None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        os.fstatvfs(top)
