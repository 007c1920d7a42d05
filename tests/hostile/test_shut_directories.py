"""Directories that a program shuts behind itself, as root and as a plain user."""

import pytest

from tests.hostile import shut_directories

pytestmark = pytest.mark.hostile


@pytest.mark.spec("EXEC-7", "EXEC-8")
@pytest.mark.parametrize("how", shut_directories.HOWS)
@pytest.mark.parametrize("name", shut_directories.SCRIPTS)
def test_what_was_done_in_them_is_brought_back(with_sandboxes, name, how):
    with_sandboxes(shut_directories.brought_back, how, name)


@pytest.mark.slow
@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("name", shut_directories.KILLED)
def test_so_is_what_a_killed_process_was_bringing_back(with_sandboxes, name):
    with_sandboxes(shut_directories.killed, name)


@pytest.mark.spec("EXEC-8")
def test_one_that_nobody_can_look_into_keeps_nothing_else_back(with_sandboxes):
    with_sandboxes(shut_directories.shut_to_whoever_looks)


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("name", shut_directories.SCRIPTS)
def test_what_fails_is_taken_back_with_their_modes(with_sandboxes, name):
    with_sandboxes(shut_directories.taken_back, name)


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("name", shut_directories.OUT_SCRIPTS)
def test_so_are_links_that_lead_out(with_sandboxes, name):
    with_sandboxes(shut_directories.links_out_taken_back, name)


@pytest.mark.spec("EXEC-8", "DISK-5", "DISK-8")
def test_one_that_is_opened_meanwhile_keeps_its_setgid_and_sticky(with_sandboxes):
    with_sandboxes(shut_directories.special_bits)


@pytest.mark.spec("EXEC-8", "DISK-8")
@pytest.mark.parametrize(
    "how",
    [
        "opened_by_two_processes", "opened_by_two_tasks", "opened_by_one_who_is_killed",
        "opened_by_an_undo",
    ],
)  # fmt: skip
def test_two_who_open_one_at_once_are_not_shut_out_by_each_other(with_sandboxes, how):
    with_sandboxes(getattr(shut_directories, how))


@pytest.mark.spec("EXEC-8")
def test_one_is_shut_again_where_the_first_change_fails(with_sandboxes):
    with_sandboxes(shut_directories.shut_again_where_nothing_could_be_done)
