"""What kind of content a file has, by its name and by its first bytes."""

import gzip
import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.text.mime import BINARY, PLAIN, by_content, by_name

pytestmark = pytest.mark.spec("VOL-11")


def packed_tar():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("f"))
    return made.getvalue()


def packed_zip():
    """Without the time of day, which would be in the name of the test."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo("f"), "x")
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.py", "text/x-python"), ("A.PY", "text/x-python"), ("a.b.json", "application/json"),
        ("photo.JPG", "image/jpeg"), ("x.tar.gz", "application/gzip"), ("Makefile", PLAIN),
        (".gitignore", PLAIN), ("readme.md", "text/markdown"), ("x.svg", "image/svg+xml"),
        ("noext", None), ("x.unheard-of", None), (".py", None), ("py", None), ("x.", None),
        ("", None), ("...", None),
    ],
)  # fmt: skip
def test_a_name_says_what_it_is_or_nothing(name, kind):
    assert by_name(name) == kind


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", PLAIN), (b"plain text\n", PLAIN), ("größer".encode(), PLAIN),
        ("marked".encode("utf-16"), PLAIN), (b"\x00\x01\x02", BINARY), (bytes(range(32)), BINARY),
        (b"\x89PNG\r\n\x1a\n....", "image/png"), (b"\xff\xd8\xff\xe0..", "image/jpeg"),
        (b"GIF89a..", "image/gif"), (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\x00\x00\x00WAVEfmt ", "audio/wav"), (b"RIFF....????", PLAIN),
        (b"\x00\x00\x00\x20ftypisom", "video/mp4"), (b"%PDF-1.7\n", "application/pdf"),
        (packed_zip(), "application/zip"), (packed_tar(), "application/x-tar"),
        (gzip.compress(b"x", mtime=0), "application/gzip"),
        (b"SQLite format 3\x00", "application/vnd.sqlite3"),
        (b"#!/bin/sh\necho", "text/x-script"), (b"  <!DOCTYPE html><p>", "text/html"),
        (b"<?xml version='1.0'?>", "application/xml"), (b"\x7fELF\x02", "application/x-executable"),
    ],
    ids=lambda value: ascii(value)[:24],
)  # fmt: skip
def test_the_first_bytes_say_what_it_is(content, kind):
    assert by_content(content) == kind


@given(st.binary(max_size=600), st.text(max_size=40))
def test_anything_has_a_kind(content, name):
    assert "/" in by_content(content)
    said = by_name(name)
    assert said is None or "/" in said
