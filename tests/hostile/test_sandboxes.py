"""What a program in a sandbox cannot do, as root and as a plain user, beside one that can."""

import pytest

from tests.hostile import beside, sandboxed, without_namespaces

pytestmark = pytest.mark.hostile


@pytest.mark.spec("EXEC-4", "EXEC-5")
@pytest.mark.parametrize("name", sandboxed.ATTACKS)
def test_nothing_of_the_secret_comes_out(with_sandboxes, name):
    with_sandboxes(sandboxed.run, name)


@pytest.mark.parametrize("name", sandboxed.ATTACKS)
def test_without_a_sandbox_it_does(with_sandboxes, name):
    with_sandboxes(sandboxed.control, name)


@pytest.mark.spec("EXEC-4")
def test_nothing_outside_is_changed(with_sandboxes):
    with_sandboxes(sandboxed.changes)


@pytest.mark.spec("EXEC-4")
def test_a_device_in_the_tree_is_not_there(walled_as):
    """As root: nobody else can make one."""
    walled_as("operator")(sandboxed.device)


@pytest.mark.spec("EXEC-5")
def test_system_calls_that_are_no_business_of_a_command_are_refused(with_sandboxes):
    with_sandboxes(sandboxed.calls)


@pytest.mark.spec("EXEC-5")
def test_it_has_no_power(with_sandboxes):
    with_sandboxes(sandboxed.power)


@pytest.mark.spec("EXEC-4", "EXEC-5")
def test_settings_of_the_kernel_cannot_be_opened_for_writing(with_sandboxes):
    with_sandboxes(sandboxed.settings)


@pytest.mark.spec("EXEC-5")
def test_processes_are_limited(with_sandboxes):
    with_sandboxes(sandboxed.forks)


@pytest.mark.spec("EXEC-5")
def test_memory_is_limited(with_sandboxes):
    with_sandboxes(sandboxed.memory)


@pytest.mark.spec("EXEC-5")
def test_nobody_survives_its_command(with_sandboxes):
    with_sandboxes(sandboxed.survivor)


@pytest.mark.spec("EXEC-9")
def test_what_it_leaves_is_told_and_not_followed(with_sandboxes):
    with_sandboxes(sandboxed.leavings)


# --- where the operator has chosen a weaker one --------------------------------------------------


@pytest.mark.spec("EXEC-4", "EXEC-5")
@pytest.mark.parametrize("name", sandboxed.ATTACKS)
def test_nothing_of_the_secret_comes_out_of_landlock(with_sandboxes, name):
    with_sandboxes(sandboxed.run, name, "landlock")


@pytest.mark.spec("EXEC-5")
@pytest.mark.parametrize("what", ["changes", "memory", "survivor", "leavings"])
def test_landlock_holds_to_the_same(with_sandboxes, what):
    with_sandboxes(getattr(sandboxed, what), "landlock")


@pytest.mark.spec("EXEC-5")
@pytest.mark.parametrize("what", ["signals", "networks", "powers", "peeking"])
def test_landlock_keeps_it_from_the_machine(with_sandboxes, what):
    with_sandboxes(getattr(without_namespaces, what))


# --- roots beside ------------------------------------------------------------------------------


@pytest.mark.spec("EXEC-3", "EXEC-4")
@pytest.mark.parametrize("what", ["reading", "writing", "links", "held", "names"])
def test_a_session_reaches_no_more_of_a_root_beside_than_its_subject_may_read(with_sandboxes, what):
    with_sandboxes(getattr(beside, what))
