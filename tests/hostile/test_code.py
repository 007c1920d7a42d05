"""What code in a sandbox cannot do, as root and as a plain user, beside what can."""

import pytest

from tests.hostile import coded

pytestmark = [pytest.mark.hostile, pytest.mark.spec("CODE-1", "CODE-2")]


@pytest.mark.parametrize("name", coded.ATTACKS)
def test_nothing_of_the_secret_comes_out(with_sandboxes, name):
    with_sandboxes(coded.attack, name)


def test_hidden_files_are_hidden_and_the_tree_is_not_there(with_sandboxes):
    with_sandboxes(coded.hidden_files)


def test_who_may_only_read_changes_nothing(with_sandboxes):
    with_sandboxes(coded.reading_only)


def test_commands_reach_nothing(with_sandboxes):
    with_sandboxes(coded.commands)


def test_there_is_no_network(with_sandboxes):
    with_sandboxes(coded.network)


def test_the_pipe_can_be_reached(with_sandboxes):
    with_sandboxes(coded.raw_calls)


@pytest.mark.parametrize("name", coded.BROKEN)
def test_what_is_no_message_ends_the_run(with_sandboxes, name):
    with_sandboxes(coded.broken, name)


def test_names_that_are_no_verbs_are_no_calls(with_sandboxes):
    with_sandboxes(coded.private_names)


def test_who_says_it_is_done_is_done(with_sandboxes):
    with_sandboxes(coded.forged_ends)


def test_floods_are_bounded(with_sandboxes):
    with_sandboxes(coded.floods)


def test_silence_and_closed_pipes_end(with_sandboxes):
    with_sandboxes(coded.silences)


def test_nobody_survives_the_code(with_sandboxes):
    with_sandboxes(coded.survivors)


def test_memory_processes_and_depth_are_bounded(with_sandboxes):
    with_sandboxes(coded.greed)
