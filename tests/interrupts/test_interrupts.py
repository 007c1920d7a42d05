"""Signals that raise at any instant, in a process of their own.

An exception that comes at any instruction may come in the test runner's own, or where the
interpreter can only report it (in a destructor), or leave a lock of the standard library taken:
nothing else is to run there.
"""

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_S


@pytest.mark.slow
@pytest.mark.spec("LINE-5", "LIFE-2")
@pytest.mark.parametrize("way", ["blocking", "through_the_client", "through_fsspec"])
def test_a_signal_in_a_blocking_verb_leaves_it_when_its_work_has_ended(way):
    if way == "through_fsspec":
        pytest.importorskip("fsspec")
    run = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:unraisableexception",
            "-p", "no:cacheprovider", f"tests/interrupts/{way}.py",
        ],
        capture_output=True, text=True, timeout=10 * PATIENCE_S,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-5_000:]
