"""What is written is read back as it was; what was damaged on the way is noticed or harmless."""

import hypothesis
import hypothesis.strategies as st
import pytest

from bailiwick.archives.formats import format_for
from bailiwick.errors import BailiwickError, HashMismatch, ParseError
from bailiwick.paths import parse
from tests.archives.support import (
    ALL_FORMATS,
    FORMATS_OF_ANY_TREE,
    Drive,
    bounds,
    directory,
    file,
    link,
    pack,
)

pytestmark = pytest.mark.spec("ARCH-1")

CHARACTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="/\\")

NAMES = st.text(CHARACTERS, min_size=1, max_size=80).filter(
    lambda name: (
        name not in (".", "..")
        and name[1:2] != ":"
        and len(name.encode()) <= 255
        and not name.startswith(".bailiwick~")
    )
)

TIMES = st.integers(-(2**31), 2**31 - 1)


@st.composite
def trees(draw):
    """A list of entries that fit together, parents before what lies in them."""
    entries, directories = [], [""]
    taken = set()
    for _ in range(draw(st.integers(0, 8))):
        path = draw(st.sampled_from(directories)) + draw(NAMES)
        if path in taken:
            continue
        taken.add(path)
        mode, mtime_ns = draw(st.integers(0, 0o777)), draw(TIMES) * 10**9
        kind = draw(st.sampled_from(["file", "directory", "link"]))
        if kind == "directory":
            entries.append(directory(path, mode, mtime_ns))
            directories.append(f"{path}/")
        elif kind == "file":
            entries.append(file(path, draw(st.binary(max_size=2000)), mode, mtime_ns))
        else:
            entries.append(link(path, draw(NAMES.filter(str.strip))))
    return entries


@pytest.mark.parametrize("known", FORMATS_OF_ANY_TREE)
@hypothesis.given(trees())
def test_round_trip(known, entries):
    drive = Drive(pack(known, entries))
    assert list(drive.entries.values())[: len(entries)] == [
        entry._replace(mode=entry.mode if entry.kind != "symlink" else 0o777)
        for entry, _ in entries
    ]
    contents = {entry.path: content for entry, content in entries if entry.kind == "file"}
    assert {path: content for path, (kind, content) in drive.tree.items() if kind == "file"} == (
        contents
    )


@pytest.mark.parametrize("known", ALL_FORMATS)
@hypothesis.given(st.data())
def test_damage_is_a_typed_error_or_an_archive(known, data):
    """Nothing but our own errors comes out of a reader, whatever it reads; and what it names is
    a place inside."""
    entries = [directory("d"), file("d/a", b"some text " * 30), link("l", "d/a"), file("b", b"x")]
    packed = bytearray(pack(known, entries))
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["flip", "insert", "cut", "copy"]))
        at = data.draw(st.integers(0, max(len(packed) - 1, 0)))
        if kind == "flip" and packed:
            packed[at] ^= data.draw(st.integers(1, 255))
        elif kind == "insert":
            packed[at:at] = data.draw(st.binary(max_size=20))
        elif kind == "cut":
            del packed[at : at + data.draw(st.integers(1, 30))]
        else:
            packed[at:at] = packed[: data.draw(st.integers(0, 600))]
    try:
        read = Drive(bytes(packed))
    except BailiwickError:
        return
    assert all(parse(path).path == path for path in read.entries)


@hypothesis.given(
    st.binary(max_size=2000), st.sampled_from([b"", b"PK\3\4", b"\x1f\x8b\x08", b"BZh9"])
)
def test_noise_is_a_typed_error(noise, head):
    with pytest.raises(BailiwickError):
        Drive(head + noise, bounds())


@pytest.mark.parametrize("known", ALL_FORMATS)
def test_the_same_tree_gives_the_same_bytes(known):
    entries = [directory("d"), file("d/a", b"some text " * 1000), link("l", "d/a")]
    assert pack(known, entries) == pack(known, entries)


@pytest.mark.parametrize("known", ["tar", "zip"])
@pytest.mark.parametrize("content", [b"1234", b"123456"])
def test_a_file_that_changes_while_it_is_packed(known, content):
    entry, _ = file("a", b"12345")
    with pytest.raises(HashMismatch):
        pack(known, [(entry, content)])
    with pytest.raises(HashMismatch):
        pack(known, [(entry, content), file("b")])


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("a.tar", "tar"), ("a.tar.gz", "tar.gz"), ("a.tgz", "tar.gz"), ("a.TAR.XZ", "tar.xz"),
        ("a.tar.bz2", "tar.bz2"), ("a.tar.zst", "tar.zst"), ("a.b.zip", "zip"),
    ],
)  # fmt: skip
def test_the_name_says_the_format(name, known):
    assert format_for(name, None) == known
    assert format_for("anything", known) == known


@pytest.mark.parametrize("name", ["a", "a.gz", "a.rar", ".zip", "tar"])
def test_a_name_that_says_none(name):
    with pytest.raises(ParseError):
        format_for(name, None)
    with pytest.raises(ParseError):
        format_for("a.zip", "rar")
