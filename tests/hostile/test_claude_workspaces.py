"""What a person agreed to in a session of the Claude Agent SDK is what is done, once."""

import pytest

from tests.hostile import claude_workspaces, inside
from tests.hostile.layouts import CANARY

pytestmark = [pytest.mark.hostile, pytest.mark.spec("TOOL-5", "ASK-2")]


@pytest.mark.parametrize("swap", claude_workspaces.SWAPS)
def test_what_stands_there_after_the_word_is_not_what_was_agreed_to(walled, swap):
    result = walled(inside.apart, claude_workspaces.after_the_word, swap)
    assert (result["asked"], result["allowed"]) == (1, True)
    assert '"ok":false' in result["said"].replace(" ", "")
    assert result["kept"], "the outside was written"
    assert result["names"] == [".env"]
    if "link" in swap:
        assert result["control"] == CANARY, "the plain call obeys: else nothing is proved"
    else:
        assert "SOMETHING ELSE" in result["control"], "what nobody saw was written over"
    assert CANARY not in result["said"] + result["seen"]
    assert "SOMETHING ELSE" not in result["said"] + result["seen"]


def test_a_word_is_for_one_call(walled):
    result = walled(inside.apart, claude_workspaces.more_calls_than_words, 40, 3)
    assert result["allowed"] == result["shown"] == 3
    assert result["refused"] == 37
    assert result["others"] == 0
    assert result["is_left"]
