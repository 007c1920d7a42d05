"""The live attacker, in the size of continuous integration; `make attack` for the full figure."""

import pytest

from tests.hostile import attack

pytestmark = pytest.mark.hostile

TRIES = 20_000


@pytest.mark.spec("DISK-1", "DISK-2", "DISK-3")
def test_live_attacker_gets_nothing(walled_as):
    result = walled_as("root")(attack.run, TRIES)
    assert attack.faults(result) == [], attack.table(result)
