"""The live attacker against ACP and fsspec, in the size of continuous integration."""

import pytest

from tests.fronts.mcp.npm import reference_server
from tests.hostile import fronts_attack

pytestmark = pytest.mark.hostile

TRIES = 2_000


@pytest.mark.spec("ACP-1", "ACP-3", "FSSPEC-1", "DISK-1")
@pytest.mark.parametrize("front", fronts_attack.FRONTS)
def test_nobody_is_ever_shown_the_outside(walled_as, front):
    file = reference_server()
    reference = None if file is None else str(file)
    result = walled_as("root")(fronts_attack.run, front, TRIES, reference)
    assert result["control"]["leaks"], "the other server must leak, or there was no attacker"
    assert result["tries"] >= TRIES
    assert result["escapes"] == 0, result["notes"]
    assert result["refused"], "nothing was refused: the attack proves nothing"
    assert all(result["inside"].values()), result["inside"]
    assert result["internal"] == 0
    assert result["descriptors"] == 0
