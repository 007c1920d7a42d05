"""Others at work in the place where what is removed lies."""

import pytest

from tests.hostile import swapped_removed

pytestmark = pytest.mark.hostile


@pytest.mark.spec("DISK-1", "DISK-9", "EXEC-4")
def test_whatever_is_put_where_removed_things_lie_leads_nowhere(walled):
    walled(swapped_removed.run)


def test_the_name_leads_somewhere_for_whoever_believes_it(walled):
    walled(swapped_removed.control)


@pytest.mark.spec("DISK-1", "DISK-9")
@pytest.mark.parametrize("where", swapped_removed.PLACES)
def test_what_is_mounted_on_the_rest_of_a_killed_removal_stays(walled_as, where):
    walled_as("operator")(swapped_removed.mounted_on_the_rest, where)


@pytest.mark.spec("DISK-1", "DISK-9", "TREE-2")
def test_who_clears_up_after_a_killed_removal_may_be_killed(walled):
    walled(swapped_removed.killed_again_and_again)
