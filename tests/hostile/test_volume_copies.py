"""Volumes that are copied where another user plants links, and copies that are none."""

import pytest

from tests.hostile import inside, volume_copies

pytestmark = [pytest.mark.hostile, pytest.mark.spec("SCALE-2", "VOL-3")]


@pytest.mark.parametrize("what", volume_copies.RACED)
def test_no_copy_goes_where_a_link_leads_that_comes_and_goes(walled_as, what):
    result = walled_as("root")(inside.apart, volume_copies.race, what, 40)
    assert result["control"], "the plain call obeys: else nothing is proved"
    assert result["answers"].get("permission_denied"), "the link was never there"


@pytest.mark.parametrize("name", volume_copies.NO_COPIES)
def test_what_is_no_copy_is_not_let_go_of(walled, name):
    result = walled(inside.apart, volume_copies.discard, name)
    assert "done" not in result["answers"]
    assert "internal_error" not in result["answers"]
    assert result["untouched"], result["changed"]


def test_a_copy_that_is_let_go_of_while_it_is_made_is_left_by_both(walled):
    result = walled(inside.apart, volume_copies.discard_under_way)
    assert result["let_go"] == 1, "the other one came too late, each time"
    assert result["answers"][-1] == "busy", result
    assert result["left"] == []
    assert result["source"] == result["copied_after_all"] == "the victim's"
