"""What a person says to an agent is heard by that agent, and by nobody else."""

import pytest

from tests.hostile import overheard

pytestmark = pytest.mark.hostile


@pytest.mark.spec("REVIEW-3", "HTTP-2")
def test_nobody_hears_or_swallows_what_another_agent_is_told(walled_as):
    result = walled_as("root")(overheard.run)
    assert result["heard"] == []
    assert result["asked"] > 100
    assert result["control"] == dict.fromkeys(overheard.CALLED, True), "the victim hears it"
