"""kill -9 of processes that write to one volume, sixteen writers at a time.

Two processes with eight writers each overwrite, create, append, move, replace and compare-and-swap
files whose content carries its own checksum; some contents are large enough to go to the blob
store. One process is killed while the other goes on, then that one too. After each pair every file
must be at the state that was acknowledged last or the one that was under way, `check` must find
nothing, and what is left over may be blobs that nothing names, which gc takes away.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import random
import time
from collections.abc import Awaitable
from typing import Any, NamedTuple

from bailiwick.errors import HashMismatch, PathNotFound
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
from tests.hostile import inside
from tests.hostile.children import fork, kill_after, read, wait_for_start
from tests.hostile.documents import document, number_in
from tests.hostile.layouts import empty

PROCESSES = 2
WRITERS = 8
SIZES = (200, 200, 5_000, 5_000, 200_000, 1_600_000)
LIFE_SECONDS_MAX = 0.15
KILLS_AT_START = 5
"""One pair in so many is killed whether it has opened the volume or not."""
DAYS_AHEAD_NS = 3 * 24 * 3600 * 10**9
"""The one who looks lives later: what the dead have left behind is old enough to be collected."""


# --- the children ----------------------------------------------------------------------------


class Writer:
    """One of many that do random operations in one process, each on names of its own."""

    def __init__(self, fs: StoreDriver, name: str, notes: int, start: int) -> None:
        self.fs = fs
        self.name = name
        self.notes = notes
        self.number = start
        self.random = random.Random(f"{name} {start}")

    def note(self, *words: object) -> None:
        os.write(self.notes, (" ".join(map(str, words)) + "\n").encode())

    async def run(self) -> None:
        actions = (self.overwrite, self.overwrite, self.create, self.append, self.move_over,
                   self.swap, self.remove)  # fmt: skip
        while True:
            self.number += 1
            await self.random.choice(actions)()

    async def noted(self, name: str, value: object, act: Awaitable[Any]) -> None:
        self.note("begin", name, value)
        await act
        self.note("done", name, value)

    def content(self) -> bytes:
        return document(self.number, self.random.choice(SIZES))

    async def overwrite(self) -> None:
        name = f"{self.name}/doc{self.random.randrange(3)}"
        await self.noted(name, self.number, self.fs.write(name, self.content(), parents=True))

    async def create(self) -> None:
        name = f"{self.name}/new/{self.number}"
        write = self.fs.write(name, self.content(), mode="create", parents=True)
        await self.noted(name, self.number, write)

    async def append(self) -> None:
        number = str(self.number).encode()
        line = number + b" " + hashlib.sha256(number).hexdigest().encode() + b"\n"
        name = f"{self.name}/log"
        await self.noted(name, self.number, self.fs.append(name, line, parents=True))

    async def move_over(self) -> None:
        await self.fs.write(f"{self.name}/staged", self.content(), parents=True)
        move = self.fs.move(f"{self.name}/staged", f"{self.name}/target", replace=True)
        await self.noted(f"{self.name}/target", self.number, move)

    async def remove(self) -> None:
        name = f"{self.name}/doc0"
        with contextlib.suppress(PathNotFound):
            await self.fs.stat(name)
            await self.noted(name, 0, self.fs.remove(name))

    async def swap(self) -> None:
        """One counter for all: what one has not seen it must not overwrite."""
        before = await self.fs.read("counter")
        value = (number_in(before) or 0) + 1
        digest = hashlib.sha256(before).hexdigest()
        content = document(value, self.random.choice(SIZES[:4]))
        self.note("try", "counter", value)
        with contextlib.suppress(HashMismatch):
            await self.fs.write("counter", content, expected_sha256=digest)
            self.note("did", "counter", value)


async def _write_until_killed(path: str, process: int, notes: int, start: int) -> None:
    fs = StoreDriver(VolumeStore.open(path))
    os.write(notes, b"opened volume 0\n")
    writers = [Writer(fs, f"p{process}w{number}", notes, start) for number in range(WRITERS)]
    await asyncio.gather(*(writer.run() for writer in writers))


# --- the one who looks -----------------------------------------------------------------------


class Seen(NamedTuple):
    """A volume after a kill: what each file holds, and what is wrong with the whole."""

    states: dict[str, int | None]
    logs: dict[str, list[int] | None]
    problems: list[str]
    unnamed: int
    left: int


async def _look(path: str) -> dict[str, Any]:
    fs = StoreDriver(VolumeStore.open(path, clock_ns=lambda: time.time_ns() + DAYS_AHEAD_NS))
    try:
        states: dict[str, int | None] = {}
        logs: dict[str, list[int] | None] = {}
        for directory, name in await _files(fs):
            place = f"{directory}/{name}" if directory else name
            data = await fs.read(place)
            if name == "log":
                logs[place] = _numbers(data)
            else:
                states[place] = number_in(data)
        checked = await fs.store.versions.check()
        problems = [f"{each.what} ({each.path})" for each in checked.problems]
        unnamed = len(await _unnamed_blobs(fs, path))
        for directory in {place.rpartition("/")[0] for place in states if "/new/" in place}:
            await fs.remove(directory, recursive=True)  # seen once is enough
        await fs.store.versions.collect(keep_days=0)
        left = len(await _unnamed_blobs(fs, path))
        again = await fs.store.versions.check()
        problems += [f"after gc: {each.what} ({each.path})" for each in again.problems]
    finally:
        await fs.aclose()
    return Seen(states, logs, problems, unnamed, left)._asdict()


async def _files(fs: StoreDriver) -> list[tuple[str, str]]:
    found, waiting = [], [""]
    while waiting:
        directory = waiting.pop()
        for entry in await fs.entries(directory or "."):
            if entry.type == "directory":
                waiting.append(f"{directory}/{entry.name}" if directory else entry.name)
            else:
                found.append((directory, entry.name))
    return found


def _numbers(data: bytes) -> list[int] | None:
    numbers = []
    for line in data.splitlines(keepends=True):
        number, _, digest = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or hashlib.sha256(number).hexdigest().encode() != digest:
            return None
        numbers.append(int(number))
    return numbers


async def _unnamed_blobs(fs: StoreDriver, path: str) -> list[str]:
    """Files of the blob folder that no chunk names. A named one that is missing is for `check`."""
    async with fs.store.core.looking() as session:
        rows = await session.rows("SELECT blob FROM chunk WHERE blob IS NOT NULL")
    named = {f"{path}-blobs/{key}" for (key,) in rows}
    there = [f"{folder}/{name}" for folder, _, names in os.walk(f"{path}-blobs") for name in names]
    return [blob for blob in there if blob not in named]


# --- the one who kills -----------------------------------------------------------------------


class Record:
    """What was begun and what was acknowledged, over all kills."""

    def __init__(self) -> None:
        self.done: dict[str, int | None] = {"counter": 0}
        self.begun: dict[str, int | None] = {}
        self.logs: dict[str, list[int]] = {}
        self.swaps = self.tries = 0

    def take(self, notes: str) -> None:
        """Read what one process noted; of a line that the kill has cut nothing is known."""
        for line in notes.splitlines(keepends=True):
            words = line.split()
            if len(words) != 3 or not line.endswith("\n"):
                continue
            word, name, value = words[0], words[1], int(words[2])
            if word == "begin":
                self.begun[name] = value
            elif word == "done":
                self.done[name] = value
                if name.endswith("/log"):
                    self.logs.setdefault(name, []).append(value)
            elif word == "try":
                self.tries = max(self.tries, value)
            elif word == "did":
                self.swaps = max(self.swaps, value)

    def compare(self, seen: Seen) -> list[str]:
        """What is not as it was acknowledged. What was under way and has happened counts now."""
        faults = [*seen.problems]
        if seen.left:
            faults.append(f"{seen.left} blobs are named by nothing after gc")
        faults += self._compare_counter(seen.states.pop("counter", None))
        for name in sorted({*self.done, *self.begun, *seen.states}):
            if name == "counter" or name.endswith(("/log", "/staged")):
                continue
            there, is_there = seen.states.get(name), name in seen.states
            allowed = {self.done.get(name) or None, self.begun.get(name) or None}
            if name not in self.begun:
                allowed = {self.done.get(name) or None}
            elif name not in self.done:
                allowed.add(None)
            if is_there and there is None:
                faults.append(f"{name} is torn")
            elif there not in allowed:
                faults.append(f"{name} is at {there}, not one of {allowed}")
            self.done[name] = there
        for name, numbers in seen.logs.items():
            faults += self._compare_log(name, numbers)
        self.done = {n: v for n, v in self.done.items() if "/new/" not in n and v is not None}
        self.done.setdefault("counter", 0)
        self.begun = {}
        return faults

    def _compare_counter(self, value: int | None) -> list[str]:
        if value is None or not self.swaps <= value <= max(self.tries, self.swaps):
            return [f"the counter is at {value}; {self.swaps} was acknowledged"]
        self.swaps = value
        return []

    def _compare_log(self, name: str, numbers: list[int] | None) -> list[str]:
        known = self.logs.get(name, [])
        if numbers is None:
            return [f"{name} is torn"]
        extra = numbers[len(known) :]
        if numbers[: len(known)] != known or not set(extra) <= {self.begun.get(name)}:
            return [f"{name} has {len(numbers)} records, {len(known)} were acknowledged"]
        self.logs[name] = numbers
        return []


def kill_often(kills: int, seed: int) -> dict[str, Any]:
    """The whole of it, in a process of its own that has no threads to fork."""
    place = f"{inside.arena()}/crash-volume"
    os.makedirs(place, exist_ok=True)
    empty(place)
    path, chance, record = f"{place}/v.db", random.Random(seed), Record()
    _in_child(_prepare, path, place)
    faults: list[str] = []
    done = operations = early = unnamed = 0
    while done < kills and len(faults) <= 20:
        texts = _kill_pair(path, place, done, chance)
        done += PROCESSES
        for text in texts:
            early += "opened" not in text
            operations += text.count("done ") + text.count("did ")
            record.take(text)
        seen = Seen(**_in_child(_look, path, place))
        unnamed += seen.unnamed
        faults += [f"kill {done}: {fault}" for fault in record.compare(seen)]
        if done % 50 == 0:
            inside.progress(f"volume: {done:,} kills, {operations:,} operations")
    return {"kills": done, "writers": PROCESSES * WRITERS, "operations": operations,
            "killed_while_starting": early, "unnamed_blobs_collected": unnamed,
            "swaps": record.swaps, "faults": faults}  # fmt: skip


def _kill_pair(path: str, place: str, done: int, chance: random.Random) -> list[str]:
    """Start both, kill one while the other goes on, then the other: what each of them noted."""
    files = [f"{place}/notes{number}" for number in range(PROCESSES)]
    children = []
    for number, file in enumerate(files):
        notes = os.open(file, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND, 0o600)
        start = done * 100_000 + 1
        children.append(
            fork(lambda: asyncio.run(_write_until_killed(path, number, notes, start)))  # noqa: B023
        )
        os.close(notes)
    if (done // PROCESSES) % KILLS_AT_START:
        for file in files:
            wait_for_start(file)
    for child in chance.sample(children, len(children)):
        if not kill_after(child, chance.uniform(0.0, LIFE_SECONDS_MAX)):
            raise RuntimeError("a process ended by itself")
    return [(read(file) or b"").decode() for file in files]


async def _prepare(path: str) -> dict[str, Any]:
    fs = StoreDriver(VolumeStore.open(path))
    await fs.write("counter", document(0, 10))
    await fs.aclose()
    return {}


def _in_child(act: Any, path: str, place: str) -> dict[str, Any]:
    """Run a coroutine in a child, so that this process never has a thread; what it returned."""
    answer = f"{place}/answer"

    def work() -> None:
        result = asyncio.run(act(path))
        with open(answer, "w") as file:
            json.dump(result, file)

    child = fork(work)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise RuntimeError(f"{act.__name__} failed")
    with open(answer) as file:
        result: dict[str, Any] = json.load(file)
    return result


# --- by hand ---------------------------------------------------------------------------------


def run(kills: int, seed: int) -> dict[str, Any]:
    return inside.apart(kill_often, kills, seed, timeout_s=3_000)
