"""Tar, read: what every program understands alike is read, the rest is refused."""

import io
import shutil
import subprocess
import tarfile

import pytest

from bailiwick.archives.tar_reader import BLOCK
from bailiwick.errors import (
    BailiwickError,
    FileTooLarge,
    NotARegularFile,
    ParseError,
    PathOutsideWorkspace,
    SymlinkEscape,
    Unsupported,
)
from tests.archives.support import Drive, bounds, member, read, tar_of

pytestmark = pytest.mark.spec("ARCH-1")

WRITTEN_AS = {"pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT, "ustar": tarfile.USTAR_FORMAT}


def header(name=b"a", *, size=0, kind=b"0", link=b"", mode=b"0000644\0", mtime=b"0" * 11 + b"\0",
           magic=b"ustar\x0000", prefix=b"", size_field=None):  # fmt: skip
    """One block, with whatever one likes in it, and a checksum that is right."""
    field = b"%011o\0" % size if size_field is None else size_field
    block = b"".join((
        name.ljust(100, b"\0"), mode, b"0000000\0", b"0000000\0", field, mtime, b" " * 8, kind,
        link.ljust(100, b"\0"), magic.ljust(8, b"\0"), bytes(64), b"0000000\0", b"0000000\0",
        prefix.ljust(155, b"\0"), bytes(12),
    ))  # fmt: skip
    assert len(block) == BLOCK
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padded(data):
    return data + bytes(-len(data) % BLOCK)


END = bytes(2 * BLOCK)


def pax(**records):
    data = b""
    for key, value in records.items():
        rest = b" " + key.replace("__", ".").encode() + b"=" + value + b"\n"
        length = len(rest) + 1
        while len(b"%d" % length) + len(rest) != length:
            length += 1
        data += b"%d" % length + rest
    return header(b"pax", size=len(data), kind=b"x") + padded(data)


@pytest.mark.parametrize("written_as", WRITTEN_AS)
@pytest.mark.parametrize("packing", ["", "gz", "bz2", "xz"])
def test_what_python_writes(written_as, packing):
    long = "a/" + "b" * 90 + "/" + "c" * 90
    data = tar_of(
        member("d", type=tarfile.DIRTYPE, mode=0o4755),
        member("d/f", b"content" * 1000, mode=0o6640, mtime=1_234_567_890),
        member(long, b"long"),
        member("d/l", type=tarfile.SYMTYPE, linkname="f"),
        member("h", type=tarfile.LNKTYPE, linkname="d/f"),
        packing=packing, format=WRITTEN_AS[written_as],
    )  # fmt: skip
    drive = Drive(data)
    assert drive.tree == {
        "d": ("directory", b""), "d/f": ("file", b"content" * 1000), long: ("file", b"long"),
        "d/l": ("symlink", b"f"), "h": ("copy", b"d/f"),
    }  # fmt: skip
    entry = drive.entries["d/f"]
    assert (entry.mode, entry.mtime_ns) == (0o640, 1_234_567_890 * 10**9)
    assert drive.entries["d"].mode == 0o755
    assert drive.entries["h"].size == 7000


def test_times_to_the_nanosecond():
    data = tar_of(member("a", pax_headers={"mtime": "1234567890.123456789"}))
    assert Drive(data).entries["a"].mtime_ns == 1_234_567_890_123_456_789
    data = tar_of(member("a", pax_headers={"mtime": "-1.5"}))
    assert Drive(data).entries["a"].mtime_ns == -1_500_000_000


def test_what_the_system_writes(tmp_path):
    tar = shutil.which("tar")
    assert tar is not None, "every system that runs these tests has tar"
    tree = tmp_path / "tree"
    (tree / "d" / ("n" * 120)).mkdir(parents=True)
    (tree / "d" / "f").write_bytes(b"x" * 5000)
    (tree / "d" / ("n" * 120) / "ü").write_bytes(b"y")
    (tree / "l").symlink_to("d/f")
    (tree / "h").hardlink_to(tree / "d" / "f")
    for form in ("gnu", "pax", "ustar", "v7"):
        names = ["."] if form in ("gnu", "pax") else ["d/f", "l", "h"]
        command = [tar, f"--format={form}", "-C", str(tree), "-cf", "-", *names]
        drive = Drive(subprocess.run(command, check=True, capture_output=True).stdout)
        tree_read = drive.tree
        assert {kind for kind, _ in tree_read.values()} >= {"file", "symlink", "copy"}
        assert b"x" * 5000 in {content for _, content in tree_read.values()}
        assert drive.skipped == (["./"] if names == ["."] else [])


def test_the_archived_directory_itself_is_left_out_and_named():
    data = tar_of(member("./", type=tarfile.DIRTYPE), member("./a", b"x"))
    drive = Drive(data)
    assert drive.tree == {"a": ("file", b"x")}
    assert drive.skipped == ["./"] or drive.skipped == ["."]


def test_an_empty_tar():
    assert read(tar_of()) == {}
    assert read(END) == {}


def test_a_prefix_is_part_of_the_name():
    assert list(read(header(b"b", prefix=b"a") + END)) == ["a/b"]
    # The GNU header has other things in that place.
    assert list(read(header(b"b", prefix=b"a", magic=b"ustar  ") + END)) == ["b"]


@pytest.mark.parametrize("kind", [b"3", b"4", b"6", b"D", b"M", b"V", b"Z", b"A"])
def test_what_is_neither_file_directory_nor_link(kind):
    with pytest.raises(NotARegularFile):
        read(header(b"a", kind=kind) + END)


def test_a_contiguous_file_is_a_file():
    data = tar_of(member("a", b"content", type=tarfile.CONTTYPE), member("b", b"x"))
    assert read(data) == {"a": ("file", b"content"), "b": ("file", b"x")}


def test_a_sparse_file_is_unsupported_however_it_is_written(tmp_path):
    with (tmp_path / "s").open("wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    command = ["tar", "-C", str(tmp_path), "--sparse", "-cf", "-", "s"]
    for form in ("gnu", "pax"):
        made = subprocess.run([*command, f"--format={form}"], check=True, capture_output=True)
        with pytest.raises(Unsupported):
            read(made.stdout)


@pytest.mark.parametrize(
    ("error", "members"),
    [
        (PathOutsideWorkspace, [member("../a")]),
        (PathOutsideWorkspace, [member("/a")]),
        (PathOutsideWorkspace, [member("a/../../b")]),
        (SymlinkEscape, [member("l", type=tarfile.SYMTYPE, linkname="..")]),
        (SymlinkEscape, [member("l", type=tarfile.SYMTYPE, linkname="/etc")]),
        (PathOutsideWorkspace, [member("h", type=tarfile.LNKTYPE, linkname="/etc/passwd")]),
        (PathOutsideWorkspace, [member("h", type=tarfile.LNKTYPE, linkname="../x")]),
        (SymlinkEscape, [member("h", type=tarfile.LNKTYPE, linkname="later"), member("later")]),
        (SymlinkEscape, [member("d", type=tarfile.DIRTYPE),
                         member("h", type=tarfile.LNKTYPE, linkname="d")]),
        (SymlinkEscape, [member("l", type=tarfile.SYMTYPE, linkname="a"),
                         member("h", type=tarfile.LNKTYPE, linkname="l")]),
        (ParseError, [member("a"), member("a")]),
        (ParseError, [member("a"), member("./a")]),
        (ParseError, [member("d", type=tarfile.DIRTYPE), member("d", type=tarfile.DIRTYPE)]),
        (ParseError, [member("a"), member("a/b")]),
        (ParseError, [member("a/b"), member("a")]),
        (ParseError, [member("l", type=tarfile.SYMTYPE, linkname="d"), member("l/x")]),
        (ParseError, [member("l/x"), member("l", type=tarfile.SYMTYPE, linkname="d")]),
    ],
)  # fmt: skip
def test_entries_that_may_not_be_made(error, members):
    with pytest.raises(error):
        read(tar_of(*members))


def test_links_where_none_are_made():
    data = tar_of(member("l", type=tarfile.SYMTYPE, linkname="a"))
    assert read(data)
    with pytest.raises(SymlinkEscape):
        read(data, bounds(links=False))


@pytest.mark.parametrize(
    ("error", "data"),
    [
        pytest.param(ParseError, header() , id="no end"),
        pytest.param(ParseError, header() + bytes(BLOCK), id="half an end"),
        pytest.param(ParseError, header() + END + b"x", id="something after the end"),
        pytest.param(ParseError, header() + END + header(b"b") + END, id="a tar after a tar"),
        pytest.param(ParseError, header() + bytes(BLOCK) + header(b"b") + END, id="lone zeros"),
        pytest.param(ParseError, header(size=10) + END, id="content shorter than said"),
        pytest.param(ParseError, header(kind=b"5", size=512) + bytes(512) + END, id="dir content"),
        pytest.param(ParseError, header(kind=b"2", link=b"x", size=512) + bytes(512) + END,
                     id="a link with content"),
        pytest.param(ParseError, header(b"a/", kind=b"0") + END, id="a file called a directory"),
        pytest.param(ParseError, header(b"a\0b") + END, id="a name after the NUL"),
        pytest.param(ParseError, header(link=b"x\0y", kind=b"2") + END, id="a link after NUL"),
        pytest.param(ParseError, header(size_field=b"99999999999\0") + END, id="no octal"),
        pytest.param(ParseError, header(size_field=b"-0000000001\0") + END, id="minus"),
        pytest.param(ParseError, header(size_field=b"\xff" * 12) + END, id="a negative size"),
        pytest.param(FileTooLarge, header(size_field=b"\x80" + b"\xff" * 11) + END, id="huge"),
        pytest.param(FileTooLarge, header(size_field=b"77777777777\0") + END, id="8 GiB"),
        pytest.param(ParseError, header(mtime=b"\x80" + b"\xff" * 11) + END, id="a huge time"),
        pytest.param(ParseError, header(magic=b"uztar\x0000") + END, id="no known kind"),
        pytest.param(ParseError, pax(path=b"b") + END, id="a header before nothing"),
        pytest.param(ParseError, pax(path=b"b") + pax(path=b"c") + header() + END, id="said twice"),
        pytest.param(ParseError, pax(size=b"3") + header(size=512) + bytes(512) + END,
                     id="two sizes"),
        pytest.param(ParseError, pax(size=b"512") + header() + bytes(512) + END,
                     id="a size that only some programs see"),
        pytest.param(ParseError, pax(size=b"x") + header() + END, id="a size that is none"),
        pytest.param(ParseError, pax(path=b"a\0b") + header() + END, id="a NUL in a pax path"),
        pytest.param(PathOutsideWorkspace, pax(path=b"../b") + header() + END, id="pax climbs"),
        pytest.param(ParseError, pax(path=b"") + header() + END, id="an empty pax path"),
        pytest.param(ParseError, pax(mtime=b"1e9") + header() + END, id="no time"),
        pytest.param(ParseError, pax(mtime=b"9" * 12) + header() + END, id="a time out of bounds"),
        pytest.param(Unsupported, pax(GNU__sparse__major=b"1") + header() + END, id="sparse"),
        pytest.param(Unsupported, pax(hdrcharset=b"BINARY") + header() + END, id="binary names"),
        pytest.param(ParseError, header(b"g", kind=b"g", size=11) + padded(b"11 path=ab\n")
                     + header() + END, id="a path for all that follows"),
        pytest.param(ParseError, header(b"x", kind=b"x", size=5) + padded(b"99 a=")
                     + header() + END, id="a record beyond its header"),
        pytest.param(ParseError, header(b"x", kind=b"x", size=70_000) + bytes(70_144)
                     + header() + END, id="a huge header"),
        pytest.param(ParseError, header(b"L", kind=b"L", size=0) + header() + END, id="no name"),
        pytest.param(ParseError, header(b"L", kind=b"L", size=3_000_000) + END, id="a huge name"),
        pytest.param(ParseError, b"\0" * 511, id="less than a block"),
        pytest.param(ParseError, b"", id="nothing"),
        pytest.param(ParseError, b"hello world" * 100, id="a text"),
    ],
)  # fmt: skip
def test_tars_that_are_none_or_that_programs_read_differently(error, data):
    with pytest.raises(error):
        read(data)


def test_a_header_with_a_wrong_checksum_is_refused():
    first = header(b"a")
    broken = bytearray(header(b"b"))
    broken[0] ^= 1
    with pytest.raises(ParseError, match="checksum"):
        read(first + bytes(broken) + END)


def test_a_global_comment_is_harmless():
    comment = b"52 comment=" + b"0" * 40 + b"\n"
    data = header(b"pax_global_header", kind=b"g", size=52) + padded(comment) + header() + END
    assert list(read(data)) == ["a"]


def test_case_and_accents_where_names_are_portable():
    for one, other in (("a", "A"), ("\u00e9", "e\u0301"), ("d/x", "D/y")):
        data = tar_of(member(one), member(other))
        assert len(read(data)) == 2
        with pytest.raises(ParseError):
            read(data, bounds(names="portable"))


@pytest.mark.parametrize("written_as", WRITTEN_AS)
def test_cut_at_every_byte(written_as):
    """A cut archive is refused, unless only padding after its end was cut off."""
    data = tar_of(member("d/a", b"x" * 600), member("b", b"y"), format=WRITTEN_AS[written_as])
    whole = read(data)
    content_end = 4 * BLOCK + BLOCK + 2 * BLOCK + 2 * BLOCK
    for cut in range(0, len(data), 7):
        try:
            assert read(data[:cut]) == whole
        except BailiwickError:
            continue
        assert cut >= content_end - 2 * BLOCK


def test_cut_packed_streams_are_refused():
    for packing in ("gz", "bz2", "xz"):
        data = tar_of(member("a", b"some text that packs " * 40), packing=packing)
        for cut in range(len(data)):
            with pytest.raises(BailiwickError):
                read(data[:cut])


def test_something_after_a_packed_stream_is_refused():
    for packing in ("gz", "bz2", "xz"):
        data = tar_of(member("a", b"x"), packing=packing)
        assert read(data)
        with pytest.raises(ParseError):
            read(data + b"garbage after it")
        with pytest.raises(ParseError):
            read(data + data)  # two archives, of which most programs see one


def test_a_stream_in_several_pieces_is_one():
    import gzip

    plain = tar_of(member("a", b"x" * 3000))
    data = gzip.compress(plain[:1000]) + gzip.compress(plain[1000:])
    assert read(data) == {"a": ("file", b"x" * 3000)}


def test_a_packed_stream_in_a_packed_stream_is_not_opened():
    import gzip

    with pytest.raises(ParseError):
        read(gzip.compress(tar_of(member("a"), packing="gz")))


def test_content_comes_in_pieces():
    data = tar_of(member("a", b"z" * 5_000_000))
    drive = Drive(data, bounds(archive_ratio_max=10**6))
    assert drive.largest <= 256 * 1024
    assert all(need.length <= 256 * 1024 for need in drive.needs)


def test_it_is_read_from_front_to_back():
    data = tar_of(member("a", b"q" * 1_000_000))
    offsets = [need.offset for need in Drive(data).needs]
    assert offsets == sorted(offsets)


def test_python_agrees_with_what_we_write():
    from tests.archives.support import directory, file, link, pack

    entries = [directory("d", 0o700), file("d/" + "é" * 100, b"abc", 0o640), link("l", "d")]
    with tarfile.open(fileobj=io.BytesIO(pack("tar", entries))) as archive:
        found = archive.getmembers()
        assert [each.name for each in found] == ["d", "d/" + "é" * 100, "l"]
        assert [each.mode for each in found] == [0o700, 0o640, 0o777]
        assert {(each.uid, each.gid, each.uname, each.gname) for each in found} == {(0, 0, "", "")}
        assert archive.extractfile(found[1]).read() == b"abc"
