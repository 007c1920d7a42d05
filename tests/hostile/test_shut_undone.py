"""Taking back what came into directories that are shut, as root and as a plain user."""

import pytest

from tests.hostile import shut_undone

pytestmark = pytest.mark.hostile


@pytest.mark.spec("EXEC-7", "DISK-8", "RUN-3")
@pytest.mark.parametrize(("how", "name"), shut_undone.CASES)
def test_what_was_done_in_them_is_taken_back_with_their_modes(with_sandboxes, name, how):
    with_sandboxes(shut_undone.undone, how, name)


@pytest.mark.spec("EXEC-7", "DISK-8")
@pytest.mark.parametrize("name", shut_undone.TOPS)
def test_so_is_what_was_done_in_a_root_that_is_shut(with_sandboxes, name):
    with_sandboxes(shut_undone.in_a_shut_top, name)


@pytest.mark.slow
@pytest.mark.spec("DISK-8")
@pytest.mark.parametrize("name", shut_undone.KILLED)
def test_who_is_killed_meanwhile_leaves_none_open_and_the_rest_can_be_taken_back(walled_as, name):
    walled_as("user")(shut_undone.killed, name)


@pytest.mark.slow
@pytest.mark.spec("DISK-8")
@pytest.mark.parametrize("name", shut_undone.KILLED)
def test_where_a_step_fails_none_is_left_open_and_the_rest_can_be_taken_back(walled_as, name):
    walled_as("user")(shut_undone.failing, name)


@pytest.mark.spec("DISK-8")
@pytest.mark.parametrize("name", shut_undone.THEIRS)
def test_what_others_have_shut_since_is_not_opened(with_sandboxes, name):
    with_sandboxes(shut_undone.theirs, name)
