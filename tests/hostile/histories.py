"""Attacks on a directory with a history: links put in the way of what is put back, a full state.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable

import bailiwick
from bailiwick.errors import BailiwickError
from tests.hostile import inside
from tests.hostile.attacker import Attacker
from tests.hostile.corpus import CONTAINMENTS
from tests.hostile.layouts import Layout, empty, litter, snapshot, without_times
from tests.hostile.upheaval import new_layout

OLD, NEW = b"old content, to be put back\n", b"new\n"
FILL_BYTES = 64 * 1024


def _state() -> str:
    state = f"{inside.arena()}/history-state"
    os.makedirs(state, mode=0o700, exist_ok=True)
    empty(state)
    return state


def _swapping(layout: Layout) -> str:
    """A directory with a file in it, and beside it a link that leads outside."""
    layout.file("into/d/x", OLD.decode())
    layout.link("into/evil", "../../outside")
    return f"{layout.root}/into"


def _outside(layout: Layout) -> dict[str, bytes]:
    found = {}
    for folder, _, files in os.walk(layout.outside):
        for name in files:
            with open(f"{folder}/{name}", "rb") as file:
                found[f"{folder}/{name}"] = file.read()
    return found


# --- a link in the way ------------------------------------------------------------------------


async def _link_in_the_way(containment: str) -> None:
    """The directory is a link by the time its content is to be put back: a conflict, and nothing
    is written, made or removed where it leads."""
    layout = new_layout()
    into = _swapping(layout)
    outside = _outside(layout)
    options = {"containment": containment, "durability": "rename", "state_dir": _state()}
    async with bailiwick.open(layout.root, history="on", **options) as fs:
        changed = await fs.write_bytes("into/d/x", NEW)
        made = await fs.write_bytes("into/d/secret", NEW)
        removed = await fs.remove("into/d/x")
        os.rename(f"{into}/d", f"{into}/aside")
        os.symlink("../../outside", f"{into}/d")
        for request in (changed.request_id, made.request_id, removed.request_id):
            undone = await fs.undo(request)
            assert undone.undone == [], undone
            assert undone.conflicts, undone
        for path in ("into/d/x", "into/d/secret"):
            with contextlib.suppress(BailiwickError):
                restored = await fs.restore(path, "1")
                assert restored.changed == 0, restored
        assert _outside(layout) == outside
        assert os.readlink(f"{into}/d") == "../../outside"


def link_in_the_way(containment: str) -> None:
    asyncio.run(_link_in_the_way(CONTAINMENTS[containment]))


def link_in_the_way_control() -> bool:
    """The same put back by name is written outside."""
    layout = new_layout()
    into = _swapping(layout)
    os.rename(f"{into}/d", f"{into}/aside")
    os.symlink("../../outside", f"{into}/d")
    with open(f"{into}/d/x", "wb") as file:
        file.write(OLD)
    return os.path.exists(f"{layout.outside}/x")


# --- a live attacker --------------------------------------------------------------------------


def _count_refused(counts: dict[str, int], error: BailiwickError) -> None:
    assert error.kind != "internal_error", error
    counts["refused"] += 1


async def _raced(tries: int, containment: str) -> dict[str, int]:
    layout = new_layout()
    into = _swapping(layout)
    outside = _outside(layout)
    counts = {"undone": 0, "conflicts": 0, "restored": 0, "refused": 0}
    options = {"containment": containment, "durability": "rename", "state_dir": _state()}
    async with bailiwick.open(layout.root, history="on", **options) as fs:
        first = await fs.write_bytes("into/d/x", NEW)
        version = (await fs.history("into/d/x")).versions[-1].version
        with Attacker("exchange", f"{into}/d", f"{into}/evil") as attacker:
            for number in range(tries):
                try:
                    changed = await fs.write_bytes("into/d/x", NEW + str(number).encode())
                    first = changed
                    if number % 3 == 0:
                        first = await fs.remove("into/d/x")
                    elif number % 3 == 1:
                        first = await fs.write_bytes("into/d/secret", NEW, mode="overwrite")
                except BailiwickError as error:
                    _count_refused(counts, error)
                try:
                    undone = await fs.undo(first.request_id)
                    counts["undone"] += len(undone.undone)
                    counts["conflicts"] += len(undone.conflicts)
                    restored = await fs.restore("into/d/x", version)
                    counts["restored"] += restored.changed
                except BailiwickError as error:
                    _count_refused(counts, error)
                assert _outside(layout) == outside, "it was led outside"
        counts["swaps"] = attacker.report.swaps
    assert litter(snapshot(layout.root)) == []
    return counts


def raced(tries: int, containment: str) -> dict[str, int]:
    return asyncio.run(_raced(tries, CONTAINMENTS[containment]))


def raced_control(tries: int) -> bool:
    """A program that looks where it is before it puts something back is led outside."""
    layout = new_layout()
    into = _swapping(layout)
    with Attacker("exchange", f"{into}/d", f"{into}/evil"):
        for _ in range(tries):
            path = f"{into}/d/restored"
            try:
                if not os.path.realpath(os.path.dirname(path)).startswith(layout.root):
                    continue
                with open(path, "wb") as file:
                    file.write(OLD)
            except OSError:
                continue
            if os.path.exists(f"{layout.outside}/restored"):
                return True
    return False


# --- a full state -----------------------------------------------------------------------------


async def _state_full() -> None:
    """There is no room for what stood there: nothing is changed, and once there is room, all is."""
    layout = new_layout()
    state = f"{inside.arena()}/full/root"
    os.makedirs(state, exist_ok=True)
    empty(state)
    acts = {
        "write": lambda fs: fs.write_bytes("f", b"x"),
        "append": lambda fs: fs.append("f", b"x"),
        "truncate": lambda fs: fs.truncate("f", 1),
        "remove": lambda fs: fs.remove("d", recursive=True),
        "move": lambda fs: fs.move("f", "other", replace=True),
        "set_mode": lambda fs: fs.set_mode("f", 0o600),
        "make_dir": lambda fs: fs.make_dir("p/q", parents=True),
        "copy": lambda fs: fs.copy("d", "copied", recursive=True),
        "symlink": lambda fs: fs.symlink("l", "f"),
        "stream": lambda fs: fs.write_stream("f", [b"a", b"b"]),
    }
    async with bailiwick.open(layout.root, history="on", state_dir=state) as fs:
        await fs.write_bytes("other", b"first\n")
        _fill(state)
        before = without_times(snapshot(layout.root))
        for name, act in acts.items():
            error = await _error_of(act(fs))
            assert error is not None, f"{name} was done, and cannot be undone"
            assert (error.kind, error.errno) == ("io_error", errno.ENOSPC), f"{name}: {error!r}"
            assert without_times(snapshot(layout.root)) == before, name
        for name in os.listdir(state):
            if name.startswith("fill"):
                os.unlink(f"{state}/{name}")
        changed = await fs.write_bytes("f", b"x")
        assert (await fs.undo(changed.request_id)).undone == ["f"]
        assert without_times(snapshot(layout.root)).keys() == before.keys()
    empty(state)


async def _error_of(act: Awaitable[object]) -> BailiwickError | None:
    try:
        await act
    except BailiwickError as error:
        return error
    return None


def _fill(directory: str) -> None:
    size, number = FILL_BYTES, 0
    while size:
        try:
            with open(f"{directory}/fill{number}", "wb", buffering=0) as file:
                while True:
                    file.write(b"x" * size)
        except OSError:
            size //= 16
            number += 1
    assert os.statvfs(directory).f_bavail == 0


def state_full() -> None:
    asyncio.run(_state_full())
