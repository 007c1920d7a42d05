"""The drive of `make scale`, for as long as it takes to see that it drives, kills and verifies."""

import json
import subprocess
import sys

import pytest


@pytest.mark.scale
@pytest.mark.slow
@pytest.mark.spec("SCALE-3", "SCALE-7")
def test_three_servers_are_driven_and_killed_and_nothing_is_lost():
    done = subprocess.run(
        [sys.executable, "-m", "tests.scale", "--faults", "3"],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["wrong"], sum(told["faults"].values())) == ([], 3)
    assert all(told["done"][each] for each in ("Writer", "Counting", "Leasing", "Asking"))
