"""Following the changes of a root, as far as one grant sees them.

A watch is one call, put on record when it begins; what it tells later was recorded by whoever made
it. Grant and policy are asked about every change: what is hidden is not there, whatever happens to
it. What a rule refuses is told all the same: that a name changed says no more than a listing does.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal

import msgspec

from bailiwick.call import Call
from bailiwick.errors import BailiwickError, ParseError
from bailiwick.events import Cursor, Feed, Listener, parse_cursor
from bailiwick.finishing import cause_of
from bailiwick.model import Change, EntryType
from bailiwick.paths import ScopedPath
from bailiwick.policy import Hide

Holds = Callable[[], None]
"""Raises when the grant does not hold any more."""


async def watch(
    call: Call, feed: Feed, since: str | None, expand: bool, holds: Holds
) -> AsyncGenerator[Change, None]:
    """Every change at or beneath the call's path, from ``since`` on.

    With ``expand`` a directory that was moved, copied or removed whole is told path by path, and
    each of these can be continued from. Closing the scope ends it with `Closed`, a grant that
    ends with what `Standing.check` raises.
    """
    pipeline = call.pipeline
    try:
        with pipeline.working():
            if not isinstance(expand, bool):
                raise ParseError("expand is true or false")
            cursor = None if since is None else parse_cursor(since)
            await pipeline.admit(call)
            view = FeedView(call)
            record = pipeline.succeeded(call)
            await pipeline.observed(call, record)
    except BaseException as error:
        with pipeline.working():
            raise await pipeline.failed(call, error) from cause_of(error)
    changes = feed.follow(since, holds)
    try:
        async with aclosing(changes):
            async for change in changes:
                pipeline.refuse_closed()
                holds()
                if not expand:
                    told = view.seen(change)
                    if told is not None:
                        yield told
                    continue
                for told in _after(view.expanded(change), change, cursor):
                    yield told
    except BailiwickError as error:
        error.request_id = call.request_id
        raise


def _after(parts: list[Change], change: Change, since: Cursor | None) -> list[Change]:
    """The parts of an expanded change that were not given out yet, each with its own cursor."""
    if change.kind in ("reset", "rescan") or not parts:
        return parts
    here = parse_cursor(change.cursor)
    last = len(parts)
    numbered = [
        part if number == last else msgspec.structs.replace(
            part, cursor=here._replace(part=number).text
        )
        for number, part in enumerate(parts, start=1)
    ]  # fmt: skip
    given = since is not None and (since.feed, since.sequence) == (here.feed, here.sequence)
    return numbered[since.part :] if since is not None and given else numbered


async def listen(call: Call, feed: Feed, callback: Listener, holds: Holds) -> Callable[[], None]:
    """Have ``callback`` called with every change that the call's grant sees; returns what ends it.

    It is called on the event loop. What it raises is logged and concerns nobody else. It is called
    no more once the grant does not hold.
    """
    if not callable(callback) or inspect.iscoroutinefunction(callback):
        raise ParseError("a listener is a plain function of one change")
    view = FeedView(call)

    def listener(change: Change) -> None:
        try:
            holds()
        except BailiwickError:
            unsubscribe()
            return
        told = view.seen(change)
        if told is not None:
            callback(told)

    unsubscribe = feed.subscribe(listener)
    try:
        await feed.ready()
    except BaseException:
        unsubscribe()
        raise
    return unsubscribe


class FeedView:
    """The changes of a root as one grant sees them, at or beneath one path."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._base = call.handle.path
        self._base_type: EntryType = call.handle.type or "directory"

    def seen(self, change: Change) -> Change | None:
        """The change, or what of it is seen: of a move out of sight a removal, of one into sight a
        creation, of a directory above the watched one what becomes of that. None for nothing."""
        if change.kind == "reset":
            return msgspec.structs.replace(change, path=self._base)
        if change.kind == "rescan":
            return self._rescan(change)
        here = self._sees(change.path, change.type)
        there = change.origin is not None and self._sees(change.origin, change.type)
        if here and (there or change.origin is None):
            return self._shown(change)
        if here:
            return self._shown(msgspec.structs.replace(change, kind="created", origin=None))
        if there and change.origin is not None:
            return self._shown(
                msgspec.structs.replace(
                    change, kind="deleted", path=change.origin, origin=None, version=None
                )
            )
        return self._seen_from_below(change) if change.subtree else None

    def expanded(self, change: Change) -> list[Change]:
        """A change as it is seen, one for every path of a directory that was told as a whole."""
        if not change.subtree:
            told = self.seen(change)
            return [] if told is None else [told]
        top = msgspec.structs.replace(
            change, subtree=False, beneath=(), beneath_truncated=False, beneath_links=()
        )
        parts = [self.seen(top)]
        inner = {name.rpartition("/")[0] for name in change.beneath}
        for name in change.beneath:
            plain = name.rstrip("/")
            kind: EntryType = "symlink" if plain in change.beneath_links else "file"
            kind = "directory" if name.endswith("/") or plain in inner else kind
            origin = None if change.origin is None else change.origin.child(plain)
            part = msgspec.structs.replace(
                top, path=change.path.child(plain), type=kind, origin=origin, version=None
            )
            parts.append(self.seen(part))
        if change.beneath_truncated:
            sides = [change.path] if change.origin is None else [change.path, change.origin]
            parts.extend(self._rescan(_rescan_of(change, side)) for side in sides)
        return [part for part in parts if part is not None]

    def _sees(self, path: ScopedPath, kind: EntryType) -> bool:
        if not path.lies_in(self._base):
            return False
        return not isinstance(self._call.decide(path, is_directory=kind == "directory"), Hide)

    def _shown(self, change: Change) -> Change:
        """Without the names beneath it that are hidden, where it stands or stood."""
        if not change.beneath:
            return change
        for top in (change.path, change.origin):
            if top is not None and self._call.must_decide_below(top):
                names = tuple(name for name in change.beneath if self._sees_beneath(top, name))
                links = tuple(name for name in change.beneath_links if name in names)
                change = msgspec.structs.replace(change, beneath=names, beneath_links=links)
        return change

    def _sees_beneath(self, top: ScopedPath, name: str) -> bool:
        path = top.child(name.rstrip("/"))
        if name.endswith("/"):
            return self._sees(path, "directory")
        return self._sees(path, "file") and self._sees(path, "directory")

    def _rescan(self, change: Change) -> Change | None:
        """Something there may have gone unnoticed; a path that is not seen is not named."""
        if self._sees(change.path, change.type):
            return change
        if change.path.lies_in(self._base) or self._base.lies_in(change.path):
            return msgspec.structs.replace(change, path=self._base)
        return None

    def _seen_from_below(self, change: Change) -> Change | None:
        """What became of the watched path when a directory above it was changed whole."""
        base, kind = self._base, change.kind
        for top, became in self._sides(change, "deleted" if kind == "deleted" else "created"):
            if not base.lies_in(top) or not self._sees(base, self._base_type):
                continue
            name = str(base.relative_to(top))
            beneath = [each for each in change.beneath if each.rstrip("/") == name]
            if not beneath:
                # Not among the names that are known: nothing stood there, or nobody knows.
                return _rescan_of(change, base) if change.beneath_truncated else None
            inner, links = _below(name, change.beneath), _below(name, change.beneath_links)
            is_directory = beneath[0].endswith("/") or bool(inner)
            kind_here: EntryType = "symlink" if name in change.beneath_links else "file"
            told = msgspec.structs.replace(
                change, kind=became, path=base, origin=None, version=None, subtree=is_directory,
                type="directory" if is_directory else kind_here, beneath=inner,
                beneath_links=links,
            )  # fmt: skip
            return self._shown(told)
        return None

    def _sides(
        self, change: Change, became: Literal["created", "deleted"]
    ) -> list[tuple[ScopedPath, Literal["created", "deleted"]]]:
        if change.origin is None:
            return [(change.path, became)]
        return [(change.path, "created"), (change.origin, "deleted")]


def _below(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some names that lie below one of them, as seen from there."""
    prefix = name + "/"
    return tuple(
        each[len(prefix) :] for each in names if each.startswith(prefix) and each != prefix
    )


def _rescan_of(change: Change, path: ScopedPath) -> Change:
    return msgspec.structs.replace(
        change, kind="rescan", path=path, type="directory", origin=None, version=None,
        subtree=False, beneath=(), beneath_truncated=False, beneath_links=(),
    )  # fmt: skip
