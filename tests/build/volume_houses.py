"""Authorities on volumes, for tests: a configuration, and processes that work under it."""

import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager

import apsw

import bailiwick
from tests.authority.support import House
from tests.laws.repository import ROOT


def configuration(tmp_path, text=""):
    """A configuration of the root ``workspace:demo`` on a volume beside it."""
    file = tmp_path / "bailiwick.toml"
    if not file.exists():
        file.write_text(f"""
[state]
durability = "rename"
[[root]]
id = "demo"
kind = "workspace"
trusted = true
volume = "sqlite:agent.db?volume=demo"
{text}
[[grant]]
subject = "agent_run:*"
root = "workspace:*"
access = ["read", "write", "delete", "list", "move", "archive", "watch", "metadata"]
""")
    return file


@asynccontextmanager
async def house(tmp_path, *, state="state", text=""):
    opening = bailiwick.Authority.from_config(
        configuration(tmp_path, text), state_dir=None if state is None else str(tmp_path / state)
    )
    async with opening as authority:
        yield House(authority, None)


@contextmanager
def worker(tmp_path, name, count, *how, state="state"):
    arguments = [configuration(tmp_path), tmp_path / state, name, count, *how]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.build.note_worker", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


async def changes_on_record(house):
    """Request id and outcome of every change, oldest first."""
    found = [
        (each.request_id, each.outcome)
        for each in await house.records()
        if each.operation == "write" and each.verb == "write_text"
    ]
    assert (await house.authority.ledger.verify()).ok
    return found


def in_volume(tmp_path, sql, *values):
    """Ask the volume's file itself, as someone who has it."""
    connection = apsw.Connection(str(tmp_path / "agent.db"))
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()
