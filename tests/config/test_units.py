"""Durations and sizes, and nothing that could mean two things."""

import pytest

from bailiwick.config.units import parse_duration, parse_size
from bailiwick.errors import ParseError


@pytest.mark.spec("POL-2")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 min", 300), ("8h", 28_800), ("30 s", 30), ("7 days", 604_800), ("1 day", 86_400),
        ("0 s", 0), ("100 ms", 0.1), ("2 hours", 7_200), ("1minute", 60), ("3d", 259_200),
    ],
)  # fmt: skip
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.spec("POL-2")
@pytest.mark.parametrize(
    ("text", "size"),
    [("100 MiB", 104_857_600), ("1 GiB", 2**30), ("0 B", 0), ("64KiB", 65_536), ("2TiB", 2**41)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    "text",
    ["", "5", "min", "-5 min", "5.5 min", "5  min", " 5 min", "5 min ", "5 Min", "5 m", "5 weeks",
     "1e3 s", "٣ s", "5 min 3 s", "9999999999999999999 s", "5\tmin", "5 min\n", "½ h", "5 MB"],
)  # fmt: skip
def test_what_is_no_duration(text):
    with pytest.raises(ParseError, match="is no duration") as caught:
        parse_duration(text)
    assert "5 min" in caught.value.hint


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    "text", ["", "5", "5 MB", "5 kB", "5 mib", "5 M", "-1 MiB", "1.5 GiB", "1,000 B", "5 min"]
)
def test_what_is_no_size(text):
    with pytest.raises(ParseError, match="is no size") as caught:
        parse_size(text)
    assert "MiB" in caught.value.hint
