"""What a file holds becomes no part of the page that shows it, holds nobody up, and is all seen."""

import re

import pytest

from tests.hostile import rendering

pytestmark = [pytest.mark.hostile, pytest.mark.spec("WEB-1")]

TAGS = {
    "ARTICLE", "P", "SPAN", "A", "IMG", "PRE", "CODE", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD",
    "H1", "H2", "UL", "LI",
}  # fmt: skip
ADDRESS = re.compile(
    r"href=(#/file/|https://elsewhere\.example/)|src=/file/raw\?path=notes%2Fp\.png"
)


def test_markdown_is_no_page(walled_as):
    for text, told in zip(
        rendering.PAGES,
        walled_as("root")(rendering.rendered, "markdown", rendering.PAGES),
        strict=True,
    ):
        assert set(told["tags"]) <= TAGS, text
        for each in told["attributes"]:
            assert not each.startswith("on"), text
            if each.startswith(("href=", "src=")):
                assert ADDRESS.match(each), (text, each)
                assert "outside" not in each, text


@pytest.mark.parametrize("way", ["markdown", "code", "difference", "sides"])
def test_no_text_holds_up_the_page(walled_as, way):
    walled = walled_as("root")
    assert walled(rendering.takes_for_ever), "a pattern can stand still"
    for text, told in zip(
        rendering.SLOW, walled(rendering.rendered, way, rendering.SLOW), strict=True
    ):
        assert told["ms"] < 20_000, text[:20]


@pytest.mark.parametrize("way", ["markdown", "code", "name", "difference", "sides"])
def test_what_hides_is_seen(walled_as, way):
    (told,) = walled_as("root")(rendering.rendered, way, (f"a{rendering.UNSEEN}b\nc",))
    assert not set(rendering.UNSEEN) & set(told["words"])
    assert "e0069" in told["words"], "what is said to a model alone"
