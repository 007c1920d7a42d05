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
@pytest.mark.parametrize("over", ["directory", "volume"])
@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_what_a_killed_process_was_applying_is_there_whole_or_not_at_all(
    tmp_path, seed, over
):
    state = tmp_path / "state"
    place = f"sqlite:{tmp_path}/place.db"
    if over == "directory":
        place = tmp_path / "place"
        place.mkdir()
    async with bailiwick.open(place, state_dir=str(state)) as fs:
        await fs.write_text("moved/inner", "0\n", parents=True)
        await fs.write_text("moved/kept", "as it was\n")
    words = ["-m", "tests.working_copies.overlay_program", str(place), str(state)]
    chance = random.Random(seed)
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        said = killed_at_work(process, 1, chance.uniform(0, 0.5))
    acknowledged = int(said[-1])
    async with bailiwick.open(place, state_dir=str(state)) as fs:  # what was begun is finished
        files = (await fs.find(".", "*", type="file")).paths
        found = {str(each): (await fs.read_text(each)).text for each in files}
    assert found.pop("moved/kept") == "as it was\n"
    assert len(found) == 17
    assert {int(each) for each in found.values()} <= {acknowledged, acknowledged + 1}
    assert len(set(found.values())) == 1
    assert not list(tmp_path.glob("place/**/.bailiwick~*"))
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
