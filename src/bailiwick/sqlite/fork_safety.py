"""SQLite and fork(2): nobody is inside it when a process forks, and the child begins anew.

SQLite remembers for every file which locks the process holds. A child has this memory and none of
the locks: it would take the file for locked by a writer that does not exist there, for ever, or for
locked by itself, and read what the parent is overwriting. So the child closes what it has inherited
before it opens anything, which gives up nothing of the parent's: locks belong to a process. What is
half done cannot be closed, so a fork waits for transactions and statements under way.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet

import apsw

from bailiwick.errors import Busy

if TYPE_CHECKING:
    from bailiwick.sqlite.writer import WriterThread

_WAIT_S_MAX: Final = 15.0
"""How long a fork waits for others to come to an end of what they do. Longer than a writer waits
for another process, which is the longest that is to be expected."""

_PAUSE_S: Final = 0.000_2
"""Between two looks whether everybody has come out: about as long as a small statement takes."""

_SWITCH_S: Final = 1.0
"""So long the thread that forks keeps the interpreter, once everybody has come out."""


class _Inheritance:
    """What a child would have of this process."""

    def __init__(self) -> None:
        self.opening = threading.Lock()
        """Held while a connection is opened, and by whoever forks."""
        self.connections: WeakKeyDictionary[apsw.Connection, None] = WeakKeyDictionary()
        self.writers: WeakSet[WriterThread] = WeakSet()
        self.halves: list[apsw.Connection] = []
        """Connections on which something was half done when the parent forked. They can be neither
        used nor closed, and whoever was inside may have held what every other one needs."""
        self._held: list[threading.Lock] = []
        self._forks: int | None = None
        """The thread that has let nobody in. Another that forks meanwhile waits for it; and if that
        takes too long, forks as it is."""
        self._switch_s = sys.getswitchinterval()

    def before(self) -> None:
        """Wait until nobody is inside SQLite, and let nobody in."""
        until = time.monotonic() + _WAIT_S_MAX
        if not self.opening.acquire(timeout=_WAIT_S_MAX):
            return
        self._forks = threading.get_ident()
        self._switch_s = sys.getswitchinterval()
        self._held.append(self.opening)
        for writer in list(self.writers):
            wait_s = max(until - time.monotonic(), 0.0)
            # On its own thread a writer would wait for itself.
            if not writer.is_here and writer.busy.acquire(timeout=wait_s):
                self._held.append(writer.busy)
        # Readers have no lock: who waits for the interpreter is outside.
        sys.setswitchinterval(_SWITCH_S)
        while any(map(_is_in_use, list(self.connections))) and time.monotonic() < until:
            time.sleep(_PAUSE_S)

    def after(self) -> None:
        """Let everybody in again."""
        if self._forks != threading.get_ident():
            return
        self._forks = None
        sys.setswitchinterval(self._switch_s)
        while self._held:
            self._held.pop().release()

    def begin_anew(self) -> None:
        """For the child: let go of all that was inherited."""
        self._forks = threading.get_ident()  # the only thread there is here
        self.after()
        self.opening = threading.Lock()
        for connection in list(self.connections):
            try:
                if connection.txn_state() == apsw.SQLITE_TXN_WRITE:
                    self.halves.append(connection)  # to undo it would undo the parent's
                    continue
                # What the parent goes on using is not put in order by its child.
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close(True)
            except apsw.ConnectionClosedError:
                continue
            except apsw.Error:
                self.halves.append(connection)
        self.connections.clear()
        for writer in list(self.writers):
            writer.abandon()
        self.writers.clear()


def _is_in_use(connection: apsw.Connection) -> bool:
    try:
        connection.total_changes()
    except apsw.ThreadingViolationError:
        return True
    except apsw.Error:
        return False  # closed
    return False


_inheritance: Final = _Inheritance()
os.register_at_fork(
    before=_inheritance.before,
    after_in_parent=_inheritance.after,
    after_in_child=_inheritance.begin_anew,
)


def connect(path: str, **options: Any) -> apsw.Connection:
    """Open a connection that a forked child will not go on with. Raises `Busy` in a child that was
    forked in the middle of a statement, and what SQLite raises."""
    with _inheritance.opening:
        if _inheritance.halves:
            raise Busy(
                "this process was forked in the middle of a statement on a database",
                hint="open databases in a process that was started anew, or fork at another time",
            )
        connection = apsw.Connection(path, **options)
        _inheritance.connections[connection] = None
        return connection


def wait_for_at_fork(writer: WriterThread) -> None:
    """Whoever forks waits from now on for what a writer does."""
    with _inheritance.opening:
        _inheritance.writers.add(writer)
