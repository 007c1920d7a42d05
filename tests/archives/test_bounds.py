"""How much an archive may hold: counted while it is unpacked, and never a step too much."""

import bz2
import gzip
import lzma
import sys
import tarfile

import pytest

from bailiwick.archives.bounds import Bounds
from bailiwick.archives.entries import Need
from bailiwick.archives.reader import read_archive
from bailiwick.errors import FileTooLarge, ParseError, Unsupported
from bailiwick.limits import Limits
from bailiwick.model import MiB
from tests.archives.support import (
    Drive,
    bounds,
    file,
    member,
    pack,
    read,
    tar_of,
    zip_info,
    zip_of,
)
from tests.archives.test_tar import END, header, padded

pytestmark = [pytest.mark.spec("ARCH-1"), pytest.mark.slow]

COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def test_only_narrower():
    wide, narrow = Limits(), Limits(archive_entries_max=5, max_file_bytes=7, archive_depth_max=2)
    for limits, asked in ((wide, narrow), (narrow, wide), (narrow, None)):
        found = Bounds.of(limits, asked, links=True, names="posix")
        assert (found.entries_max, found.file_bytes_max, found.depth_max) == (5, 7, 2)


@pytest.mark.parametrize("known", ["tar", "zip"])
def test_count_of_entries(known):
    data = pack(known, [file(f"f{number}") for number in range(5)])
    assert len(read(data, bounds(archive_entries_max=5))) == 5
    with pytest.raises(FileTooLarge):
        read(data, bounds(archive_entries_max=4))


def test_directories_that_nobody_names_count():
    data = pack("tar", [file("a/b/c/d/e")])
    assert read(data, bounds(archive_entries_max=5))
    with pytest.raises(FileTooLarge):
        read(data, bounds(archive_entries_max=4))


@pytest.mark.parametrize("known", ["tar", "tar.gz", "zip"])
def test_bytes_in_all(known):
    data = pack(known, [file("a", b"1234"), file("b", b"5678")])
    assert read(data, bounds(archive_bytes_max=8))
    with pytest.raises(FileTooLarge):
        read(data, bounds(archive_bytes_max=7))


@pytest.mark.parametrize("known", ["tar", "tar.gz", "zip"])
def test_bytes_of_one_file(known):
    data = pack(known, [file("a", b"1234")])
    assert read(data, bounds(max_file_bytes=4))
    with pytest.raises(FileTooLarge):
        read(data, bounds(max_file_bytes=3))


def test_copies_count():
    links = [member(f"h{number}", type=tarfile.LNKTYPE, linkname="a") for number in range(3)]
    data = tar_of(member("a", b"x" * 100), *links)
    assert read(data, bounds(archive_bytes_max=400))
    with pytest.raises(FileTooLarge):
        read(data, bounds(archive_bytes_max=399))


def test_depth():
    data = pack("tar", [file("a/b/c")])
    assert read(data, bounds(archive_depth_max=2))
    with pytest.raises(ParseError):
        read(data, bounds(archive_depth_max=1))


@pytest.mark.parametrize("packing", COMPRESS)
def test_ratio(packing):
    data = tar_of(member("a", b"\0" * 4 * MiB), packing=packing)
    within = bounds(archive_ratio_max=10**7)
    assert read(data, within)["a"][0] == "file"
    with pytest.raises(FileTooLarge, match="200 times"):
        read(data)


def test_ratio_of_zip_and_zstd():
    for known in ("zip", "tar.zst"):
        data = pack(known, [file("a", b"\0" * 4 * MiB)])
        assert read(data, bounds(archive_ratio_max=10**7))
        with pytest.raises(FileTooLarge, match="200 times"):
            read(data)


def test_ratio_is_of_the_whole_archive():
    import os

    noise, zeros = os.urandom(100_000), b"\0" * 4_000_000
    for known in ("tar.gz", "zip"):
        assert read(pack(known, [file("noise", noise), file("zeros", zeros)]))
        with pytest.raises(FileTooLarge):
            read(pack(known, [file("zeros", zeros), file("noise", noise)]))


def bomb(compress):
    """A tar that says it holds 10 GiB of zeros, and does: packed by the MiB, as one stream."""
    info = tarfile.TarInfo("zeros")
    info.size = 10 * 1024 * MiB
    return compress(info.tobuf(tarfile.GNU_FORMAT)) + compress(bytes(MiB)) * (10 * 1024)


@pytest.mark.parametrize("packing", COMPRESS)
def test_a_bomb_is_refused_while_it_is_unpacked(packing):
    data = bomb(COMPRESS[packing])
    within = bounds(max_file_bytes=2**40, archive_bytes_max=2**40)
    with pytest.raises(FileTooLarge, match="200 times"):
        Drive(data, within)


def test_nothing_large_is_ever_made_of_little():
    """The libraries are asked for a little at a time; zstd, which cannot be asked, gets little."""
    for known in ("tar.gz", "tar.bz2", "tar.xz", "tar.zst", "zip"):
        size = (64 if known == "tar.zst" else 4) * MiB
        data = pack(known, [file("a", bytes(size))])
        drive = Drive(data, bounds(archive_ratio_max=2**40))
        assert drive.largest <= (16 * MiB if known == "tar.zst" else 256 * 1024)


def test_padding_without_end_is_refused():
    data = gzip.compress(tar_of(member("a", b"x")) + bytes(40 * MiB))
    within = bounds(archive_bytes_max=1000, archive_entries_max=5, archive_ratio_max=2**40)
    with pytest.raises((FileTooLarge, ParseError)):
        read(data, within)


def test_padding_that_is_a_file_without_end_is_not_read():
    """A file of nothing but zeros looks like an empty tar with much padding after it."""
    needs = []

    def read_zeros():
        steps = read_archive(2**50, bounds())
        event = next(steps)
        while True:
            is_need = isinstance(event, Need)
            needs.extend([event] if is_need else [])
            event = steps.send(bytes(event.length) if is_need else b"")

    with pytest.raises(ParseError):
        read_zeros()
    assert len(needs) < 10


def test_headers_without_entries_are_counted():
    comment = b"20 comment=nothing!\n"
    one = header(b"g", kind=b"g", size=20) + padded(comment)
    data = one * 100 + header() + END
    assert read(data, bounds(archive_entries_max=25))
    with pytest.raises(FileTooLarge):
        read(data, bounds(archive_entries_max=24))


def test_the_directory_of_a_zip_is_bounded():
    info = zip_info("a", comment=b"c" * 60_000)
    data = zip_of(
        *((zip_info(f"f{n}", comment=b"c" * 60_000), b"") for n in range(40)), (info, b"")
    )
    assert len(read(data, bounds(archive_entries_max=200))) == 41
    with pytest.raises(FileTooLarge):
        read(data, bounds(archive_entries_max=41))


def test_memory_that_an_archive_asks_for_is_bounded():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 * MiB}]
    data = lzma.compress(tar_of(member("a", b"x")), lzma.FORMAT_XZ, filters=filters)
    with pytest.raises(ParseError):
        read(data)


def test_a_window_of_zstd_is_bounded():
    import zstandard

    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = packer.compress(tar_of(member("a", b"x" * 100_000))) + packer.flush()
    with pytest.raises(ParseError):
        read(data)


def test_without_the_library_the_extra_is_named(monkeypatch):
    data = pack("tar.zst", [file("a", b"x")])
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(Unsupported) as caught:
        read(data)
    assert "bailiwick[zstd]" in (caught.value.hint or "")
    with pytest.raises(Unsupported):
        pack("tar.zst", [])


def test_nested_archives_are_files():
    inner = zip_of(("bomb", b"\0" * 60_000))
    assert read(zip_of(("inner.zip", inner))) == {"inner.zip": ("file", inner)}


def test_several_frames_of_zstd_are_one_stream():
    import zstandard

    plain = tar_of(member("a", b"x" * 3000))
    pack_one = zstandard.ZstdCompressor().compress
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0skip"
    data = skippable + pack_one(plain[:1000]) + skippable + pack_one(plain[1000:])
    assert read(data) == {"a": ("file", b"x" * 3000)}
    with pytest.raises(ParseError):
        read(data + b"garbage")
    for cut in range(1, len(data)):
        if data[:cut] == skippable:
            continue
        with pytest.raises(ParseError):
            read(data[:cut])
