"""What all tests here need: fsspec's loop, which it keeps for the whole process, and our URLs."""

import json
import os
import subprocess
import sys

import fsspec
import fsspec.asyn
import pytest

from tests.processes import in_a_group
from tests.waiting import PATIENCE_S

fsspec.asyn.get_loop()  # started before anything counts threads

ENTRY_POINTS = {
    "bailiwick": "bailiwick.fronts.fsspec.places.ServerFileSystem",
    "bailiwick+file": "bailiwick.fronts.fsspec.places.DirectoryFileSystem",
    "bailiwick+sqlite": "bailiwick.fronts.fsspec.places.VolumeFileSystem",
}

for _protocol, _class in ENTRY_POINTS.items():
    fsspec.register_implementation(_protocol, _class, clobber=True)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server of its own process: its host and port, and a token for its only root."""
    state = tmp_path_factory.mktemp("server")
    with in_a_group(
        [sys.executable, "-m", "bailiwick", "serve", "demo=memory:", "--port", "0", "--json"],
        stdout=subprocess.PIPE, cwd=state,
        env={**os.environ, "XDG_STATE_HOME": str(state), "XDG_DATA_HOME": str(state)},
    ) as process:  # fmt: skip
        with process.stdout:  # a descriptor that stays open is taken for one that a test left
            told = json.loads(process.stdout.readline())
        yield told["url"].removeprefix("http://"), told["token"]
        process.terminate()
        process.wait(PATIENCE_S)
