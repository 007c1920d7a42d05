"""Servers as processes of their own, and what they take of the processor."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.environment import ROOT

PYTHON = ROOT / ".venv" / "bin" / "python"
"""The product's own environment: that of the peers has none of its extras."""


def python() -> str:
    return str(PYTHON) if PYTHON.exists() else sys.executable


def processor_s(pid: int) -> float:
    """Seconds of the processor that all threads of a process have had, by the scheduler's count."""
    taken = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            taken += int((thread / "schedstat").read_text().split()[0])
    return taken / 1e9


@dataclasses.dataclass(frozen=True)
class Served:
    """A server at work."""

    url: str
    token: str
    pid: int

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def processor_s(self) -> float:
        return processor_s(self.pid)


@contextlib.contextmanager
def served(directory: Path, state: Path) -> Iterator[Served]:
    """`bailiwick serve` on a directory, as it is shipped."""
    command = [python(), "-m", "bailiwick", "serve", str(directory), "--port", "0", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "XDG_STATE_HOME": str(state)}
    )
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        yield Served(told["url"], told["token"], process.pid)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
