"""Zip, read: the directory and what it leads to must say the same, and fill the file."""

import io
import shutil
import struct
import subprocess
import zipfile
import zlib

import pytest

from bailiwick.archives import zip_fields as fields
from bailiwick.errors import (
    BailiwickError,
    FileTooLarge,
    NotARegularFile,
    ParseError,
    PathOutsideWorkspace,
    SymlinkEscape,
    Unsupported,
)
from tests.archives.support import (
    Drive,
    bounds,
    directory,
    file,
    link,
    pack,
    read,
    zip_info,
    zip_of,
)

pytestmark = pytest.mark.spec("ARCH-1")


def test_what_python_writes():
    data = zip_of(
        (zip_info("d/", 0o040750), b""),
        (zip_info("d/f", 0o104755, date_time=(2001, 9, 9, 1, 46, 40)), b"content" * 1000),
        (zip_info("l", 0o120777), b"d/f"),
        ("plain", b"x"),
    )
    drive = Drive(data)
    assert drive.tree == {
        "d": ("directory", b""), "d/f": ("file", b"content" * 1000), "l": ("symlink", b"d/f"),
        "plain": ("file", b"x"),
    }  # fmt: skip
    assert drive.entries["d/f"].mode == 0o755
    assert drive.entries["d/f"].mtime_ns == 10**18
    assert drive.entries["d"].mode == 0o750


def test_stored_entries():
    data = zip_of(("a", b"x" * 1_000_000), ("b", b""), compression=zipfile.ZIP_STORED)
    assert read(data) == {"a": ("file", b"x" * 1_000_000), "b": ("file", b"")}


class Unseekable(io.RawIOBase):
    """What a pipe is like: sizes are only known afterwards, and stand there."""

    def __init__(self):
        self.data = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.data += data
        return len(data)


@pytest.mark.parametrize("large", [False, True])
def test_sizes_that_stand_after_the_content(large):
    made = Unseekable()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a", "b"):
            with archive.open(name, "w", force_zip64=large) as entry:
                entry.write(name.encode() * 5000)
    assert read(bytes(made.data)) == {
        "a": ("file", b"a" * 5000), "b": ("file", b"b" * 5000),
    }  # fmt: skip


def test_what_the_system_writes(tmp_path):
    program = shutil.which("zip")
    if program is None:
        return  # one program the less to agree with
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"x" * 5000)
    (tmp_path / "l").symlink_to("d/f")
    subprocess.run([program, "-qry", "x.zip", "d", "l"], cwd=tmp_path, check=True)
    assert read((tmp_path / "x.zip").read_bytes()) == {
        "d": ("directory", b""), "d/f": ("file", b"x" * 5000), "l": ("symlink", b"d/f"),
    }  # fmt: skip


def test_an_empty_zip():
    assert read(zip_of()) == {}


def test_a_comment_is_no_harm():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a", b"x")
        archive.comment = b"a comment"
    assert list(read(made.getvalue())) == ["a"]


def test_python_agrees_with_what_we_write():
    data = pack("zip", [directory("d"), file("d/é", b"abc" * 100), link("l", "d/é"), file("e")])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["d/", "d/é", "l", "e"]
        assert archive.read("d/é") == b"abc" * 100
        assert archive.getinfo("d/é").date_time == (2001, 9, 9, 1, 46, 40)
        assert archive.getinfo("d/é").external_attr >> 16 == 0o100644


@pytest.mark.slow
def test_many_entries_need_the_larger_records():
    count = 66_000
    data = pack("zip", [directory(f"d{number}") for number in range(count)])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert len(archive.namelist()) == count
    assert len(read(data, bounds(archive_entries_max=count))) == count


@pytest.mark.parametrize(
    ("error", "members"),
    [
        (PathOutsideWorkspace, [("../a", b"")]),
        (PathOutsideWorkspace, [("/a", b"")]),
        (PathOutsideWorkspace, [("a/../../b", b"")]),
        (PathOutsideWorkspace, [(zip_info("..\\a"), b"")]),
        (PathOutsideWorkspace, [(zip_info("C:a"), b"")]),
        (SymlinkEscape, [(zip_info("l", 0o120777), b"../x")]),
        (SymlinkEscape, [(zip_info("l", 0o120777), b"/etc")]),
        (ParseError, [(zip_info("l", 0o120777), b"x" * 5000)]),
        (ParseError, [(zip_info("l", 0o120777), b"")]),
        (ParseError, [(zip_info("l", 0o120777), b"\xff")]),
        (ParseError, [("a", b""), ("./a", b"")]),
        (ParseError, [("a", b""), ("a/b", b"")]),
        (ParseError, [(zip_info("l", 0o120777), b"d"), ("l/x", b"")]),
        (NotARegularFile, [(zip_info("a", 0o020666), b"")]),
        (NotARegularFile, [(zip_info("a", 0o060666), b"")]),
        (NotARegularFile, [(zip_info("a", 0o010666), b"")]),
        (NotARegularFile, [(zip_info("a", 0o140666), b"")]),
        (ParseError, [(zip_info("a", 0o040755), b"")]),
        (ParseError, [(zip_info("a/", 0o100644), b"")]),
        (ParseError, [(zip_info("a/", 0o040755), b"content")]),
        (ParseError, [(zip_info("a\nb"), b"")]),
    ],
)
def test_entries_that_may_not_be_made(error, members):
    with pytest.raises(error):
        read(zip_of(*members))


def test_duplicates_are_refused():
    with pytest.warns(UserWarning, match="Duplicate"):
        data = zip_of(("a", b"1"), ("a", b"2"))
    with pytest.raises(ParseError, match="twice"):
        read(data)


def central_at(data, number=0):
    at = -1
    for _ in range(number + 1):
        at = data.index(fields.CENTRAL_SIGNATURE, at + 1)
    return at


def patched(data, at, new):
    return data[:at] + new + data[at + len(new) :]


ONE = zip_of(("name", b"content of the file, which is packed " * 10))
TWO = zip_of(("aaaa", b"first " * 50), ("bbbb", b"second " * 50))
CENTRAL = central_at(ONE)
END = ONE.index(fields.END_SIGNATURE)


@pytest.mark.parametrize(
    ("error", "data"),
    [
        pytest.param(ParseError, b"junk" + ONE, id="something before it"),
        pytest.param(ParseError, ONE + b"junk", id="something after it"),
        pytest.param(ParseError, ONE[:-1], id="cut"),
        pytest.param(ParseError, patched(ONE, 30, b"nAme"), id="another name before the content"),
        pytest.param(ParseError, patched(ONE, CENTRAL + 46, b"nAme"), id="another one after"),
        pytest.param(ParseError, patched(ONE, 14, b"\0\0\0\0"), id="another checksum before"),
        pytest.param(ParseError, patched(ONE, CENTRAL + 16, b"\1\2\3\4"), id="another one after"),
        pytest.param(ParseError, patched(ONE, 8, b"\0\0"), id="another method before"),
        pytest.param(Unsupported, patched(patched(ONE, 6, b"\1\0"), CENTRAL + 8, b"\1\0"),
                     id="encrypted"),
        pytest.param(Unsupported, patched(patched(ONE, 6, b"\x41\0"), CENTRAL + 8, b"\x41\0"),
                     id="strongly encrypted"),
        pytest.param(Unsupported, patched(patched(ONE, 8, b"\x63\0"), CENTRAL + 10, b"\x63\0"),
                     id="packed in another way"),
        pytest.param(Unsupported, patched(ONE, END + 4, b"\1\0"), id="a part of several"),
        pytest.param(Unsupported, patched(ONE, END + 6, b"\1\0"), id="begins in another part"),
        pytest.param(Unsupported, patched(ONE, CENTRAL + 34, b"\1\0"), id="lies in another part"),
        pytest.param(ParseError, patched(ONE, END + 8, b"\2\0\2\0"), id="more than there are"),
        pytest.param(ParseError, patched(ONE, END + 8, b"\0\0\0\0"), id="fewer entries"),
        pytest.param(ParseError, patched(ONE, END + 16, b"\1\0\0\0"), id="a wrong place"),
        pytest.param(ParseError, patched(ONE, END + 12, b"\xff\xff\xff\x7f"), id="a wrong size"),
        pytest.param(ParseError, patched(ONE, END + 12, b"\xff\xff\xff\xff"), id="large and none"),
        pytest.param(ParseError, patched(ONE, CENTRAL + 42, b"\1\0\0\0"), id="begins elsewhere"),
        pytest.param(ParseError, patched(ONE, CENTRAL + 20, b"\xff\xff\xff\xff"), id="large size"),
        pytest.param(ParseError, patched(ONE, 50, b"\xff\xff\xff\xff"), id="broken data"),
        pytest.param(ParseError, patched(TWO, central_at(TWO, 1) + 42, b"\0\0\0\0"),
                     id="two entries with one content"),
        pytest.param(ParseError, patched(ONE, END + 20, b"\1\0"), id="a comment that is not there"),
        pytest.param(ParseError, b"PK\3\4" + bytes(100), id="only a beginning"),
        pytest.param(ParseError, b"PK\5\6" + bytes(17), id="half an end"),
    ],
)  # fmt: skip
def test_zips_that_are_none_or_that_programs_read_differently(error, data):
    with pytest.raises(error):
        read(data)


def test_two_ends_are_refused():
    """A comment that holds another directory: which one counts depends on the program."""
    inner = zip_of(("other", b"hidden"))
    comment = inner[inner.index(fields.END_SIGNATURE) :]
    data = ONE[:-2] + struct.pack("<H", len(comment)) + comment
    with pytest.raises(ParseError):
        read(data)


def test_a_second_name_is_refused():
    name = b"name"
    extra = struct.pack("<2HBL", 0x7075, 5 + 5, 1, zlib.crc32(name)) + b"other"
    info = zip_info("name", extra=extra)
    with pytest.raises(ParseError, match="two names"):
        read(zip_of((info, b"x")))
    same = struct.pack("<2HBL", 0x7075, 5 + 4, 1, zlib.crc32(name)) + name
    assert list(read(zip_of((zip_info("name", extra=same), b"x")))) == ["name"]


def overlapping():
    """Each entry quotes the next: one kernel of data is unpacked by all of them."""
    kernel = zip_of(("z", b"\0" * 100_000))
    local = kernel[: central_at(kernel)]
    central = kernel[central_at(kernel) : kernel.index(fields.END_SIGNATURE)]
    second = patched(central, 46, b"y")
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, len(central) * 2, len(local), 0)
    return local + central + second + end


def test_overlapping_entries_are_refused():
    with pytest.raises(ParseError):
        read(overlapping())


def test_a_gap_is_refused():
    data = ONE[:CENTRAL] + b"gap!" + ONE[CENTRAL:]
    at = data.index(fields.END_SIGNATURE)
    data = patched(data, at + 16, struct.pack("<L", CENTRAL + 4))
    with pytest.raises(ParseError, match="between"):
        read(data)


def test_a_size_that_lies_is_found_before_much_is_unpacked():
    data = zip_of(("a", b"\0" * 60_000))
    central = central_at(data)
    for at in (22, central + 24):
        data = patched(data, at, struct.pack("<L", 10))
    with pytest.raises(ParseError):
        read(data)


def test_cut_at_every_byte():
    for cut in range(len(TWO)):
        with pytest.raises(BailiwickError):
            read(TWO[:cut])


def test_any_changed_byte_is_noticed_or_changes_nothing_that_counts():
    data = zip_of(("aaaa", b"first " * 20))
    whole = read(data)
    for at in range(len(data)):
        try:
            found = Drive(patched(data, at, bytes([data[at] ^ 0x55])))
        except BailiwickError:
            continue
        assert [content for _, content in found.tree.values()] == [whole["aaaa"][1]], at


def test_links_where_none_are_made():
    data = zip_of((zip_info("l", 0o120777), b"a"))
    with pytest.raises(SymlinkEscape):
        read(data, bounds(links=False))


def test_too_many_entries_are_refused_before_any_is_looked_at():
    data = patched(ONE, END + 8, b"\xfe\xff\xfe\xff")
    with pytest.raises(FileTooLarge):
        read(data)


def test_a_date_that_is_none():
    data = zip_of((zip_info("a"), b"x"))
    for at in (10, central_at(data) + 12):
        data = patched(data, at, b"\xff\xff\xff\xff")
    assert Drive(data).entries["a"].mtime_ns == 315_532_800 * 10**9


@pytest.mark.parametrize("year", [1980, 1999, 2000, 2001, 2024, 2100, 2107])
def test_every_day_of_a_year(year):
    import calendar

    for month in range(1, 13):
        for day in (1, calendar.monthrange(year, month)[1]):
            seconds = calendar.timegm((year, month, day, 12, 34, 56))
            date = year - 1980 << 9 | month << 5 | day
            assert fields.dos_time(date, 12 << 11 | 34 << 5 | 28) == seconds
            data = pack("zip", [file("a", mtime_ns=seconds * 10**9)])
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                assert archive.getinfo("a").date_time == (year, month, day, 12, 34, 56)
