"""Webhooks whose servers lie."""

import pytest

from tests.hostile import inside, lying_hooks

pytestmark = [pytest.mark.hostile, pytest.mark.spec("NOTE-1")]


@pytest.mark.parametrize("lie", lying_hooks.LIES)
def test_whoever_is_told_sends_nobody_anywhere_and_holds_up_nothing(walled_as, lie):
    result = walled_as("user")(inside.apart, lying_hooks.run, lie)
    assert result["requests"] >= 1
    assert result["told"] == 0, "content was sent"
    assert result["reached"] == 0, "it was sent to another port, and went"
    assert result["control"] in (True, None), "the plain client goes there: else nothing is proved"
    assert result["grown_kib"] < 64 * 1024
    assert result["ended_s"] < 20
