"""A crowd at a real server: nothing lost, nothing wrong, nothing that grows.

    python -m tests.fronts.http.soak --seconds 60 --clients 256

`bailiwick serve` runs as a process of its own on a directory with history and on a volume. One
client in eight follows events, the others read, write, edit, append, move and remove, each in a
corner of its own where it knows what it must read, and count up together by compare-and-swap.

    steady     the load for so many seconds: no error that is not a stated limit; memory, threads
               and descriptors the same in the last quarter as in the second
    SIGTERM    under load: the server ends by itself within five seconds
    kill -9    under load, several times

After each restart every acknowledged change is there, and what was never answered is there as a
whole or not at all. In the end every listener has seen every change of its part once and in order
(in a directory, a rescan may stand for what was changed in the instant of a kill; a volume tells
all of it), the ledger and the volume verify, and nothing is left lying about.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bailiwick.model import MiB
from bailiwick.paths import RESERVED_PREFIX
from tests.fronts.http.soak_clients import Address, Listener, Tally, Told, Unfit, Wire, Worker
from tests.waiting import let_pass

TREE, VOLUME = ROOTS = ("workspace:tree", "workspace:volume")
GROUP = 8
"""Clients of a group: one of them listens."""

AGENTS = 4
"""Tokens, each for a subject of its own."""

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 5.0
CATCH_UP_SECONDS_MAX = 30.0
SAMPLE_SECONDS = 0.25

GROWTH_BYTES_MAX = 32 * MiB
"""What the memory of the last quarter may be above that of the second. Caches are bounded (16 MiB
of pages of the volume, 4,096 records, the newest changes, nodes and names), and take some 25,000
changes to fill: after that it is the same to a percent."""

CONFIG = """\
[state]
path = "state"

[[root]]
id = "tree"
kind = "workspace"
path = "tree"
history = "on"
trusted = true

[[root]]
id = "volume"
kind = "workspace"
volume = "sqlite:volume.db?volume=main"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:*"
access = ["read", "list", "metadata", "write", "delete", "move", "watch"]
"""

TOKEN = """
[[token]]
name = "agent{number}"
subject = "agent_run:soak/{number}"
"""


class Figures(msgspec.Struct, kw_only=True):
    """What was seen."""

    seconds: float = 0.0
    clients: int = 0
    requests: int = 0
    requests_per_second: float = 0.0
    read_ms_p50: float = 0.0
    read_ms_p99: float = 0.0
    change_ms_p50: float = 0.0
    change_ms_p99: float = 0.0
    longest_silence_s: float = 0.0
    acknowledged_changes: int = 0
    conflicts: int = 0
    events: int = 0
    comebacks: int = 0
    rescans: int = 0
    memory_mib: tuple[float, float] = (0.0, 0.0)
    threads: tuple[float, float] = (0.0, 0.0)
    descriptors: tuple[float, float] = (0.0, 0.0)
    stop_seconds: float = 0.0
    kills: int = 0
    records_verified: int = 0
    errors: dict[str, int] = {}


# --- the server --------------------------------------------------------------------------------


class Served:
    """`bailiwick serve` as a process of its own, which can be ended and begun again."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._log = place / "stderr"
        self.tokens: list[str] = []
        self.person = ""
        self.port = 0
        (place / "tree").mkdir()
        tokens = "".join(TOKEN.format(number=number) for number in range(AGENTS))
        (place / "bailiwick.toml").write_text(CONFIG + tokens)

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bailiwick", "serve", "--config", "bailiwick.toml",
                 "--port", "0", "--json"],
                cwd=self._place, stdout=subprocess.PIPE, stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self._place),
                     "XDG_STATE_HOME": str(self._place / "home"),
                     "XDG_DATA_HOME": str(self._place / "home")},
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.process.stdout.close()
        if not line:
            raise Unfit(f"the server did not start: {self.said()}")
        told = json.loads(line)
        self.tokens = self.tokens or list(told["tokens"].values())
        self.person = told["token"]
        self.port = int(told["url"].rpartition(":")[2])

    def address(self, number: int) -> Address:
        return Address(self.port, self.tokens[number % len(self.tokens)])

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    async def end(self, how: signal.Signals) -> float:
        """Send a signal and wait; how long it took."""
        began = time.monotonic()
        self.process.send_signal(how)
        code = await asyncio.to_thread(self.process.wait, STOP_SECONDS_MAX * 2)
        took = time.monotonic() - began
        if how == signal.SIGTERM and (code != 0 or took > STOP_SECONDS_MAX):
            raise Unfit(f"after SIGTERM it ended with {code} after {took:.1f} s: {self.said()}")
        return took

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Samples:
    """Memory, threads and descriptors of a process over time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: list[tuple[float, float, float]] = []

    async def take(self) -> None:
        while True:
            fields = dict(
                line.split(":", 1)
                for line in Path(f"/proc/{self._pid}/status").read_text().splitlines()
            )
            # Pages of mapped files are the kernel's to take back: they are not memory that grows.
            memory = int(fields["RssAnon"].split()[0]) / 1024
            descriptors = len(os.listdir(f"/proc/{self._pid}/fd"))
            self._seen.append((memory, float(fields["Threads"]), float(descriptors)))
            await let_pass(SAMPLE_SECONDS)

    def quarters(self, which: int) -> tuple[float, float]:
        """The means of the second and of the last quarter."""
        column = [each[which] for each in self._seen]
        quarter = max(1, len(column) // 4)
        second, last = column[quarter : 2 * quarter] or column, column[-quarter:]
        return round(statistics.fmean(second), 1), round(statistics.fmean(last), 1)


# --- the crowd ---------------------------------------------------------------------------------


class Crowd:
    """All clients, in groups that stand in turn on each root."""

    def __init__(self, served: Served, clients: int) -> None:
        self.served = served
        self.tally = Tally()
        self.workers: list[Worker] = []
        self.listeners: list[Listener] = []
        self._listening: list[asyncio.Task[None]] = []
        for number in range(clients):
            group = number // GROUP
            name, root = f"g{group:03}", ROOTS[group % len(ROOTS)]
            if number % GROUP == 0:
                self.listeners.append(Listener(name, root, number))
            else:
                self.workers.append(Worker(number, name, root, self.tally))

    async def prepare(self) -> None:
        """Make the corners of all workers, and the counter of each group."""
        wire, address = Wire(), self.served.address(0)
        for number, listener in enumerate(self.listeners):
            prefix = f"/roots/{ROOTS[number % len(ROOTS)].replace(':', '/')}"
            corners = [each.corner for each in self.workers if each.group == listener.group]
            for route, body in (
                *(("/dir", {"path": corner, "parents": True}) for corner in corners),
                ("/file/write", {"path": f"{listener.group}/counter", "content": "0"}),
            ):
                status, answer = await wire.ask(
                    address, "POST", prefix + route, request_id="prepare", body=body
                )
                if status not in (200, 201):
                    raise Unfit(f"POST {route}: {answer.decode()}")
        wire.close()

    async def listen(self) -> None:
        """Have the listeners listen, from now or from where each of them was cut off."""
        await self._end_listening()
        heard = []
        for number, listener in enumerate(self.listeners):
            ready = asyncio.Event()
            heard.append(ready.wait())
            self._listening.append(
                asyncio.create_task(listener.listen(self.served.address(number), ready))
            )
        async with asyncio.timeout(START_SECONDS_MAX):
            await asyncio.gather(*heard)

    async def _end_listening(self) -> None:
        for task in self._listening:
            if not task.done():
                task.cancel()
        ended = await asyncio.gather(*self._listening, return_exceptions=True)
        self._listening.clear()
        for each in ended:
            if isinstance(each, Exception):
                raise each

    async def work(self, ending: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            for number, worker in enumerate(self.workers):
                group.create_task(worker.work(self.served.address(number), ending))

    async def settle(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, worker in enumerate(self.workers):
                group.create_task(worker.settle(self.served.address(number)))

    async def catch_up(self, kills: int) -> None:
        """Wait until every listener was told the last change of every worker it listens to."""
        ends = time.monotonic() + CATCH_UP_SECONDS_MAX
        missing = self._behind(kills)
        while missing and time.monotonic() < ends:
            await let_pass(0.05)
            missing = self._behind(kills)
        ended = {each.group: each.ended for each in self.listeners if each.ended}
        await self._end_listening()
        if missing or ended:
            raise Unfit(f"events that never came: {missing[:5]}; streams that ended: {ended}")

    def _behind(self, kills: int) -> list[Told]:
        missing = []
        for listener in self.listeners:
            seen = set(listener.events)
            missing += [
                worker.done[-1]
                for worker in self.workers
                if worker.group == listener.group and worker.done and worker.done[-1] not in seen
                and not (_excused(listener, kills)
                         and _covered(worker.done[-1].path, listener.rescans))
            ]  # fmt: skip
        return missing

    async def aclose(self) -> None:
        for worker in self.workers:
            worker.close()
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)


# --- judging -----------------------------------------------------------------------------------


def _covered(path: str, rescans: list[str]) -> bool:
    return any(each in (".", path) or path.startswith(each + "/") for each in rescans)


def _excused(listener: Listener, kills: int) -> int:
    """How many changes of a worker may be told by a rescan alone: one for each kill, in a
    directory, where a change and its event are not made in one transaction. In a volume none."""
    return kills if listener.root == TREE else 0


def check_events(crowd: Crowd, all_kills: int) -> None:
    """Every change of its group was told to a listener, once and in the order of its worker.

    What was acknowledged in the very instant of a kill may not be told: a rescan stands for it. At
    most one change of each worker for each kill is excused by that, and only in a directory.
    """
    for listener in crowd.listeners:
        kills = _excused(listener, all_kills)
        if listener.root == VOLUME and listener.rescans:
            raise Unfit(f"a volume knows all that was changed, and said to look: {listener.group}")
        counts = Counter(listener.events)
        twice = [told for told, count in counts.items() if count > 1]
        if twice:
            raise Unfit(f"told more than once: {twice[:5]}")
        by_corner: dict[str, list[Told]] = {}
        for told in listener.events:
            by_corner.setdefault(told.path.rpartition("/")[0], []).append(told)
        workers = [each for each in crowd.workers if each.group == listener.group]
        for worker in workers:
            _check_corner(worker, by_corner.pop(worker.corner, []), listener.rescans, kills)
        _check_counter(workers, by_corner.pop(listener.group, []), kills)
        if by_corner:
            raise Unfit(f"told what nobody did: {by_corner}")


def _check_corner(worker: Worker, seen: list[Told], rescans: list[str], kills: int) -> None:
    known = set(seen)
    missing = [each for each in worker.done if each not in known]
    if len(missing) > kills or not all(_covered(each.path, rescans) for each in missing):
        raise Unfit(f"{worker.name} did what was not told: {missing[:5]}")
    if seen != [each for each in worker.done if each in known]:
        extra = known - set(worker.done)
        raise Unfit(f"{worker.name}: told what was not done ({extra}), or out of order")


def _check_counter(workers: list[Worker], seen: list[Told], kills: int) -> None:
    """No increment was lost: every number was reached once, and told in order."""
    sure = {value: by for worker in workers for value, by in worker.increments.items()}
    if len(sure) != sum(len(worker.increments) for worker in workers):
        raise Unfit("two workers counted up to the same number")
    unsure = {(value, by) for worker in workers for value, by in worker.unsure_increments.items()}
    values = {by: value for value, by in (*sure.items(), *unsure)}
    told = [values[each.request_id] for each in seen]
    if told != sorted(told):
        raise Unfit("the events of a counter are out of order")
    highest = max((*sure, 0))
    reached = {*sure, *told, *(value for value, _ in unsure)}
    if not reached >= set(range(1, highest + 1)):
        raise Unfit("a number was skipped")
    missing = sorted(sure.keys() - set(told))
    if len(missing) > kills:
        raise Unfit(f"increments that were not told: {missing[:5]}")


def check_flat(samples: Samples, figures: Figures) -> None:
    figures.memory_mib, figures.threads, figures.descriptors = (
        samples.quarters(which) for which in range(3)
    )
    before, after = figures.memory_mib
    if after - before > GROWTH_BYTES_MAX / MiB:
        raise Unfit(f"the memory grew from {before} to {after} MiB")
    # Connections come and go with what clients happen to do: a leak would go on growing.
    for name, comes_and_goes in (("threads", 4), ("descriptors", 64)):
        before, after = getattr(figures, name)
        if after > before * 1.1 + comes_and_goes:
            raise Unfit(f"the {name} grew from {before} to {after}")


def check_place(place: Path) -> None:
    """Nothing lies about in the tree or in the state, and the volume is whole."""
    litter = [
        str(Path(directory, name).relative_to(place))
        for directory, directories, files in os.walk(place / "tree")
        for name in (*directories, *files)
        if name.startswith(RESERVED_PREFIX)
    ]
    temporary = place / "state" / "temp"
    if temporary.exists():
        litter += map(str, temporary.iterdir())
    if litter:
        raise Unfit(f"left lying about: {litter}")
    checked = subprocess.run(
        [sys.executable, "-m", "bailiwick", "volume", "check", "sqlite:volume.db?volume=main"],
        cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if checked.returncode != 0:
        raise Unfit(f"the volume is not whole: {checked.stdout}{checked.stderr}")


async def check_ledger(served: Served) -> int:
    wire = Wire()
    status, answer = await wire.ask(
        Address(served.port, served.person), "GET", "/audit/verify", request_id="verify"
    )
    wire.close()
    found = msgspec.json.decode(answer)
    if status != 200 or not found["ok"]:
        raise Unfit(f"the ledger does not verify: {answer.decode()}")
    records: int = found["records"]
    return records


# --- the whole of it ---------------------------------------------------------------------------


async def soak(
    place: Path, *, seconds: float, clients: int, kills: int, burst_seconds: float
) -> Figures:
    """Raises `Unfit` with what went wrong; the figures are of the steady part."""
    served = Served(place)
    figures = Figures(seconds=seconds, clients=clients)
    served.start()
    crowd = Crowd(served, clients)
    try:
        await crowd.prepare()
        await crowd.listen()
        await _steady(crowd, figures)
        figures.stop_seconds = round(await _interrupted(crowd, signal.SIGTERM, burst_seconds), 2)
        await crowd.catch_up(0)
        check_events(crowd, 0)
        await crowd.listen()
        for _ in range(kills):
            await _interrupted(crowd, signal.SIGKILL, burst_seconds)
        await crowd.catch_up(kills)
        check_events(crowd, kills)
        figures.kills = kills
        figures.records_verified = await check_ledger(served)
        await served.end(signal.SIGTERM)
        check_place(place)
        if served.said():
            raise Unfit(f"the server complained: {served.said()[:2000]}")
    finally:
        await crowd.aclose()
        served.close()
    _sum_up(crowd, figures)
    return figures


async def _longest_silence(tally: Tally, figures: Figures) -> None:
    """How long nobody was answered at all, at the longest: a server that stalls shows here."""
    answers, since = 0, time.monotonic()
    while True:
        await let_pass(0.02)
        now, before = time.monotonic(), answers
        answers = len(tally.reads_s) + len(tally.changes_s)
        if answers != before:
            since = now
        figures.longest_silence_s = max(figures.longest_silence_s, round(now - since, 2))


async def _steady(crowd: Crowd, figures: Figures) -> None:
    ending, samples = asyncio.Event(), Samples(crowd.served.process.pid)
    watching = (
        asyncio.create_task(samples.take()),
        asyncio.create_task(_longest_silence(crowd.tally, figures)),
    )
    asyncio.get_running_loop().call_later(figures.seconds, ending.set)
    began = time.perf_counter()
    try:
        await crowd.work(ending)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)
    took = time.perf_counter() - began
    reads, changes = crowd.tally.reads_s, crowd.tally.changes_s
    figures.requests = len(reads) + len(changes)
    figures.requests_per_second = round(figures.requests / took, 1)
    figures.read_ms_p50, figures.read_ms_p99 = _percentiles(reads)
    figures.change_ms_p50, figures.change_ms_p99 = _percentiles(changes)
    if crowd.served.process.poll() is not None:
        raise Unfit(f"the server ended by itself: {crowd.served.said()}")
    check_flat(samples, figures)


async def _interrupted(crowd: Crowd, how: signal.Signals, seconds: float) -> float:
    """Work, end the server in the middle of it, begin again, and see what is there."""
    ending = asyncio.Event()
    working = asyncio.create_task(crowd.work(ending))
    await asyncio.wait((working,), timeout=seconds)
    took = await crowd.served.end(how)
    ending.set()
    await working
    crowd.served.start()
    await crowd.settle()
    await crowd.listen()
    return took


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    if len(seconds) < 2:
        return 0.0, 0.0
    cuts = statistics.quantiles(seconds, n=100)
    return round(cuts[49] * 1000, 1), round(cuts[98] * 1000, 1)


def _sum_up(crowd: Crowd, figures: Figures) -> None:
    figures.acknowledged_changes = sum(
        len(worker.done) + len(worker.increments) for worker in crowd.workers
    )
    figures.conflicts = crowd.tally.conflicts
    figures.errors = crowd.tally.kinds
    figures.events = sum(len(listener.events) for listener in crowd.listeners)
    figures.comebacks = sum(listener.comebacks for listener in crowd.listeners)
    figures.rescans = sum(len(listener.rescans) for listener in crowd.listeners)


@contextlib.contextmanager
def _place(given: str | None) -> Iterator[Path]:
    if given is not None:
        yield Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="soak-") as made:
        yield Path(made)


def run(place: Path, **how: Any) -> Figures:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(soak(place, **how))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--place", help="an empty directory to work in, which is kept")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    try:
        with _place(options.place) as place:
            figures = run(
                place, seconds=options.seconds, clients=options.clients, kills=options.kills,
                burst_seconds=min(3.0, options.seconds / 4),
            )  # fmt: skip
    except (Unfit, ExceptionGroup) as failed:
        for each in failed.exceptions[:3] if isinstance(failed, ExceptionGroup) else [failed]:
            sys.stderr.write(f"soak: {each!r}\n")
        return 1
    document = msgspec.to_builtins(figures)
    for name, value in document.items():
        sys.stdout.write(f"{name:<22} {value}\n")
    if options.json is not None:
        Path(options.json).write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
