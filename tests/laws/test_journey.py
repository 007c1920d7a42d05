"""The way of a call through the house does not become longer."""

import pytest

from tests.laws.journey import followed, journey

FILES_MAX = {False: 37, True: 56}
"""As many as there are, by whether a person is asked. Whoever needs fewer lowers it. What keeps the
ledger is among them: while commits are quick it is done on the thread of the call."""


@pytest.mark.parametrize("asked", FILES_MAX)
async def test_a_governed_write_passes_no_more_files(tmp_path, asked):
    passed = await journey(tmp_path, asked=asked)
    print(f"{passed.total()} calls, {len(passed)} files")
    assert "pipeline.py" in passed
    assert len(passed) <= FILES_MAX[asked], sorted(passed)


async def test_a_journey_is_counted_by_the_files_that_it_enters():
    from bailiwick.paths import ScopedPath

    async def act():
        return ScopedPath("a").parent

    assert set(await followed(act)) == {"paths.py"}
