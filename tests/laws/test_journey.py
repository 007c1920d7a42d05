"""The way of a call through the house does not become longer."""

import pytest

from tests.laws.journey import followed, journey, parted

FILES_MAX = {
    False: {"the line": 15, "the store": 7, "the state": 13},
    True: {"the line": 26, "the store": 11, "the state": 18},
}
"""As many as there are, by whether a person is asked. Whoever needs fewer lowers it. What keeps the
ledger is among them, since it is done on the thread of the call while commits are quick; what comes
between while a person is asked may pass one more of each."""


@pytest.mark.parametrize("asked", FILES_MAX)
async def test_a_governed_write_passes_no_more_files(tmp_path, asked):
    passed = await journey(tmp_path, asked=asked)
    print(f"{passed.total()} calls, {len(passed)} files")
    assert "pipeline.py" in passed
    parts = parted(passed)
    assert parts.keys() == FILES_MAX[asked].keys()
    for part, most in FILES_MAX[asked].items():
        assert len(parts[part]) <= most, (part, sorted(parts[part]))


async def test_a_journey_is_counted_by_the_files_that_it_enters():
    from bailiwick.paths import ScopedPath

    async def act():
        return ScopedPath("a").parent

    assert set(await followed(act)) == {"paths.py"}
