"""What people answered, said and were asked for is nobody else's to see, answer or take back."""

import pytest

from tests.hostile import strangers

pytestmark = pytest.mark.hostile


@pytest.mark.spec("NOTE-2", "NOTE-3", "REVIEW-1", "HTTP-4")
def test_somebody_else_gets_nothing_at_the_desk(walled_as):
    result = walled_as("root")(strangers.run)
    assert result["allowed"] == [], result["allowed"]
    assert (result["internal"], result["leaks"]) == (0, 0)
    assert result["before"] == result["after"], "something was answered, accepted or taken back"
    assert result["refused"] > 300
    assert result["flooded"] <= 3, "one subject asks for three roots an hour"
    assert (result["granted"], result["control"]) == ("granted", 201)
    assert result["control_rules"] == 200, "the person can: else nothing is proved"
    assert (result["kept"], result["names"]) == (strangers.SECRET, ["mine", "secret"])
