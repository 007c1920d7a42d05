"""The checks of the site and of its first page find what is planted for them."""

import re

import pytest

from tests import first_minutes, site_check
from tests.laws.repository import ROOT

PAGE = '<a href="other.html#there">x</a><img src="picture.png" alt="words"><p id="here">'


def site(place, **pages):
    (place / "picture.png").touch()
    for name, text in pages.items():
        (place / f"{name}.html").write_text(text)
    return place


@pytest.mark.spec("REL-5")
def test_a_whole_site_has_nothing_broken(tmp_path):
    place = site(tmp_path, index=PAGE, other='<a href="index.html#here">y</a><p id="there">')
    assert list(site_check.broken(place)) == []


@pytest.mark.spec("REL-5")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<a href="missing.html">', "missing.html is not there"),
        ('<img src="gone.png" alt="">', "gone.png is not there"),
        ('<a href="#nowhere">', "#nowhere has no such place"),
        ('<a href="other.html#nowhere">', "other.html#nowhere has no such place"),
        ('<img src="picture.png">', "a picture without words: picture.png"),
    ],
)
def test_what_is_planted_is_found(tmp_path, text, found):
    place = site(tmp_path, index=text, other="<p id='there'>")
    assert list(site_check.broken(place)) == [f"index.html: {found}"]


@pytest.mark.spec("REL-5")
def test_every_page_of_the_documentation_has_a_place_on_the_site():
    listed = set(re.findall(r"docs/[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    assert listed == there | {"docs/api.md"}


@pytest.mark.spec("REL-5")
def test_the_first_page_is_read_as_a_person_reads_it():
    text = 'Save:\n\n```toml title="a.toml"\nx = 1\n```\n\n```console\n$ one\n$ two\nshown …\n```\n'
    assert list(first_minutes.steps(text)) == [
        ("file", "a.toml", "x = 1\n"), ("command", "one", []), ("command", "two", ["shown …"]),
    ]  # fmt: skip
    assert first_minutes.is_shown(["shown …"], "before\nshown it\n")
    assert not first_minutes.is_shown(["shown …", "more"], "more\nshown it\n")


@pytest.mark.spec("REL-5")
def test_the_configuration_of_the_first_page_is_one():
    from bailiwick.config.loader import load

    files = {
        what: inner
        for kind, what, inner in first_minutes.steps(first_minutes.PAGE.read_text(encoding="utf-8"))
        if kind == "file"
    }
    assert load(files["bailiwick.toml"], source="docs").roots
    assert compile(files["agent.py"], "agent.py", "exec").co_names
