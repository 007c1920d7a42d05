"""A key is of whoever made the change: nobody else is told by it what they did."""

import pytest

from tests.hostile import keys

pytestmark = pytest.mark.hostile


@pytest.mark.spec("HTTP-11", "SCALE-3")
def test_nobody_is_told_anything_by_the_key_of_another(walled_as):
    result = walled_as("root")(keys.run)
    assert result["told"] == []
    assert result["internal"] == []
    assert set(result["odd"]) == {400}
    assert all(result["control"]), "the victim is told the same again"
    assert len(result["ended"]) == 1


@pytest.mark.spec("HTTP-11", "SCALE-3")
def test_what_came_of_a_change_of_the_state_is_told_to_its_caller_alone(walled_as):
    result = walled_as("root")(keys.run_governing)
    assert result["told"] == []
    assert result["blocked"] == []
    assert result["control"] == [True, True], "the victim is told what came of it"
    assert len(set(result["own"])) == 1, "another person has a key of the same name, once"
