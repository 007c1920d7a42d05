"""What is written down beside a working copy while it is brought back or given up: whoever finds it
after a kill goes on from there."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from bailiwick.errors import IoError
from bailiwick.paths import ScopedPath
from bailiwick.versions import Mark, Plan, Touch
from bailiwick.working_copy import GivingUp, Publishing


@contextmanager
def readable() -> Generator[None, None, None]:
    """A record that says nothing, or something else, is damaged: whoever asked is told that."""
    try:
        yield
    except (msgspec.MsgspecError, AttributeError, LookupError, TypeError, ValueError):
        raise IoError(
            "the record of this working copy is damaged",
            hint="what it holds can be fetched by hand from the state directory",
        ) from None


def encode_publishing(what: Publishing) -> bytes:
    mark = what.mark
    return msgspec.msgpack.encode(
        {
            "touches": [tuple(each) for each in what.plan.touches],
            "over": dict(what.over),
            "mark": [mark.subject, mark.request_id, mark.lock_token, mark.key],
            "size_max": what.size_max,
            "merged": dict(what.merged),
            "partly": sorted(what.partly),
            "taken_back": what.taken_back,
            "kept": sorted(what.kept),
            "held": dict(what.held),
            "leading": dict(what.leading),
            "shut": dict(what.shut),
            "mounts": None if what.mounts is None else sorted(map(os.fsencode, what.mounts)),
            "aside": dict(what.aside),
        },
        enc_hook=str,
    )


def decode_publishing(data: bytes) -> Publishing:
    """Raises `IoError` for what is damaged."""
    with readable():
        found: dict[str, Any] = msgspec.msgpack.decode(data)
        mounts = found.get("mounts")
        touches = [
            Touch(*fields)._replace(
                path=ScopedPath(fields[0]),
                origin=None if fields[3] is None else ScopedPath(fields[3]),
            )
            for fields in found["touches"]
        ]
        subject, request_id, lock_token, *key = found["mark"]
        return Publishing(
            Plan(touches), {ScopedPath(path): version for path, version in found["over"].items()},
            Mark(subject, request_id, None, lock_token, *key), found["size_max"],
            {ScopedPath(path): data for path, data in found.get("merged", {}).items()},
            frozenset(map(ScopedPath, found.get("partly", ()))), found.get("taken_back"),
            frozenset(map(ScopedPath, found.get("kept", ()))),
            {ScopedPath(path): sha256 for path, sha256 in found.get("held", {}).items()},
            {ScopedPath(path): target for path, target in found.get("leading", {}).items()},
            {ScopedPath(path): mode for path, mode in found.get("shut", {}).items()},
            None if mounts is None else frozenset(map(os.fsdecode, mounts)),
            {ScopedPath(path): ScopedPath(at) for path, at in found.get("aside", {}).items()},
        )  # fmt: skip


def encode_giving_up(what: GivingUp) -> bytes:
    return msgspec.msgpack.encode(
        [what.key, what.whole, sorted(what.paths), dict(what.rewritten), dict(what.marks)],
        enc_hook=str,
    )


def decode_giving_up(data: bytes) -> GivingUp:
    """Raises `IoError` for what is damaged."""
    with readable():
        key, whole, paths, rewritten, marks = msgspec.msgpack.decode(data)
        return GivingUp(
            key, whole, frozenset(map(ScopedPath, paths)),
            {ScopedPath(path): data for path, data in rewritten.items()},
            {ScopedPath(path): mark for path, mark in marks.items()},
        )  # fmt: skip
