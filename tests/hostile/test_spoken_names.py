"""Nothing is accepted that was not shown, however it is called."""

import pytest

from tests.hostile import spoken_names

pytestmark = pytest.mark.hostile


@pytest.mark.spec("REVIEW-2", "OVER-1")
def test_no_name_brings_what_nobody_saw(walled_as):
    result = walled_as("root")(spoken_names.run)
    assert result["control"] == [spoken_names.EVIL] * 2, "as it is shown now it is brought"
    assert result["collides"]
    assert result["one"] == ["good"]
    assert set(result["all"]) >= {"evil"}
    assert result["run"] == 200
    assert result["accepted"] == []
    assert result["internal"] == []
    assert result["tree"] == []
    assert result["lines"] == ["good"]
    assert result["left"] == ["run/a", "run/b"]
    assert result["refused"] > 300
    assert not [each for each in result["kinds"] if each.startswith("no kind")]
