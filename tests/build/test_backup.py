"""The way to back a volume up while it is in use, as docs/volumes.md shows it."""

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest

import bailiwick
from bailiwick.build.care import open_care

PAGE = Path(__file__).parents[2] / "docs" / "volumes.md"


def shown():
    """The commands of the page, for the shell."""
    section = PAGE.read_text().split("## Backup while in use")[1]
    commands = re.findall(r"^\$ (.+)$", section.split("```")[1], re.MULTILINE)
    return [f"sqlite3() {{ {SQLITE} }}; {command}" for command in commands]


SQLITE = """python3 - "$1" "$2" <<'END'
import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=20) as connection:
    connection.execute(sys.argv[2])
END
"""
"""SQLite's own shell is not on every machine; what it is told here, Python's library does too."""


@pytest.mark.spec("VOL-4", "VOL-9")
async def test_what_was_acknowledged_before_a_backup_is_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    os.mkdir("backup")
    large = os.urandom(2_000_000)
    async with bailiwick.open("sqlite:agent.db") as fs:
        await fs.write_bytes("large", large)
        await fs.write_text("small", "before")
        writing = asyncio.create_task(_write_on(fs))
        for command in shown():
            done = await asyncio.to_thread(
                subprocess.run, ["bash", "-c", command], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    async with bailiwick.open("sqlite:backup/agent.db") as copy:
        assert (await copy.read_bytes("large")).data == large
        assert (await copy.read_text("small")).text == "before"
    async with open_care("sqlite:backup/agent.db") as care:
        assert (await care.check()).is_clean


async def _write_on(fs):
    for number in range(100_000):
        await fs.write_text(f"meanwhile/{number % 50}", str(number), parents=True)
