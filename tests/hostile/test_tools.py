"""The live attacker against the tools of models, in the size of continuous integration."""

import pytest

from tests.fronts.mcp.npm import reference_server
from tests.hostile import tools_attack

pytestmark = pytest.mark.hostile

TRIES = 2_000


@pytest.mark.spec("TOOL-4", "TOOL-5", "DISK-1")
@pytest.mark.parametrize("front", tools_attack.FRONTS)
def test_a_model_is_never_shown_the_outside(walled_as, front):
    file = reference_server()
    reference = None if file is None else str(file)
    result = walled_as("root")(tools_attack.run, front, TRIES, reference)
    assert result["control"]["leaks"], "the other server must leak, or there was no attacker"
    assert result["tries"] >= TRIES
    assert result["escapes"] == 0, result["notes"]
    assert result["refused"], "nothing was refused: the attack proves nothing"
    assert all(result["inside"].values()), result["inside"]
    assert result["internal"] == 0
    assert result["descriptors"] == 0
