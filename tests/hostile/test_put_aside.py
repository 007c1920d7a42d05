"""Removing working copies that hold whatever resists, as root and as a plain user."""

import pytest

from tests.hostile import put_aside

pytestmark = [pytest.mark.hostile, pytest.mark.spec("EXEC-8")]


def test_what_a_killed_process_was_removing_goes_whole(with_sandboxes):
    with_sandboxes(put_aside.killed)


def test_nothing_that_a_link_leads_to_is_removed(with_sandboxes):
    with_sandboxes(put_aside.planted)


def test_whoever_follows_them_removes_it(with_sandboxes):
    with_sandboxes(put_aside.control)


def test_what_others_remove_or_work_in_is_theirs(with_sandboxes):
    with_sandboxes(put_aside.held)


def test_several_may_come_upon_it_at_once(with_sandboxes):
    with_sandboxes(put_aside.at_once)
