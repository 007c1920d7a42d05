"""Nothing outside a root is ever watched or named, whatever is swapped while it is watched."""

import pytest

from tests.hostile import watching

pytestmark = pytest.mark.hostile


@pytest.mark.spec("DISK-7", "DISK-1")
@pytest.mark.parametrize("containment", ["kernel", "walk"])
def test_a_directory_swapped_under_the_watcher_names_nothing_outside(walled, containment):
    walled(watching.swapped, containment, 3)


@pytest.mark.spec("DISK-7")
def test_a_watcher_that_goes_by_names_would_be_led_outside(walled):
    walled(watching.control)
