"""The live attacker against `bailiwick mcp`, in the size of continuous integration."""

import pytest

from tests.fronts.mcp.npm import reference_server
from tests.hostile import mcp_attack

pytestmark = pytest.mark.hostile

TRIES = 2_000


@pytest.mark.slow
@pytest.mark.spec("MCP-1", "DISK-1")
def test_a_client_is_never_shown_the_outside(walled_as):
    file = reference_server()
    reference = None if file is None else str(file)
    result = walled_as("root")(mcp_attack.run, TRIES, reference)
    assert result["control"]["leaks"], "the other server must leak, or there was no attacker"
    assert result["tries"] >= TRIES
    assert result["escapes"] == 0, result["notes"]
    assert result["refused"], "nothing was refused: the attack proves nothing"
    assert all(result["inside"].values()), result["inside"]
    assert result["internal"] == 0
    print(result["control"])
