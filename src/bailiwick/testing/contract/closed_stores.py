"""Closing: afterwards nothing works, and nothing is left half-done."""

from __future__ import annotations

import asyncio

from bailiwick.errors import Closed, PathNotFound
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import Store
from bailiwick.testing.contract import chunks
from bailiwick.testing.contract.case import CaseRoom, refuses
from bailiwick.testing.contract.names import ALL_VERBS
from bailiwick.testing.driver import Driver, StoreDriver

ROOM = CaseRoom()

PATIENCE_S = 20.0
"""Long enough for a slow machine; a close that waits for its own caller would wait for ever."""


@ROOM.case("after closing every verb is closed", rules=("LIFE-2",))
async def _(fs: Driver) -> None:
    await fs.write("there", b"x")
    await fs.aclose()
    for verb, call in ALL_VERBS.items():
        with refuses(Closed, what=verb):
            await call(fs, "there")


@ROOM.case("closing twice does nothing", rules=("LIFE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", b"x")
    await fs.aclose()
    await fs.aclose()
    with refuses(Closed):
        await fs.read("f")


@ROOM.case("closing ends a stream that is being read", rules=("LIFE-2",))
async def _(fs: Driver) -> None:
    await fs.write("f", chunks.pattern(4 * MiB))
    stream = fs.stream("f")
    first = await anext(aiter(stream))
    assert len(first) < 4 * MiB
    await asyncio.wait_for(fs.aclose(), PATIENCE_S)
    with refuses(Closed):
        async for _ in stream:
            pass


@ROOM.case("closing during a written stream leaves it whole or not at all", rules=("LIFE-2",))
async def _(fs: Driver) -> None:
    gate = chunks.Gate()
    writer = asyncio.ensure_future(fs.write_stream("f", gate.chunks()))
    await gate.wait_for(writer)
    closer = asyncio.ensure_future(fs.aclose())
    await asyncio.sleep(0)
    gate.opened.set()
    await asyncio.wait([writer, closer], timeout=PATIENCE_S)
    assert closer.done()
    error = writer.exception()
    assert error is None or type(error) is Closed, error


@ROOM.handle_case("handles outlive the store without harm", rules=("LIFE-2",))
async def _(store: Store) -> None:
    await StoreDriver(store).write("f", b"x")
    held = await store.resolve(ScopedPath("f"), "object")
    entry = await store.resolve(ScopedPath("f"), "entry")
    await asyncio.wait_for(store.aclose(), PATIENCE_S)
    for handle in (held, entry):
        with refuses(Closed):
            await store.stat(handle)
        handle.close()
        handle.close()


@ROOM.handle_case("a store describes itself", rules=("VOL-12",))
async def _(store: Store) -> None:
    assert isinstance(store, Store)
    assert store.description["kind"]
    assert all(isinstance(value, str) for value in store.description.values())
    assert all(isinstance(power, str) for power in store.powers)


@ROOM.handle_case("errors name the place and carry what they say", rules=("ERR-1", "PATH-7"))
async def _(store: Store) -> None:
    fs = StoreDriver(store)
    await fs.make_dir("d")
    errors = []
    for verb in ("read", "stat", "remove", "truncate", "readlink"):
        with refuses(PathNotFound, what=verb) as refusal:
            await ALL_VERBS[verb](fs, "d/nothing")
        errors.append(refusal.error)
    for error in errors:
        assert error.path == "d/nothing", error
        assert isinstance(error, OSError)
        assert error.errno == error.default_errno
        assert error.filename == "d/nothing"
