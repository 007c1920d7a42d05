"""The text that names a volume."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.config.places import VolumePlace, names_volume, parse_volume
from bailiwick.errors import BailiwickError, ParseError

pytestmark = pytest.mark.spec("VOL-1", "VOL-13")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("sqlite:agent.db", VolumePlace("agent.db")),
        ("sqlite:agent.db?volume=demo", VolumePlace("agent.db", "demo")),
        ("sqlite:/srv/a.db?volume=a&branch=b", VolumePlace("/srv/a.db", "a", "b")),
        ("sqlite:~/a.db?branch=b&volume=a", VolumePlace("~/a.db", "a", "b")),
        ("sqlite:a.db?blobs=s3://bucket/x", VolumePlace("a.db", blobs="s3://bucket/x")),
        ("sqlite:a.db?blobs=../blobs", VolumePlace("a.db", blobs="../blobs")),
        ("sqlite:a.db?compression=zstd", VolumePlace("a.db", compression="zstd")),
        ("sqlite:a%3Fb%25c%23.db", VolumePlace("a?b%c#.db")),
        ("sqlite:%C3%A4.db?blobs=x%26y", VolumePlace("ä.db", blobs="x&y")),
        ("sqlite:a b+c.db", VolumePlace("a b+c.db")),
        ("sqlite:a.db?volume=" + "a" * 64, VolumePlace("a.db", "a" * 64)),
    ],
)
def test_what_a_text_says(text, place):
    assert parse_volume(text) == place
    assert names_volume(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "agent.db", "sqlite", "sqlite3:a.db", "sqlite:", "sqlite:?volume=a", "sqlite:a/",
        "sqlite://a.db", "sqlite:///a.db", "sqlite::memory:", "sqlite:a.db?", "sqlite:a.db?&",
        "sqlite:a.db?volume", "sqlite:a.db?volume=", "sqlite:a.db?Volume=a",
        "sqlite:a.db?mode=ro", "sqlite:a.db?volume=a&volume=a", "sqlite:a.db?volume=a&",
        "sqlite:a.db?volume=1a", "sqlite:a.db?volume=a-b", "sqlite:a.db?volume=a/b",
        "sqlite:a.db?volume=ä", "sqlite:a.db?volume=a%20", "sqlite:a.db?branch=a.b",
        "sqlite:a.db?volume=" + "a" * 65, "sqlite:a%", "sqlite:a%2", "sqlite:a%zz.db",
        "sqlite:a%00.db", "sqlite:a%FF.db", "sqlite:\ud800.db", "sqlite:a.db?blobs=ftp://x",
        "sqlite:a.db?compression=gzip", "sqlite:a.db?blobs=http://x",
        "sqlite:a.db?volume=a;drop", "sqlite:a.db?volume=a'--",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_is_wrong_is_refused_and_told_how_it_is_right(text):
    with pytest.raises(ParseError) as refused:
        parse_volume(text)
    assert refused.value.hint


BLOBS = "blobs=s3://b/c"


@pytest.mark.spec("SCALE-1")
@pytest.mark.parametrize(
    ("text", "server", "volume"),
    [
        (f"postgres://h/db?{BLOBS}", "postgres://h/db", "main"),
        (f"postgresql://u:p@h:5433/db?volume=a&{BLOBS}", "postgresql://u:p@h:5433/db", "a"),
        (f"postgres://u@[::1]:5/db?{BLOBS}", "postgres://u@[::1]:5/db", "main"),
        (
            f"postgres:///db?host=/run/pg&{BLOBS}&sslmode=require",
            "postgres:///db?host=/run/pg&sslmode=require",
            "main",
        ),
    ],
)
def test_a_place_in_postgresql(text, server, volume):
    assert names_volume(text)
    place = parse_volume(text)
    assert place == VolumePlace(server, volume, blobs="s3://b/c")
    assert not place.in_file


@pytest.mark.spec("SCALE-1")
@pytest.mark.parametrize(
    "text",
    [
        "postgres:", "postgres://", "postgres://h", "postgres://h/", "postgres://h/d",
        f"postgres://h/d e?{BLOBS}", f"postgres://h:x/d?{BLOBS}", f"postgres://h/d/e?{BLOBS}",
        f"postgres://h/d?{BLOBS}&password=x", f"postgres://h/d?{BLOBS}&options=-c",
        f"postgres://h/d?{BLOBS}&volume=a-b", f"postgres:h/d?{BLOBS}", "postgres://h/d?blobs=",
        f"postgres://h/d#x?{BLOBS}", f"postgres://h/d?{BLOBS}&search_path=x",
    ],
)  # fmt: skip
def test_what_is_no_place_in_postgresql(text):
    with pytest.raises(ParseError) as refused:
        parse_volume(text)
    assert "postgres://user@host/database" in refused.value.hint or "volume" in str(refused.value)


def test_a_misspelt_parameter_is_met_with_the_right_one():
    with pytest.raises(ParseError) as refused:
        parse_volume("sqlite:a.db?volumes=a")
    assert "'volume'" in refused.value.hint
    assert "sqlite:agent.db?volume=main" in refused.value.hint


@given(st.text(max_size=60))
def test_any_text_is_understood_or_refused_in_our_own_words(text):
    for each in (
        text, "sqlite:" + text, "sqlite:a.db?" + text, "sqlite:a.db?volume=" + text,
        "postgres://" + text, "postgres://h/d?blobs=x&" + text,
    ):  # fmt: skip
        try:
            place = parse_volume(each)
        except BailiwickError as error:
            str(error).encode()  # also what cannot be encoded is shown
        else:
            assert "\0" not in place.file
            assert place.file
