"""Filesystems that are mounted in a tree while a working copy is brought back into it."""

import pytest

from tests.hostile import mounted_meanwhile

pytestmark = [pytest.mark.hostile, pytest.mark.spec("EXEC-8")]


@pytest.mark.parametrize("how", mounted_meanwhile.HOWS)
@pytest.mark.parametrize("when", mounted_meanwhile.WHENS)
def test_nothing_of_it_is_touched(walled_as, when, how):
    found = walled_as("operator")(mounted_meanwhile.brought_back, how, when, guarded=True)
    assert found["is_as_planted"]
    assert found["brought"] == ["d/other", "z"]
    names = {"d/m", "d/m/sub", "d/m/kept", "d/m/kept/made", "d/m/new", "d/m/link"}
    assert found["withheld"] == dict.fromkeys(names, "unsupported")


@pytest.mark.parametrize("how", mounted_meanwhile.HOWS)
@pytest.mark.parametrize("when", mounted_meanwhile.WHENS)
def test_whoever_does_not_look_again_touches_it(walled_as, when, how):
    found = walled_as("operator")(mounted_meanwhile.brought_back, how, when, guarded=False)
    assert not found["is_as_planted"]


@pytest.mark.spec("OVER-1")
def test_what_an_overlay_holds_is_withheld_while_it_is_covered(walled_as):
    walled_as("operator")(mounted_meanwhile.mounted_for_long)


@pytest.mark.spec("DISK-8")
def test_nothing_of_it_is_taken_back(walled_as):
    found = walled_as("operator")(mounted_meanwhile.undone, guarded=True)
    assert found["is_as_planted"]
    assert found["undone"] == ["z"]
    assert found["conflicts"] == dict.fromkeys(
        ("d/m/made", "d/m/new", "d/m/sub"), "another filesystem was mounted there meanwhile"
    )


@pytest.mark.spec("DISK-8")
def test_whoever_does_not_look_again_takes_it_back(walled_as):
    found = walled_as("operator")(mounted_meanwhile.undone, guarded=False)
    assert not found["is_as_planted"]
