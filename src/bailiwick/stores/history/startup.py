"""Opening a store with a history: where it lies on the host, and what the dead left undone."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from bailiwick.errors import BailiwickError, PermissionDenied, from_os_error
from bailiwick.limits import Limits
from bailiwick.store import Store
from bailiwick.stores.history.core import Collect, HistoryCore
from bailiwick.stores.history.ledger import HistoryLedger
from bailiwick.stores.history.store import HistoryStore

KEEPER_FILE = "contents.db"
"""The volume that keeps large content, beside the rows of the history."""


def ambient_history_directory(state_dir: str, key: str) -> str:
    """The directory in which the history of a directory of the host is kept, made if missing.
    ``key`` is what that directory is called among all whose past is kept there. Raises
    `PermissionDenied` where others may look into it."""
    try:
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        above = os.path.join(state_dir, "history")
        directory = os.path.join(above, key)
        for each in (above, directory):
            with suppress(FileExistsError):
                os.mkdir(each, 0o700)
            status = os.lstat(each)
            if status.st_mode & 0o077 or status.st_uid != os.getuid():
                raise PermissionDenied("others may look into the directory of the history")
    except BailiwickError:
        raise
    except OSError as error:
        failed = from_os_error(error)
        failed.hint = "set $XDG_STATE_HOME, or pass state_dir: one that can be written"
        raise failed from None
    return directory


def open_history(
    inner: Store,
    directory: str,
    open_keeper: Callable[[str], Store],
    *,
    durable: bool = True,
    limits: Limits | None = None,
    collect: Callable[[Store], Collect] | None = None,
) -> HistoryStore:
    """Wrap ``inner`` in a history kept in ``directory``, a private directory of the host. Blocks.

    ``open_keeper`` opens the store, in a file of that directory, that keeps large content;
    ``collect`` tells how it is rid of what it does not need any more. What is written down survives
    a power cut where ``durable``, as the tree's own files then do.
    """
    ledger = HistoryLedger.open(directory, durable=durable)
    try:
        keeper = open_keeper(os.path.join(directory, KEEPER_FILE))
    except BaseException:
        ledger.close_blocking()
        raise
    rid = None if collect is None else collect(keeper)
    return HistoryStore(HistoryCore(inner, ledger, keeper, limits=limits or Limits(), collect=rid))
