"""Telling others what changed. A listener's exception never reaches the writer."""

from __future__ import annotations

import logging
from collections.abc import Callable

from bailiwick.model import Change

_log = logging.getLogger("bailiwick.events")

Listener = Callable[[Change], None]


class Changes:
    """Hands every change of one root to whoever listens, in order."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each change; the answer ends it, and may be called twice."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    def publish(self, change: Change) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener(change)
            except Exception as error:
                _log.warning("change listener failed", exc_info=error)
