"""Names of entries and texts of links: what would have to be interpreted is refused."""

import posixpath

import hypothesis
import hypothesis.strategies as st
import pytest

from bailiwick.archives.names import check_link, decoded, entry_name
from bailiwick.errors import BailiwickError, ParseError, PathOutsideWorkspace, SymlinkEscape
from bailiwick.paths import ScopedPath, parse

pytestmark = pytest.mark.spec("ARCH-1")


def named(text, *, depth_max=64, portable=False):
    return entry_name(text, 1, depth_max=depth_max, portable=portable)


@pytest.mark.parametrize(
    ("text", "path", "is_directory"),
    [
        ("a", "a", False),
        ("a/b", "a/b", False),
        ("a/", "a", True),
        ("./a/b", "a/b", False),
        ("./", ".", True),
        (".", ".", True),
        ("...", "...", False),
        ("a b/ç.txt", "a b/ç.txt", False),
        (".hidden/..x", ".hidden/..x", False),
        ("ab:c", "ab:c", False),
    ],
)
def test_plain_names(text, path, is_directory):
    assert named(text) == (path, is_directory)


@pytest.mark.parametrize(
    "text",
    [
        "/a", "//a", "../a", "a/../b", "a/..", "..", "a/../../b", "./../a", "a\\..\\b", "\\a",
        "\\\\server\\share", "C:a", "C:/a", "c:\\a", "a/b\\c",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere(text):
    with pytest.raises(PathOutsideWorkspace):
        named(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "a//b", "a/./b", "././a", ".//a", "a/.", "a//", "a\0b", "a\nb", "a\x7f", "a\x85",
        "\udce4", "x" * 256, "ü" * 128, "/".join(["d" * 200] * 21), ".bailiwick~x", "a/.bailiwick~",
    ],
)  # fmt: skip
def test_names_that_are_none(text):
    with pytest.raises(ParseError):
        named(text)


def test_depth():
    assert named("a/b/c", depth_max=2)
    with pytest.raises(ParseError, match="deeper"):
        named("a/b/c", depth_max=1)


@pytest.mark.parametrize("text", ["con", "a/NUL.txt", "a.", "a ", "a?b", "LPT1", "x~1"])
def test_portable_names(text):
    assert named(text).path == text
    with pytest.raises(ParseError):
        named(text, portable=True)


def test_bytes_that_are_no_text():
    with pytest.raises(ParseError, match="UTF-8"):
        decoded(b"a\xff", 1)


@hypothesis.given(st.text(alphabet="ab./\\:C\0\n~ü", max_size=12))
def test_a_name_that_passes_names_the_same_place_everywhere(text):
    """Whatever is accepted is, as a path, exactly what a scope would parse it to."""
    try:
        path, _ = named(text)
    except BailiwickError:
        return
    assert parse(path).path == path
    assert ".." not in ScopedPath(path).parts


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("l", "a"),
        ("l", "a/b/"),
        ("d/l", "../a"),
        ("d/e/l", "../../a/b"),
        ("d/l", "."),
        ("d/l", "./x"),
        ("l", "l"),
    ],
)
def test_links_that_stay(path, target):
    check_link(path, target, 1, 4096)
    leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    assert not leads_to.startswith(("..", "/"))


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("l", ".."),
        ("l", "../a"),
        ("d/l", "../../a"),
        ("l", "/etc/passwd"),
        ("l", "a/.."),
        ("d/l", "x/../../y"),
        ("l", "a/a/a/../../../.."),
        ("l", "\\x"),
        ("l", "C:x"),
    ],
)
def test_links_that_lead_out_or_might(path, target):
    with pytest.raises(SymlinkEscape):
        check_link(path, target, 1, 4096)


@pytest.mark.parametrize("target", ["", " ", "a\0b", "a\nb", "x" * 4097])
def test_links_without_a_text(target):
    with pytest.raises(ParseError):
        check_link("l", target, 1, 4096)
