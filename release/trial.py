"""Whether a distribution can be installed where nothing is, and used there by whoever finds it."""

from __future__ import annotations

import re
import subprocess
import venv
from pathlib import Path

from release.source_tree import version

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Empty:
    """A virtual environment with nothing but pip, beside a home and a directory without files.

    Programs in it get no variable of ours, so that nothing of this checkout is found by accident.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home = place / "home"
        self.work = place / "work"
        self._programs = place / "environment" / "bin"
        for each in (self.home, self.work):
            each.mkdir(parents=True)
        venv.create(place / "environment", with_pip=True)

    def run(self, *command: str) -> str:
        """What a program of the environment printed. Raises `CalledProcessError`."""
        return subprocess.run(
            [str(self._programs / command[0]), *command[1:]],
            cwd=self.work, check=True, text=True, stdout=subprocess.PIPE,
            env={"HOME": str(self.home), "PATH": f"{self._programs}:/usr/bin:/bin"},
        ).stdout  # fmt: skip

    def install(self, distribution: Path, *extras: str) -> None:
        wanted = f"{distribution}[{','.join(extras)}]" if extras else str(distribution)
        # Where packages come from is the business of this machine, so its settings count here.
        subprocess.run(
            [str(self._programs / "python"), "-m", "pip", "install", "--quiet",
             "--disable-pip-version-check", wanted],
            check=True,
        )  # fmt: skip
        self.run("python", "-m", "pip", "check")


def used(empty: Empty, tree: Path) -> list[str]:
    """Use what was installed as the README does; in a line each, what was seen to work.

    Raises `CalledProcessError` or `AssertionError` with what did not.
    """
    told = empty.run("bailiwick", "--version").strip()
    _demand(told == f"bailiwick {version(tree)}", told)
    seen = [told]
    blocks = _BLOCK.findall((tree / "README.md").read_text(encoding="utf-8"))
    for number, block in enumerate(blocks, start=1):
        _demand(bool(empty.run("python", "-W", "error", "-c", block).strip()), block)
        seen.append(f"README, program {number}: runs")
    listing = empty.run("bailiwick", "ls", ".")
    _demand("notes" in listing, listing)
    where = Path(empty.run("python", "-c", "import bailiwick; print(bailiwick.__file__)").strip())
    _demand((where.parent / "py.typed").exists(), "py.typed is missing")
    _demand(where.is_relative_to(empty.place), f"{where} is not what was installed")
    return [*seen, "bailiwick ls: shows what the programs wrote", "types are shipped"]


def _demand(true: bool, said: str) -> None:
    if not true:
        raise AssertionError(said)
