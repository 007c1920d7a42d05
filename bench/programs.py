"""`python -m bench.programs`: what it costs to run a program in the sandbox, and in a mounted tree.

Contenders take turns, so that what else the machine does falls on all of them alike; what is told
are medians, and for the sandbox the difference to a plain subprocess of the same round.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import bailiwick
from bailiwick.operations import Access

FILES = 10_000
PER_DIRECTORY = 100
PACKED = 100
"""Files in what npm and pip install."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.programs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--mounted-rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bailiwick-bench-") as folder:
        place = pathlib.Path(folder)
        load, processors = os.getloadavg()[0], os.cpu_count() or 1
        found: dict[str, Any] = {"load_when_begun": round(load, 1), "processors": processors}
        if load > processors:
            found["busy"] = "others wanted the machine: go by the processor's time, not the clock's"
        found |= asyncio.run(started(place, asked.rounds, FILES))
        found["all_files_changed_by_one_command"] = asyncio.run(all_changed(place, FILES))
        found["mounted"] = _mounted(place, asked.mounted_rounds)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    print(text)
    if asked.json:
        pathlib.Path(asked.json).write_text(text + "\n", encoding="utf-8")
    return 0


# --- in the sandbox ------------------------------------------------------------------------------


def _plant(top: pathlib.Path, files: int) -> None:
    for number in range(files // PER_DIRECTORY):
        directory = top / f"d{number}"
        directory.mkdir(parents=True)
        for name in range(PER_DIRECTORY):
            (directory / f"f{name}.txt").write_text(f"{number} {name}\n")


async def started(place: pathlib.Path, rounds: int, files: int) -> dict[str, Any]:
    """What it takes to start a command, each way, on a tree of so many files."""
    _plant(place / "tree", files)
    async with (
        bailiwick.open(place / "tree", state_dir=str(place / "state")) as fs,
        fs.session() as session,
        _volume(place) as volume,
        _ruled(place) as agent,
    ):

        async def plain() -> None:
            process = await asyncio.create_subprocess_exec("/bin/true", cwd=place / "tree")
            assert await process.wait() == 0

        async def untouched() -> None:
            assert (await fs.exec(["/bin/true"]).result()).exit_code == 0

        async def changing() -> None:
            result = await fs.exec(shell="date +%N > d1/f1.txt; date +%N > new").result()
            assert result.changes

        async def under_rules() -> None:
            assert (await agent.exec(["/bin/true"]).result()).exit_code == 0

        async def in_session() -> None:
            assert (await session.exec(["/bin/true"]).result()).exit_code == 0

        async def in_volume() -> None:
            assert (await volume.exec(["/bin/true"]).result()).exit_code == 0

        contenders = (plain, untouched, changing, under_rules, in_session, in_volume)
        taken, processor = await _in_turns(contenders, rounds)
    plain_s = taken["plain"]
    return {
        "files_in_the_tree": files,
        "rounds": rounds,
        "plain_subprocess_ms": _ms(statistics.median(plain_s)),
        **{
            f"{name}_ms_over_plain": _ms(
                statistics.median(a - b for a, b in zip(seconds, plain_s, strict=True))
            )
            for name, seconds in taken.items()
            if name != "plain"
        },
        **{
            f"{name}_ms_of_processor": _ms(statistics.median(seconds))
            for name, seconds in processor.items()
        },
        "untouched_ms_over_plain_quietest": _quietest(taken["untouched"], plain_s),
        "changing_ms_over_plain_quietest": _quietest(taken["changing"], plain_s),
        "under_rules_ms_over_plain_quietest": _quietest(taken["under_rules"], plain_s),
    }


ALL = {
    "rewritten": "find . -name 'f*' -exec sed -i s/^/x/ {} +",
    "removed": "rm -rf d*",
    "created": "for n in $(seq {directories}); do mkdir d$n;"
    " for m in $(seq 100); do echo $n > d$n/f$m; done; done",
}


async def all_changed(place: pathlib.Path, files: int) -> dict[str, float]:
    """Seconds, and those of the processor, for commands that change every file, in a directory with
    history; and for the first and second command in an overlay of it."""
    found: dict[str, float] = {}
    state = str(place / "state")

    async def timed(name: str, fs: Any, shell: str) -> None:
        began, used = time.perf_counter(), time.process_time()
        result = await fs.exec(shell=shell).result()
        assert not result.withheld, result.withheld[:3]
        assert not result.conflicts, result.conflicts[:3]
        found[f"{name}_s"] = round(time.perf_counter() - began, 2)
        found[f"{name}_s_of_processor"] = round(time.process_time() - used, 2)

    _plant(place / "all", files)
    async with bailiwick.open(place / "all", state_dir=state, history="on") as fs:
        for name, shell in ALL.items():
            await timed(name, fs, shell.replace("{directories}", str(files // PER_DIRECTORY)))
    async with bailiwick.open(f"overlay:{place / 'all'}", state_dir=state) as fs:
        for name in ("first_in_overlay", "second_in_overlay"):
            await timed(name, fs, "true")
    return found


RULES = """
[[root]]
id = "demo"
kind = "workspace"
trusted = true
path = {tree!r}

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write", "delete", "execute"]

[[rule]]
id = "run"
operation = ["exec"]
effect = "allow"

[[rule]]
id = "keep"
path = ["**/secrets", "**/*.sqlite"]
effect = "deny"
"""


@contextlib.asynccontextmanager
async def _ruled(place: pathlib.Path) -> AsyncIterator[Any]:
    """The tree as an agent has it, under rules about paths: those, and the protective ones."""
    file = place / "bailiwick.toml"
    file.write_text(RULES.format(tree=str(place / "tree")))
    agent = bailiwick.AgentRun("bench", "1")
    access: set[Access] = {"read", "list", "metadata", "execute"}
    opening = bailiwick.Authority.from_config(file, state_dir=str(place / "ruled"))
    async with opening as authority:
        yield await authority.request_root(agent, "workspace:demo", access, "to measure")


@contextlib.asynccontextmanager
async def _volume(place: pathlib.Path) -> AsyncIterator[Any]:
    opened = bailiwick.open(f"sqlite:{place / 'agent.db'}", state_dir=str(place / "state"))
    async with opened as volume:
        async with volume.transaction() as draft:
            for number in range(1_000):
                await draft.write_text(f"d{number % 10}/f{number}", "text\n", parents=True)
        yield volume


async def _in_turns(
    contenders: tuple[Callable[[], Awaitable[None]], ...], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds on the clock, and of the processor with all that was started and has ended."""
    taken: dict[str, list[float]] = {each.__name__: [] for each in contenders}
    processor: dict[str, list[float]] = {each.__name__: [] for each in contenders}
    for turn in range(rounds + 2):
        for each in contenders:
            began, used = time.perf_counter(), _processor()
            await each()
            if turn >= 2:
                taken[each.__name__].append(time.perf_counter() - began)
                processor[each.__name__].append(_processor() - used)
    return taken, processor


def _processor() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


def _quietest(ours: list[float], plain: list[float]) -> float:
    """In the quietest tenth: what is left when the machine does little else."""
    most = max(1, len(ours) // 10)
    return _ms(statistics.mean(sorted(ours)[:most]) - statistics.mean(sorted(plain)[:most]))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


# --- in a mounted tree ---------------------------------------------------------------------------


def _mounted(place: pathlib.Path, rounds: int) -> list[dict[str, Any]]:
    source = place / "source"
    _make_repository(source)
    taken: dict[str, dict[str, list[float]]] = {}
    with _mount(place) as mounted:
        for turn in range(rounds):
            for where, top in (("plain", place / "disk"), ("mounted", mounted)):
                top.mkdir(exist_ok=True)
                work = top / f"w{turn}"
                work.mkdir()
                for name, seconds in _work(source, work):
                    taken.setdefault(name, {}).setdefault(where, []).append(seconds)
    rows = []
    for name, by_place in taken.items():
        plain, ours = (statistics.median(by_place[where]) for where in ("plain", "mounted"))
        rows.append(
            {"what": name, "plain_ms": _ms(plain), "mounted_ms": _ms(ours),
             "times": round(ours / plain, 1)}
        )  # fmt: skip
    return rows


def _make_repository(source: pathlib.Path) -> None:
    source.mkdir()
    for number in range(100):
        (source / f"f{number}.c").write_text(f"int f{number}(void) {{ return {number}; }}\n" * 3)
    (source / "main.c").write_text("int main(void) { return 0; }\n")
    (source / "Makefile").write_text("main: main.c\n\tcc -o main main.c\n")
    _git(source, "init", "-q")
    _git(source, "add", ".")
    _git(source, "commit", "-qm", "all")


def _git(where: pathlib.Path, *words: str) -> None:
    own = ("-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "gc.auto=0")
    subprocess.run(["git", *own, *words], cwd=where, check=True, capture_output=True)


def _work(source: pathlib.Path, work: pathlib.Path) -> Iterator[tuple[str, float]]:
    def timed(name: str, act: Callable[[], object]) -> tuple[str, float]:
        began = time.perf_counter()
        act()
        return name, time.perf_counter() - began

    clone = work / "clone"
    yield timed("git clone, 102 files", lambda: _git(work, "clone", "-q", str(source), "clone"))
    (clone / "f1.c").write_text("int changed;\n")
    yield timed("git status", lambda: _git(clone, "status"))
    yield timed("git commit", lambda: _git(clone, "commit", "-qam", "changed"))
    yield timed("make", lambda: subprocess.run(["make", "-s"], cwd=clone, check=True))
    for mode in ("delete", "wal"):
        yield timed(f"SQLite, 20 commits, journal {mode}", partial(_sqlite, work, mode))
    if shutil.which("npm"):
        _make_project(work)
        yield timed(f"npm ci, {PACKED} files", lambda: _npm(work / "app", "ci"))
    _make_wheel(work / "said-1.0-py3-none-any.whl")
    _python("-m", "venv", "--copies", "--without-pip", str(work / "env"))
    yield timed(f"pip install of a wheel, {PACKED} files", lambda: _pip(work))


def _sqlite(work: pathlib.Path, mode: str) -> None:
    with contextlib.closing(sqlite3.connect(work / f"{mode}.db")) as database:
        assert database.execute(f"PRAGMA journal_mode={mode}").fetchone()[0] == mode
        database.execute("CREATE TABLE t (n INTEGER)")
        for number in range(20):
            with database:
                database.execute("INSERT INTO t VALUES (?)", (number,))


def _make_project(work: pathlib.Path) -> None:
    """One dependency that lies beside it: nothing is fetched."""
    dep, app = work / "dep", work / "app"
    dep.mkdir()
    app.mkdir()
    (dep / "package.json").write_text('{"name": "dep", "version": "1.0.0"}')
    for number in range(PACKED):
        (dep / f"f{number}.js").write_text(f"module.exports = {number};\n")
    _npm(dep, "pack")
    needs = '{"dep": "file:../dep/dep-1.0.0.tgz"}'
    (app / "package.json").write_text(f'{{"name": "app", "dependencies": {needs}}}')
    _npm(app, "install", "--package-lock-only")


def _npm(where: pathlib.Path, *words: str) -> None:
    calm = ("--offline", "--no-audit", "--no-fund", "--no-update-notifier")
    subprocess.run(["npm", *words, *calm], cwd=where, check=True, capture_output=True)


def _make_wheel(path: pathlib.Path) -> None:
    about = "said-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as packed:
        for number in range(PACKED):
            packed.writestr(f"said/f{number}.py", f"number = {number}\n")
        packed.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: said\nVersion: 1.0\n")
        kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        packed.writestr(f"{about}/WHEEL", kind)
        packed.writestr(f"{about}/RECORD", "")


def _pip(work: pathlib.Path) -> None:
    calm = ("--quiet", "--disable-pip-version-check")
    into = ("--python", str(work / "env/bin/python"), "install", "--no-index")
    _python("-m", "pip", *calm, *into, str(work / "said-1.0-py3-none-any.whl"))


def _python(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, capture_output=True)


@contextlib.contextmanager
def _mount(place: pathlib.Path) -> Iterator[pathlib.Path]:
    served, mounted = place / "served", place / "mounted"
    served.mkdir()
    mounted.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "bailiwick", "mount", str(served), str(mounted), "--json"],
        stdout=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": str(place / "mount-state")},
    )
    try:
        assert process.stdout is not None
        said = b"".join(iter(process.stdout.readline, b"}\n"))
        assert b"mounted" in said, said
        yield mounted
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        shutil.rmtree(place / "disk", ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
