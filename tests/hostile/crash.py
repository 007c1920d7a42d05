"""kill -9 at random instants, and many processes at one file.

    python -m tests.hostile.crash --kills 1000

A child overwrites, creates, edits, appends, compares-and-swaps and moves files whose content
carries its own checksum. It notes each operation before it begins and after it was acknowledged.
After each kill every file must be whole, at the state that was acknowledged last or the one that
was under way; the next start must find or leave no staging name. The plain way, `open(path, "w")`,
is killed in the same run and must be seen to leave torn or empty files.

Killing a process keeps what the kernel holds, so this says nothing about a power cut: that is what
`durability = "full"` and its flushes are for.
"""

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import bailiwick
from bailiwick.errors import Busy, HashMismatch
from bailiwick.paths import RESERVED_PREFIX
from tests.hostile import crash_volume, inside
from tests.hostile.children import HANG_SECONDS, fork, kill_after, read, wait_for_start
from tests.hostile.documents import document, number_in
from tests.hostile.layouts import empty
from tests.hostile.wall import Wall
from tests.waiting import PATIENCE_S, let_pass_blocking, until_blocking

SIZES = (200, 5_000, 200_000, 1_500_000)
LIFE_SECONDS_MAX = 0.06
KILL_SECONDS_MAX = 5
"""With what is looked at after it, on a machine that has much else to do."""
PLAIN_BYTES = 8 << 20
PIECE = 64 << 10
PLACES = 4
KILLS_AT_START = 5
"""One kill in so many may come before the root is open."""
KILLS_BETWEEN_CLEARINGS = 50


# --- content that knows whether it is whole --------------------------------------------------


def text_version(data: bytes) -> int | None:
    head, _, filler = data.partition(b"\n")
    words = head.split()
    if len(words) != 2 or words[0] != b"version" or filler != b"filler\n" * 9_000:
        return None
    return int(words[1])


def log_numbers(data: bytes) -> list[int] | None:
    numbers = []
    for line in data.splitlines(keepends=True):
        number, _, digest = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or hashlib.sha256(number).hexdigest().encode() != digest:
            return None
        numbers.append(int(number))
    return numbers


def staging_names(root: str) -> list[str]:
    return [
        f"{directory}/{name}"
        for directory, directories, files in os.walk(root)
        for name in directories + files
        if name.startswith(RESERVED_PREFIX)
    ]


# --- the child -------------------------------------------------------------------------------


class Worker:
    """Does one random operation after another until it is killed."""

    def __init__(self, fs: bailiwick.Scope, root: str, notes: int, start: int) -> None:
        self.fs = fs
        self.root = root
        self.notes = notes
        self.number = start
        self.random = random.Random(start)

    def note(self, *words: object) -> None:
        os.write(self.notes, (" ".join(map(str, words)) + "\n").encode())

    async def run(self, count: int) -> None:
        actions = (self.overwrite, self.create, self.swap, self.append, self.edit, self.move,
                   self.move_over)  # fmt: skip
        for _ in range(count):
            self.number += 1
            await self.random.choice(actions)()

    async def noted(self, what: str, value: object, act: Awaitable[Any]) -> None:
        self.note("begin", what, value)
        await act
        self.note("done", what, value)

    def content(self) -> bytes:
        return document(self.number, self.random.choice(SIZES))

    async def overwrite(self) -> None:
        name = f"doc{self.random.randrange(4)}"
        await self.noted(name, self.number, self.fs.write_bytes(name, self.content()))

    async def create(self) -> None:
        name = f"new/{self.number}"
        write = self.fs.write_bytes(name, self.content(), mode="create", parents=True)
        await self.noted(name, self.number, write)

    async def swap(self) -> None:
        before = await self.fs.read_bytes("counter")
        value = (number_in(before.data) or 0) + 1
        content = document(value, self.random.choice(SIZES[:3]))
        write = self.fs.write_bytes("counter", content, expected_sha256=before.sha256)
        await self.noted("counter", value, write)

    async def append(self) -> None:
        number = str(self.number).encode()
        line = number + b" " + hashlib.sha256(number).hexdigest().encode() + b"\n"
        await self.noted("log", self.number, self.fs.append("log", line))

    async def edit(self) -> None:
        data = read(f"{self.root}/text") or b""
        version = text_version(data)
        edit = self.fs.edit("text", old=f"version {version}\n", new=f"version {version + 1}\n")
        await self.noted("text", version + 1, edit)

    async def move(self) -> None:
        here = next(n for n in range(PLACES) if os.path.exists(f"{self.root}/wander/{n}"))
        there = (here + self.random.randrange(1, PLACES)) % PLACES
        move = self.fs.move(f"wander/{here}", f"wander/{there}")
        await self.noted("wander", there, move)

    async def move_over(self) -> None:
        await self.fs.write_bytes("staged", self.content())
        move = self.fs.move("staged", "target", replace=True)
        await self.noted("target", self.number, move)


async def _work(root: str, notes: int, start: int, durability: str) -> None:
    async with bailiwick.open(root, durability=durability) as fs:
        worker = Worker(fs, root, notes, start)
        worker.note("opened", len(staging_names(root)))
        await worker.run(100_000)


# --- the one who kills -----------------------------------------------------------------------


class Ledger:
    """What was begun and what was acknowledged, over all kills."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.log: list[int] = []

    def take(self, notes: str) -> list[str]:
        """Read the notes of one child; says what is wrong with them already."""
        self.begun = dict(self.done)
        faults = []
        for line in notes.splitlines():
            word, *rest = line.split(" ")
            if word == "opened":
                if rest != ["0"]:
                    faults.append(f"{rest[0]} staging names were left after a start")
                continue
            name, value = rest[0], int(rest[1])
            (self.begun if word == "begin" else self.done)[name] = value
            if word == "done" and name == "log":
                self.log.append(value)
        return faults

    def allowed(self, name: str) -> set[int | None]:
        """The states a file may be in: acknowledged, or under way."""
        return {self.done.get(name), self.begun.get(name)}


def verify(root: str, ledger: Ledger) -> list[str]:
    faults = []
    names = {*ledger.done, *ledger.begun} - {"log", "text", "wander"}
    for name in sorted(names):
        data = read(f"{root}/{name}")
        state = None if data is None else number_in(data)
        if data is not None and state is None:
            faults.append(f"{name} is torn: {len(data)} bytes, {data[:40]!r}")
        elif state not in ledger.allowed(name):
            faults.append(f"{name} is at {state}, not {ledger.allowed(name)}")
        elif state is not None:
            # What was under way has happened: from now on it counts.
            ledger.done[name] = state
    faults += _verify_text(root, ledger) + _verify_log(root, ledger) + _verify_place(root, ledger)
    return faults


def _verify_text(root: str, ledger: Ledger) -> list[str]:
    version = text_version(read(f"{root}/text") or b"")
    if version not in ledger.allowed("text"):
        return [f"text is at {version}, not {ledger.allowed('text')}"]
    ledger.done["text"] = version
    return []


def _verify_log(root: str, ledger: Ledger) -> list[str]:
    numbers = log_numbers(read(f"{root}/log") or b"")
    if numbers is None:
        return ["the log is torn"]
    under_way = {ledger.begun.get("log")} - {ledger.done.get("log")}
    extra = numbers[len(ledger.log) :]
    if numbers[: len(ledger.log)] != ledger.log or len(extra) > 1 or not set(extra) <= under_way:
        return [f"the log has {len(numbers)} records, {len(ledger.log)} were acknowledged"]
    ledger.log = numbers
    return []


def _verify_place(root: str, ledger: Ledger) -> list[str]:
    places = [n for n in range(PLACES) if os.path.exists(f"{root}/wander/{n}")]
    if len(places) != 1 or places[0] not in ledger.allowed("wander"):
        return [f"what was moved is in {places}, not one of {ledger.allowed('wander')}"]
    ledger.done["wander"] = places[0]
    if number_in(read(f"{root}/wander/{places[0]}") or b"") is None:
        return ["what was moved is torn"]
    return []


def _prepare(place: str) -> tuple[str, Ledger]:
    root = f"{place}/root"
    os.makedirs(f"{root}/wander", exist_ok=True)
    empty(root)
    os.mkdir(f"{root}/wander")
    ledger = Ledger()
    first = {"counter": document(0, 10), "text": b"version 0\n" + b"filler\n" * 9_000,
             "wander/0": document(0, 5_000), "log": b""}  # fmt: skip
    for name, data in first.items():
        with open(f"{root}/{name}", "wb") as file:
            file.write(data)
    ledger.done = {"counter": 0, "text": 0, "wander": 0}
    return root, ledger


def _clear_created(root: str, ledger: Ledger) -> None:
    """Files that were only created and checked once need not be checked for ever."""
    for name in [name for name in ledger.done if name.startswith("new/")]:
        os.unlink(f"{root}/{name}")
        del ledger.done[name]
    for name in [name for name in ledger.begun if name.startswith("new/")]:
        del ledger.begun[name]


def kill_often(kills: int, seed: int) -> dict[str, Any]:
    """The whole of it, in a process of its own that has no threads to fork."""
    place = f"{inside.arena()}/crash"
    root, ledger = _prepare(place)
    chance = random.Random(seed)
    faults: list[str] = []
    operations = early = 0
    for kill in range(kills):
        path = f"{place}/notes"
        notes = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND, 0o600)
        durability = ("full", "rename")[kill % 2]
        start = kill * 1_000_000
        child = fork(lambda: asyncio.run(_work(root, notes, start, durability)))  # noqa: B023
        # Some are killed while they start, and with it while they clear up after the one before.
        if kill % KILLS_AT_START:
            wait_for_start(path)
        killed = kill_after(child, chance.uniform(0.0, LIFE_SECONDS_MAX))
        os.close(notes)
        text = (read(path) or b"").decode()
        if not killed:
            faults.append(f"kill {kill}: the child ended by itself")
        early += "opened" not in text
        operations += text.count("done")
        faults += [f"kill {kill}: {fault}" for fault in ledger.take(text) + verify(root, ledger)]
        if len(faults) > 20:
            break
        if kill % KILLS_BETWEEN_CLEARINGS == KILLS_BETWEEN_CLEARINGS - 1:
            _clear_created(root, ledger)
            inside.progress(f"{kill + 1:,} kills, {operations:,} operations")
    last = fork(lambda: asyncio.run(_start_once(root)))
    if os.waitpid(last, 0)[1]:
        faults.append("the last start failed")
    if left := staging_names(root):
        faults.append(f"staging names are left after the last start: {left[:5]}")
    return {"kills": kills, "operations": operations, "killed_while_starting": early,
            "faults": faults, "plain": plain_way(place, max(10, kills // 10), chance)}  # fmt: skip


async def _start_once(root: str) -> None:
    async with bailiwick.open(root) as fs:
        await fs.stat(".")


def plain_way(place: str, kills: int, chance: random.Random) -> dict[str, int]:
    """The control: the same with `open(path, "wb")`."""
    path = f"{place}/plain"
    counts = {"kills": kills, "empty": 0, "torn": 0}

    data = document(1, PLAIN_BYTES)

    def work() -> None:
        for _ in range(10_000):
            with open(path, "wb", buffering=0) as file:
                file.writelines(data[n : n + PIECE] for n in range(0, len(data), PIECE))

    for _ in range(kills):
        with open(path, "wb") as file:
            file.write(document(0, 100))
        kill_after(fork(work), chance.uniform(0.02, 0.08))
        found = read(path) or b""
        counts["empty"] += not found
        counts["torn"] += bool(found) and number_in(found) is None
    os.unlink(path)
    return counts


# --- many at one file ------------------------------------------------------------------------


def _all_at_once(functions: Iterable[Callable[[], Any]]) -> None:
    children = [fork(function) for function in functions]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert not any(codes), f"a process failed: {codes}"


async def _until_done(act: Callable[[], Awaitable[Any]]) -> None:
    """Try again as long as someone else was quicker, as every caller of compare-and-swap does."""
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        try:
            await act()
        except (HashMismatch, Busy):
            continue
        return
    raise TimeoutError("never got through")


def _fresh(name: str, content: str) -> str:
    root = f"{inside.arena()}/{name}/root"
    os.makedirs(root, exist_ok=True)
    empty(root)
    with open(f"{root}/shared", "w") as file:
        file.write(content)
    return root


def increments(processes: int, each: int) -> int:
    root = _fresh("crash", "0")

    async def count() -> None:
        async with bailiwick.open(root, durability="rename") as fs:

            async def one() -> None:
                before = await fs.read_bytes("shared")
                value = str(int(before.data) + 1).encode()
                await fs.write_bytes("shared", value, expected_sha256=before.sha256)

            for _ in range(each):
                await _until_done(one)

    _all_at_once([lambda: asyncio.run(count())] * processes)
    assert not staging_names(root)
    return int(read(f"{root}/shared") or b"-1")


def parallel_edits(processes: int, each: int) -> list[str]:
    root = _fresh("crash", "".join(f"line {number}: 0.\n" for number in range(processes)))

    async def work(number: int) -> None:
        async with bailiwick.open(root, durability="rename") as fs:
            for step in range(each):
                old, new = f"line {number}: {step}.", f"line {number}: {step + 1}."
                await _until_done(lambda: fs.edit("shared", old=old, new=new))  # noqa: B023

    _all_at_once([lambda n=number: asyncio.run(work(n)) for number in range(processes)])
    assert not staging_names(root)
    return (read(f"{root}/shared") or b"").decode().splitlines()


def parallel_appends(processes: int, each: int) -> list[str]:
    root = _fresh("crash", "")

    async def work(number: int) -> None:
        async with bailiwick.open(root, durability="rename") as fs:
            for step in range(each):
                await _until_done(lambda: fs.append("shared", f"{number}-{step}\n"))  # noqa: B023

    _all_at_once([lambda n=number: asyncio.run(work(n)) for number in range(processes)])
    assert not staging_names(root)
    return (read(f"{root}/shared") or b"").decode().splitlines()


def foreign_writer(rounds: int) -> dict[str, int]:
    """Someone who does not know of us replaces the file between our check and our publishing.

    Each of our writes names the hash of what it replaced. Whatever the foreigner put there must
    be there still, or be the ancestor of what is: never overwritten by one who had not seen it. It
    goes on until the two have met, which on a busy machine takes more rounds.
    """
    root = _fresh("crash", "first")
    parents = f"{inside.arena()}/crash/parents"
    with open(parents, "w"):
        pass

    async def ours() -> None:
        number = 0
        async with bailiwick.open(root, durability="rename") as fs:
            while not os.path.exists(f"{root}/../stop"):
                number += 1
                before = await fs.read_bytes("shared")
                content = f"ours {number} after {before.sha256}".encode()
                with open(parents, "a") as file:
                    file.write(f"{hashlib.sha256(content).hexdigest()} {before.sha256}\n")
                try:
                    await fs.write_bytes("shared", content, expected_sha256=before.sha256)
                except (HashMismatch, Busy, bailiwick.PathNotFound):
                    continue

    child = fork(lambda: asyncio.run(ours()))
    lost = descended = 0
    try:
        until_blocking(lambda: os.path.getsize(parents))  # ours has begun
        ends = time.monotonic() + PATIENCE_S
        for number in itertools.count():
            if number >= rounds and (descended or time.monotonic() > ends):
                break
            with open(f"{root}/../foreign", "w") as file:
                file.write(f"foreign {number}")
            mine = hashlib.sha256(f"foreign {number}".encode()).hexdigest()
            os.rename(f"{root}/../foreign", f"{root}/shared")
            let_pass_blocking(0.0005 * (number % 5))
            kept = _descends(f"{root}/shared", parents, mine)
            lost += kept < 0
            descended += kept > 0
    finally:
        with open(f"{root}/../stop", "w"):
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.unlink(f"{root}/../stop")
    assert code == 0, "our writer failed"
    return {"rounds": rounds, "lost": lost, "descended": descended}


def _descends(path: str, parents: str, mine: str) -> int:
    """0: still mine; 1: something made from mine; -1: neither, also after a while."""
    for _ in range(50):
        now = hashlib.sha256(read(path) or b"").hexdigest()
        if now == mine:
            return 0
        with open(parents) as file:
            links = dict(line.split() for line in file if line.endswith("\n"))
        for _hop in range(100_000):
            if now == mine:
                return 1
            if now not in links:
                break
            now = links[now]
        # An exchange about to be undone shows for an instant.
        let_pass_blocking(0.002)
    return -1


# --- by hand ---------------------------------------------------------------------------------


def run(kills: int, seed: int) -> dict[str, Any]:
    return inside.apart(kill_often, kills, seed, timeout_s=600 + kills * KILL_SECONDS_MAX)


def faults_of(result: dict[str, Any]) -> list[str]:
    plain = result["plain"]
    found = list(result["faults"])
    if not plain["empty"] + plain["torn"]:
        found.append("the plain way was never seen torn: the kills prove nothing")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="kill -9 at random instants.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    identity = "root" if os.getuid() == 0 else "user"
    # Ended from outside, the wall is still taken down in order.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with Wall(identity) as wall:
        result, volume = (
            wall.call(
                each, arguments.kills, arguments.seed,
                timeout_s=3600 + arguments.kills * KILL_SECONDS_MAX,
                on_progress=lambda text: print(text, file=sys.stderr, flush=True),
            )
            for each in (run, crash_volume.run)
        )  # fmt: skip
    result["volume"] = volume
    plain = result["plain"]
    print(
        f"{result['kills']:,} kills during {result['operations']:,} operations (seed"
        f" {arguments.seed}; {result['killed_while_starting']:,} while starting)\n"
        f'control, open(path, "w"): {plain["empty"]} empty and {plain["torn"]} torn after'
        f" {plain['kills']} kills\n"
        f"volume: {volume['kills']:,} kills of {volume['writers']} writers during"
        f" {volume['operations']:,} operations ({volume['killed_while_starting']:,} while starting;"
        f" {volume['unnamed_blobs_collected']:,} blobs left behind and collected)"
    )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    found = [*faults_of(result), *volume["faults"]]
    print("\n".join(["FAILED", *found]) if found else "0 torn, 0 empty, 0 lost, 0 left behind")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
