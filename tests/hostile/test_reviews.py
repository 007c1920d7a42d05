"""Nobody agrees to their own work, and no verdict reaches the outside."""

import pytest

from tests.hostile import reviews

pytestmark = pytest.mark.hostile


@pytest.mark.spec("REVIEW-1", "REVIEW-2", "NOTE-2", "DISK-1")
def test_verdicts_are_for_people_and_stay_inside(walled_as):
    result = walled_as("root")(reviews.run)
    assert result["control"] == reviews.SECRET, "the way out must lead there"
    assert result["allowed"] == []
    assert result["internal"] == 0
    before, after = result["left"]
    assert before == after, "something was accepted or taken back"
    assert result["refused"] > 150
    assert result["leaks"] == 0
    assert (result["outside"], result["names"]) == (reviews.SECRET, ["f"])
    assert not [each for each in result["kinds"] if each.startswith("no kind")]
