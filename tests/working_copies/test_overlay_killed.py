"""A process that is killed while it changes or applies an overlay."""

import random
import subprocess
import sys

import pytest

import bailiwick
from tests.killing import killed_at_work

ROUNDS = 6


@pytest.mark.slow
@pytest.mark.spec("OVER-1")
@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_what_a_killed_process_was_applying_is_there_whole_or_not_at_all(tmp_path, seed):
    place, state = tmp_path / "place", tmp_path / "state"
    (place / "moved").mkdir(parents=True)
    (place / "moved" / "inner").write_text("0\n")
    (place / "moved" / "kept").write_text("as it was\n")
    words = ["-m", "tests.working_copies.overlay_program", str(place), str(state)]
    chance = random.Random(seed)
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        said = killed_at_work(process, 1, chance.uniform(0, 0.5))
    acknowledged = int(said[-1])
    async with bailiwick.open(place, state_dir=str(state)):
        pass  # what was begun is finished
    found = {str(each.relative_to(place)): each.read_text() for each in place.rglob("*")
             if each.is_file()}  # fmt: skip
    assert found.pop("moved/kept") == "as it was\n"
    assert len(found) == 17
    assert {int(each) for each in found.values()} <= {acknowledged, acknowledged + 1}
    assert len(set(found.values())) == 1
    assert not list(place.rglob(".bailiwick~*"))
    async with bailiwick.open(f"overlay:{place}", state_dir=str(state)) as fs:
        between = "between" if await fs.exists("between") else "moved"
        names = [name.replace("moved", between) for name in found]
        counts = {int((await fs.read_text(name)).text) for name in names}
        assert (await fs.read_text(f"{between}/kept")).text == "as it was\n"
        assert counts <= {acknowledged, acknowledged + 1, acknowledged + 2}
        assert not (await fs.apply()).conflicts
        assert (await fs.changes()).changes == []
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        assert await fs.work() == []
