"""What a person agrees to is what they saw, whoever goes on changing it, and stays inside."""

import pytest

from tests.hostile import settling

pytestmark = pytest.mark.hostile


@pytest.mark.spec("REVIEW-2")
@pytest.mark.parametrize("at", ["overlay", "fork"])
def test_an_agent_that_goes_on_has_nothing_agreed_to_that_nobody_saw(walled_as, at):
    result = walled_as("root")(settling.race, at)
    assert result["control"] == settling.EVIL, "without a name of what was seen it comes through"
    assert (result["evil"], result["lost"]) == (0, 0)
    assert result["agreed"] + result["refused"] == len(settling.SAID) * settling.ROUNDS


@pytest.mark.spec("REVIEW-2", "DISK-1", "HTTP-5")
def test_settling_is_for_people_of_that_root_and_stays_inside(walled_as):
    result = walled_as("root")(settling.run)
    assert result["allowed"] == [], result["allowed"]
    assert (result["internal"], result["leaks"], result["kinds"]) == (0, 0, [])
    assert result["refused"] > 80
    assert set(result["before"].values()) == {settling.OURS}, "something was settled"
    assert set(result["outside"].values()) == {settling.SECRET}
    assert result["listed"] == ["f"]
