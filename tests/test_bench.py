"""What is measured still runs: everything of our own in `bench`, once each, on small trees."""

import contextlib
import json
import os
import pathlib
import shutil
import sys

import pytest

from bench import chart, day, http, machine, mcp, programs, report, scale, scratch, servers
from bench.cases import all_cases
from bench.figures import crashed, of_case
from bench.hands import FSSPEC, HANDS, PLAIN, HttpHand, ReferenceHand
from bench.peers import PEERS
from bench.peers.fsspec_local import CAT_FILE
from bench.peers.peer import Places
from bench.run import FIGURES, ROOT, fill, many_cases, memory_peak, unmeasured
from bench.timing import Case, Contender, measure
from bench.trials import TRIALS

SMALL = scratch.Sizes(
    listed=10, searched_few=100, searched_many=200, large_chunks=2, trees=(100, 200), touched=80,
    edited=4, sources=160, days=1, searched_days=1,
)  # fmt: skip

OWN_PEERS = [kind for kind in PEERS if kind.own]
OWN_HANDS = [kind for kind in HANDS if kind.ours or kind.name == PLAIN or kind is ReferenceHand]
DAILY = [
    *(kind for kind in OWN_HANDS if kind.edits),
    pytest.param(HttpHand, marks=pytest.mark.slow),
]
OTHERS = {CAT_FILE, FSSPEC}
"""Against whom a bar is that is not tried here."""


@pytest.fixture
def memory():
    """In memory as in a run, where there is some: a disk takes most of the time."""
    place = scratch.on_memory()
    yield place
    shutil.rmtree(place)


@pytest.fixture
def places(memory, monkeypatch):
    """Where everyone works, with ripgrep to be found as in a run."""
    path = os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.defpath))
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("XDG_STATE_HOME", str(memory / "home"))
    found = Places(*(memory / name for name in ("memory", "disk", "state")), SMALL)
    for place in (found.memory, found.disk, found.state):
        place.mkdir()
    fill(found)
    return found


async def faults(cases):
    """What did not run, and bars on what is not there."""
    found = []
    for case in cases:
        timed = await measure(case, rounds=1)
        found += [f"{case.key}: {each.name}: {each.failure}" for each in timed if each.failure]
        found += [f"{case.key}: {each.name} was not timed" for each in timed if not each.rounds]
        found += unheld(case, {each.name for each in timed})
    return found


def unheld(case, names):
    """Who has a bar or a place in the chart, and takes no part in the case."""
    named = {name for bar in case.bars for name in (bar.contender, bar.against)}
    rows = [name for group in chart.GROUPS if group.key == case.key for name in group.rows]
    named |= {name for name in rows if name.startswith("Bailiwick")}
    return [f"{case.key}: nobody is called {name}" for name in sorted(named - names - OTHERS)]


@pytest.mark.slow
async def test_each_library_of_ours_does_what_is_measured(places):
    async with contextlib.AsyncExitStack() as stack:
        peers = []
        for kind in OWN_PEERS:
            peer = kind(places)
            await peer.open()
            stack.push_async_callback(peer.close)
            peers.append(peer)
        assert await faults(all_cases(peers, SMALL)) == []


@pytest.mark.slow
async def test_each_hand_of_ours_does_what_is_measured(places):
    async with contextlib.AsyncExitStack() as stack:
        assert await faults(await many_cases(places, OWN_HANDS, stack)) == []


@pytest.mark.parametrize("searching", [False, True], ids=["day", "day-search"])
@pytest.mark.parametrize("kind", DAILY, ids=lambda kind: kind.__name__)
async def test_each_hand_of_ours_lives_its_day(kind, searching, places):
    took = await day.live(kind, places.memory / "day", SMALL, searching=searching)
    assert took["steps"] == 116 + 25 * searching


@pytest.mark.slow
def test_the_peak_of_memory_is_found(places):
    found = memory_peak(places, mib=1)
    assert not crashed(found)
    assert all(bar["value"] is not None for bar in found["bars"])


@pytest.mark.slow
def test_http_is_measured_with_a_figure_for_each_bar(memory, monkeypatch):
    monkeypatch.setattr(servers, "PYTHON", pathlib.Path(sys.executable))
    work = http.Work(rounds=1, connections=2, seconds=0, files=10, blocks=2)
    found = http.measure(memory, work)
    assert unknown("http", found) == []


@pytest.mark.slow
def test_mcp_is_measured_with_a_figure_for_each_bar(memory, monkeypatch):
    """Beside another of ours: the reference server needs Node and what it fetches."""
    monkeypatch.setattr(servers, "PYTHON", pathlib.Path(sys.executable))
    monkeypatch.setattr(mcp, "WARM", 1)
    with contextlib.ExitStack() as stack:
        running = {}
        for name in ("bailiwick", "reference"):
            server = mcp.own_server(mcp.planted(memory / name), memory / f"{name}-state")
            stack.callback(server.close)
            running[name] = server
        found = mcp.measure(running, 2, 10, SMALL)
    assert unknown("mcp", found) == []


@pytest.mark.slow
async def test_each_curve_is_measured(memory, monkeypatch):
    monkeypatch.setattr(scale, "TURNS", 1)
    monkeypatch.setattr(scale, "CALLS", 5)
    ones = scale.Curves(entries=(10,), rules=(1,), grants=(2,), records=(10,), followers=(1,))
    found = await scale.measure(memory, ones)
    assert {name: len(rows) for name, rows in found.items() if name != "unit"} == {
        "in_a_directory": 1, "under_rules": 1, "among_grants": 1, "with_followers_of_the_feed": 1,
        "with_a_ledger": 1,
    }  # fmt: skip


@pytest.mark.slow
async def test_commands_are_measured_with_a_figure_for_each_bar(needs_bubblewrap, tmp_path):
    assert unknown("programs", await programs.started(tmp_path, 1, 200)) == []
    changed = await programs.all_changed(tmp_path, 200)
    assert {"rewritten_s", "removed_s", "created_s", "second_in_overlay_s"} <= changed.keys()


def unknown(name, found):
    """The bars of a trial for which there is no figure."""
    trial = next(trial for trial in TRIALS if trial.name == name)
    assert trial.bars
    return [bar.text for bar in trial.bars if bar.verdict(found)["value"] is None]


@pytest.mark.parametrize("name", ["programs", "attack", "crash"])
def test_each_bar_of_what_was_kept_has_a_figure(name):
    found = json.loads((ROOT / "bench" / f"{name}.json").read_text(encoding="utf-8"))
    assert unknown(name, found) == []


@pytest.mark.parametrize(
    ("found", "reached"),
    [
        ({"tries": 1_000_000, "escapes": 0}, True),
        ({"tries": 1_000_000, "escapes": 1}, False),
        ({"tries": 20_000, "escapes": 0}, None),
        ({}, None),
    ],
)
def test_a_bar_is_judged_by_what_was_measured_in_full(found, reached):
    (bar,) = next(trial for trial in TRIALS if trial.name == "attack").bars
    assert bar.verdict(found)["reached"] is reached


def test_the_report_judges_every_bar():
    written = report.as_markdown(json.loads(FIGURES.read_text(encoding="utf-8")))
    for trial in TRIALS:
        for bar in trial.bars:
            assert f"| {trial.title} | {bar.text} | " in written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model name\t: A 1\nflags\t\t: fpu sha_ni\n", "A 1 (with instructions for SHA-256)"),
        ("model name\t: A 1\nflags\t\t: fpu\n", "A 1 (without instructions for SHA-256)"),
        ("model name\t: B\nFeatures\t: fp sha1 sha2\n", "B (with instructions for SHA-256)"),
    ],
)
def test_the_machine_says_whether_it_hashes_by_itself(text, said, tmp_path):
    (tmp_path / "cpuinfo").write_text(text)
    assert machine.processor(tmp_path / "cpuinfo") == said
    assert "cores of" in machine.described()


@pytest.mark.parametrize("key", [day.DAY, day.SEARCHING])
def test_each_bar_of_the_day_is_somebodys(key):
    assert unheld(day.day_case(key), day.DAILY.keys()) == []


def test_a_case_that_is_not_there_is_told():
    cases = json.loads(FIGURES.read_text(encoding="utf-8"))["cases"]
    assert unmeasured(None, cases) == []
    assert unmeasured(["read", "planted"], cases) == ["planted"]


async def test_a_case_that_fails_makes_the_run_fail():
    def breaks():
        raise OSError("planted")

    case = Case("planted", "Planted", [Contender("well", int), Contender("broken", breaks)])
    assert crashed(of_case(case, await measure(case, rounds=1)))
