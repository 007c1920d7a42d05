"""What is told of one change: once, whoever else makes the same directory, and whatever a listener
does with it."""

import asyncio
import collections
import random

import pytest

import bailiwick
from tests.waiting import give_a_chance, until

PLACES = ("memory", "disk", "durable disk", "history", "volume")


@pytest.fixture(params=PLACES)
def place(request, tmp_path):
    """Opens one place of each kind."""
    directory, state = tmp_path / "root", tmp_path / "state"
    directory.mkdir()
    state.mkdir()
    options = {"state_dir": str(state), "durability": "rename"}
    return {
        "memory": lambda: bailiwick.open("memory:"),
        "disk": lambda: bailiwick.open(directory, **options),
        "durable disk": lambda: bailiwick.open(directory, **{**options, "durability": "full"}),
        "history": lambda: bailiwick.open(directory, history="on", **options),
        "volume": lambda: bailiwick.open(f"sqlite:{tmp_path / 'v.db'}"),
    }[request.param]


@pytest.mark.spec("EVENT-1")
async def test_a_directory_that_several_make_at_once_is_told_once(place):
    rng = random.Random(1)
    async with place() as fs:
        told = []
        await fs.on_change(lambda change: told.append((change.kind, str(change.path))))
        for number in range(12):
            top = f"d{number}"
            jobs = [
                *(fs.write_text(f"{top}/a/b/f{each}", "x", parents=True) for each in range(3)),
                *(fs.make_dir(f"{top}/a/{name}", parents=True) for name in "bbc"),
                fs.make_dir(f"{top}/a", parents=True),
            ]
            rng.shuffle(jobs)
            await asyncio.gather(*jobs)
            await fs.write_text(f"{top}/x/y/f", "x", parents=True)
        expected = {
            *(
                ("created", f"d{number}{each}")
                for number in range(12)
                for each in ("", "/a", "/a/b", "/a/c", "/x", "/x/y")
            ),
            *(("created", f"d{number}/a/b/f{each}") for number in range(12) for each in range(3)),
            *(("created", f"d{number}/x/y/f") for number in range(12)),
        }
        await until(lambda: len(told) >= len(expected))
        await give_a_chance()
        assert [each for each, count in collections.Counter(told).items() if count > 1] == []
        assert set(told) == expected


@pytest.mark.spec("EVENT-2")
@pytest.mark.parametrize(
    "raised",
    [RuntimeError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit],
)
async def test_whatever_a_listener_raises_the_write_is_answered(place, raised, caplog):
    async with place() as fs:
        heard, both = [], asyncio.Event()

        def broken(change):
            raise raised

        def sound(change):
            heard.append(str(change.path))
            if len(heard) == 2:
                both.set()

        await fs.on_change(broken)
        await fs.on_change(sound)
        async with asyncio.timeout(20):
            assert (await fs.write_text("f", "x")).created
            assert not (await fs.write_text("f", "y")).created
            await both.wait()
        assert heard == ["f", "f"]
        assert caplog.text.count("change listener failed") == 2
