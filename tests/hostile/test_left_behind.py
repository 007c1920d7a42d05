"""Records that somebody edited, processes that were left behind, and what leads out of what is
shared."""

import pytest

from tests.hostile import left_behind

pytestmark = pytest.mark.hostile


@pytest.mark.spec("EXEC-8", "EXEC-3")
@pytest.mark.parametrize("how", left_behind.EDITS)
def test_an_edited_working_copy_leads_nowhere(with_sandboxes, how):
    with_sandboxes(left_behind.edited, how)


def test_the_edits_lead_somewhere_for_whoever_believes_them(with_sandboxes):
    with_sandboxes(left_behind.edited_control)


@pytest.mark.spec("EXEC-3", "EXEC-5")
def test_nobody_survives_a_command_of_a_session(with_sandboxes):
    with_sandboxes(left_behind.survivor)


@pytest.mark.spec("EXEC-3", "EXEC-9")
def test_directories_that_are_moved_while_they_are_read_lead_nowhere(with_sandboxes):
    with_sandboxes(left_behind.moving_while_it_is_read)


@pytest.mark.spec("OVER-3", "EXEC-4")
def test_what_a_program_is_given_leads_nowhere_else(with_sandboxes):
    with_sandboxes(left_behind.run)
