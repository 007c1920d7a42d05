"""An overlay over a volume that others write to all the time.

Every function here runs behind the wall. Whoever applies an overlay has read the volume a while
before: what others have written to it since is never lost, and what is said to be applied is there.
"""

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterator

import bailiwick
from bailiwick.errors import BailiwickError, InternalError
from tests.hostile import inside
from tests.hostile.layouts import empty

HEAD = "".join(f"line {number}\n" for number in range(40))
DIRECTORIES = ("one", "two")


class _Others:
    """Somebody who adds so many lines to a file, and moves directories about, unless told to
    stop."""

    def __init__(self, address: str, state_dir: str, lines: int) -> None:
        self._lines = lines
        self._address = address
        self._state_dir = state_dir
        self._stop = threading.Event()
        self.begun, self.done = threading.Event(), threading.Event()
        self.acknowledged: list[str] = []
        self.moves = 0

    def run(self) -> None:
        with bailiwick.open_sync(self._address, state_dir=self._state_dir) as fs:
            for number in range(self._lines):
                if self._stop.is_set():
                    break
                line = f"theirs {number}"
                fs.append("log", f"{line}\n".encode())
                self.acknowledged.append(line)
                with contextlib.suppress(BailiwickError):
                    fs.move(DIRECTORIES[number % 2], DIRECTORIES[1 - number % 2])
                    self.moves += 1
                self.begun.set()
        self.done.set()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            self.begun.wait(30)
            yield
        finally:
            self._stop.set()
            thread.join()


def _ground() -> tuple[str, str]:
    place = f"{inside.arena()}/shared-volume"
    os.makedirs(place, exist_ok=True)
    empty(place)
    address, state = f"sqlite:{place}/volume.db", f"{place}/state"
    with bailiwick.open_sync(address, state_dir=state) as fs:
        fs.write_text("log", HEAD)
        fs.make_dir("one")
        fs.write_text("one/f", "in a directory that moves\n")
    return address, state


async def _overlay_applied(lines: int) -> dict[str, int]:
    """As long as others write, and once when they have ended."""
    address, state = _ground()
    others, counts, applied = _Others(address, state, lines), Counter[str](), []
    async with bailiwick.open(f"overlay:{address}", state_dir=state) as fs:
        with others.at_work():
            last, number = False, 0
            while not last:
                last, number = others.done.is_set(), number + 1
                try:
                    read = await fs.read_text("log")
                    line = f"ours {number}"
                    # What is touched first here is what was read, and not what others made of it
                    # since: a write that expects nothing would replace that, in any tree.
                    await fs.write_text("log", f"{line}\n{read.text}", expected_sha256=read.sha256)
                    for name in DIRECTORIES:
                        with contextlib.suppress(BailiwickError):
                            await fs.write_text(f"{name}/f", f"{number}\n")
                    published = await fs.apply(publish=("atomic", "partial")[number % 2])
                    if "log" in {str(each.path) for each in published.changes}:
                        applied.append(line)
                        counts["applied"] += 1
                    counts["conflicts"] += len(published.conflicts)
                except InternalError:
                    raise
                except BailiwickError:
                    counts["refused"] += 1
                with contextlib.suppress(BailiwickError):
                    await fs.discard()
    with bailiwick.open_sync(address, state_dir=state) as fs:
        lines = fs.read_text("log").text.splitlines()
        found = fs.files(".").paths
    theirs = [each for each in lines if each.startswith("theirs")]
    assert theirs == others.acknowledged, "a line of others was lost"
    assert sorted(each for each in lines if each.startswith("ours")) == sorted(applied)
    assert [each for each in lines if each.startswith("line")] == HEAD.splitlines()
    assert len([each for each in found if each.endswith("/f")]) in (1, 2)
    counts |= {"tries": number, "moves": others.moves}
    return dict(counts)


def overlay_applied(lines: int) -> dict[str, int]:
    return asyncio.run(_overlay_applied(lines))


def plain_writes_control(tries: int) -> bool:
    """One who reads all, and writes it back with a line more, loses what others wrote between."""
    address, state = _ground()
    others = _Others(address, state, 10_000)
    with bailiwick.open_sync(address, state_dir=state) as fs, others.at_work():
        for number in range(tries):
            text = fs.read_text("log").text
            fs.write_text("log", f"ours {number}\n{text}")
    with bailiwick.open_sync(address, state_dir=state) as fs:
        lines = set(fs.read_text("log").text.splitlines())
    return any(each not in lines for each in others.acknowledged)
