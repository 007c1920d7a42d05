"""A blocking client that is interrupted: nothing of the call lands at the server afterwards.

The server is another process, so that no alarm and no interpreter lock orders what it does.
"""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from bailiwick.client import connect_sync
from tests.interrupts.alarms import Interrupter
from tests.processes import in_a_group
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.spec("LINE-5"),
    # A coroutine that was made when the alarm came, and not yet handed over, is never begun.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
]

A, B = b"a" * 300_000, b"b" * 300_000

WRITES = {
    "bytes": lambda fs: fs.write_bytes("f", A),
    "a stream": lambda fs: fs.write_stream("f", [A[:100_000], A[100_000:]]),
    "appended": lambda fs: fs.append("f", A),
}


@contextlib.contextmanager
def _server(place, state):
    command = [sys.executable, "-m", "bailiwick", "serve", place, "--port", "0", "--json"]
    environment = {**os.environ, "XDG_STATE_HOME": state, "XDG_DATA_HOME": state}
    with in_a_group(command, stdout=subprocess.PIPE, env=environment, text=True) as server:
        yield json.loads(server.stdout.readline())
        server.terminate()
        server.wait(PATIENCE_S)


@pytest.mark.parametrize("write", WRITES)
def test_an_interrupted_write_does_not_land_after_a_newer_one(tmp_path, write):
    (tmp_path / "tree").mkdir()
    interrupted = 0
    with (
        _server(f"demo={tmp_path}/tree", f"{tmp_path}/state") as told,
        connect_sync(told["url"], token=told["token"]) as fs,
        Interrupter(write).installed() as alarms,
    ):
        fs.write_bytes("f", B)
        alarms.measure(lambda: WRITES[write](fs))
        for _ in range(25):
            fs.write_bytes("f", B)
            interrupted += alarms.interrupted(lambda: WRITES[write](fs))
            seen = (tmp_path / "tree/f").read_bytes()
            assert seen in (A, B, B + A)
            assert (tmp_path / "tree/f").read_bytes() == seen, "it landed when it had left"
            newer = fs.write_bytes("f", B)
            assert (tmp_path / "tree/f").read_bytes() == B
            assert fs.stat("f").size == newer.size
        # All that was acknowledged is the last word: one more exchange, and nothing has changed.
        assert fs.read_bytes("f").data == B
    assert interrupted > 3
