"""Nothing that agents name or write controls the terminal of who looks at it."""

import pytest

from tests.hostile import terminals

pytestmark = pytest.mark.hostile


@pytest.mark.spec("CLI-2", "REVIEW-4", "PATH-5")
def test_what_agents_did_is_shown_and_not_obeyed(walled_as):
    result = walled_as("operator")(terminals.run)
    assert "\x1b[2J" in result["control"]
    assert result["controls"] == {}
    assert result["shown"] > 20, "most of it is shown, escaped"
