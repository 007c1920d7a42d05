"""A crowd at a server, for ten seconds; `make soak` does it for longer."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fronts.http.soak import check_events
from tests.fronts.http.soak_clients import Listener, Tally, Told, Unfit, Worker

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.spec("HTTP-7", "EVENT-1", "DISK-4")
def test_a_crowd_loses_nothing_and_sees_everything(tmp_path):
    """Whatever is wrong is what the process says before it ends with 1."""
    place, figures = tmp_path / "place", tmp_path / "figures.json"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fronts.http.soak", "--seconds", "10", "--clients", "256",
         "--kills", "1", "--place", place, "--json", figures],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(figures.read_text())
    assert seen["errors"].keys() <= {"hash_mismatch", "closed"}
    assert seen["events"] > 0
    assert seen["acknowledged_changes"] > seen["clients"]


class Heard:
    """A crowd of one worker that did three things, and one listener."""

    def __init__(self, *events):
        self.workers = [Worker(1, "g000", "workspace:tree", Tally())]
        self.listeners = [Listener("g000", "workspace:tree", 0)]
        self.workers[0].done = list(DONE)
        self.listeners[0].events = list(events)


DONE = tuple(Told(f"w001-{number}", "updated", "g000/w001/f0") for number in range(3))
FOREIGN = Told("", "updated", "g000/w001/f0")


@pytest.mark.parametrize(
    ("events", "fits"),
    [
        (DONE, True),
        (DONE[:2], False),
        ((DONE[0], DONE[2], DONE[1]), False),
        ((*DONE, DONE[2]), False),
        ((*DONE, FOREIGN), False),
    ],
    ids=["whole", "one lost", "out of order", "one twice", "one that nobody did"],
)
def test_the_soak_notices(events, fits):
    """The control: what it is there to find, it finds."""
    with contextlib.nullcontext() if fits else pytest.raises(Unfit):
        check_events(Heard(*events), 0)


def test_only_a_kill_excuses_and_only_what_a_rescan_stands_for():
    heard = Heard(*DONE[:2])
    with pytest.raises(Unfit):
        check_events(heard, 1)
    heard.listeners[0].rescans.append("g000")
    check_events(heard, 1)
    with pytest.raises(Unfit):
        check_events(heard, 0)
    # A volume keeps what was changed with the change: nothing stands for it.
    heard.listeners[0].root = "workspace:volume"
    with pytest.raises(Unfit):
        check_events(heard, 1)
