"""Who decides about what lies apart, in a working copy, an overlay or a fork, and loses the answer
with the server, is given it by asking again, wherever that died: it is done once, and whole."""

import json
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.spec("SCALE-3", "HTTP-11"), pytest.mark.usefixtures("needs_bubblewrap"),
    pytest.mark.slow, pytest.mark.timeout(1200),
]  # fmt: skip

STRIDE = 20
"""Of so many steps the server dies at one, at others for each row."""

FIRST = 8
"""Before so many steps it dies for the first time: no decision takes fewer."""

OF_WORK = ("apply", "apply some", "discard", "discard some", "accept", "accept a hunk", "reject",
           "reject a hunk", "both")  # fmt: skip
OF_OVERLAYS = ("apply the overlay", "discard the overlay", "accept", "reject", "both", "settle",
               "keep theirs")  # fmt: skip
OF_FORKS = ("accept", "accept a hunk", "reject", "reject a hunk", "both", "settle", "keep theirs")

ROWS = [
    *(("directory", each) for each in OF_WORK),
    *(("volume", each) for each in ("apply", "discard some", "accept a hunk", "reject", "both")),
    *(("overlay", each) for each in OF_OVERLAYS),
    *(("fork", each) for each in OF_FORKS),
]


def told(*words):
    asked = [sys.executable, "-m", "tests.fronts.http.dying_decisions", *map(str, words)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("place", "decision"), ROWS, ids=map(" ".join, ROWS))
def test_it_is_answered_and_done_once(tmp_path, place, decision):
    first = ROWS.index((place, decision)) % FIRST
    *died, lived = told(place, decision, tmp_path, first, STRIDE)
    assert died
    assert lived["status"] == 200
    assert not lived["answer"].get("conflicts")
    assert died == [lived] * len(died)
