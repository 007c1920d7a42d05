"""What is told in short is no more than what is told in full."""

import pytest

from tests.hostile import brief_runs

pytestmark = pytest.mark.hostile


@pytest.mark.spec("RUN-1", "RUN-2", "POL-4")
def test_a_short_answer_about_runs_tells_no_more_than_the_full_one(walled_as):
    result = walled_as("root")(brief_runs.run)
    assert set(result) == set(brief_runs.LATER)
    for later, told in result.items():
        assert told["more"] == [], later
        assert told["named"] == [], later
        assert told["internal"] == 0, later
        assert told["runs"] == 1 < told["of all"], later
        assert told["control"], "a person is told of it"
    whole, least = result["nothing"], result["hidden"]
    assert whole["changes"] > least["changes"] > 0, "what was kept back is kept back"
