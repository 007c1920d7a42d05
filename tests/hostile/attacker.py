"""Starting and stopping the attacker: in C where there is a compiler, else in Python.

The Python one is an interpreter of its own, so that it does not wait for the victim's lock.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from tests.hostile import inside, kernel

SOURCE = Path(__file__).with_name("attacker.c")
DWELLS_S = (0.0, 0.0, 2e-6, 1e-4, 0.0, 5e-5)


class Report(NamedTuple):
    swaps: int
    followed: int


def compiled() -> str | None:
    """The attacker built in the arena, or None where there is no compiler."""
    binary = f"{inside.arena()}/attacker"
    if os.path.exists(binary):
        return binary
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    built = subprocess.run(
        [compiler, "-O2", "-o", binary, str(SOURCE)], capture_output=True, text=True, check=False
    )
    return binary if built.returncode == 0 else None


class Attacker:
    """One attack under way. Use as a context manager; `report` is there afterwards."""

    def __init__(self, *arguments: str) -> None:
        binary = compiled()
        command = [binary] if binary else [sys.executable, "-m", "tests.hostile.attacker"]
        self._process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        self.report = Report(0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            answer, _none = self._process.communicate(timeout=10)
        finally:
            self._process.kill()
            self._process.wait()
        numbers = [int(word) for word in answer.split()]
        self.report = Report(*numbers) if len(numbers) == 2 else Report(0, 0)


# --- the same in Python ----------------------------------------------------------------------


def _kind_of(path: str) -> str:
    if os.path.islink(path):
        return "link"
    return "file" if os.path.lexists(path) else ""


def _replant(a: str, b: str, text: str, link: str) -> None:
    kinds = {_kind_of(a), _kind_of(b)}
    if kinds == {"link", "file"}:
        return
    for path in (a, b):
        if _kind_of(path):
            os.unlink(path)
    with open(a, "w") as file:
        file.write(text)
    os.symlink(link, b)


def _exchange(a: str, b: str) -> None:
    kernel.renameat2(a, b, kernel.RENAME_EXCHANGE)


def _steal(directory: str, link: str, prefix: str) -> None:
    for name in os.listdir(directory):
        if name.startswith(prefix):
            os.rename(f"{directory}/{name}", f"{directory}/stolen")
            os.symlink(link, f"{directory}/{name}")


def _until_told(step: Callable[[int], None]) -> int:
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    swaps = 0
    while not told:
        try:
            step(swaps)
            swaps += 1
        except OSError:
            # The victim was between us and the names: next round.
            continue
        time.sleep(DWELLS_S[swaps % len(DWELLS_S)])
    return swaps


def main(mode: str, a: str, b: str, *more: str) -> None:
    followed = 0

    def step(_number: int) -> None:
        nonlocal followed
        if mode == "bounce":
            os.rename(a, b)
            before = os.fstat(watched).st_mtime_ns
            time.sleep(5e-5)
            followed += os.fstat(watched).st_mtime_ns != before
            os.rename(b, a)
            return
        if mode == "steal":
            _steal(a, b, *more)
            return
        if mode == "leaf":
            _replant(a, b, *more)
        _exchange(a, b)

    watched = os.open(more[0], os.O_PATH) if mode == "bounce" else -1
    swaps = _until_told(step)
    if mode == "exchange" and swaps % 2:
        _exchange(a, b)
    print(swaps, followed)


if __name__ == "__main__":
    main(*sys.argv[1:])
