"""Chunks that are kept compressed: only where it pays, and what comes out is the plain bytes."""

import hashlib
import os
import sys
from importlib.resources import files

import apsw
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bailiwick.errors import IoError, ParseError, Unsupported
from bailiwick.model import KiB, MiB
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.compression import packing, unpacked
from bailiwick.stores.volume.rows.schema import APPLICATION_ID
from bailiwick.testing.contract import chunks
from tests.stores.volume.volumes import blob_files, in_database, open_volume, opened

pytestmark = pytest.mark.both_engines

TEXT = b"".join(b"line %d of a log that says much the same\n" % number for number in range(160_000))
SIZES = (8 * KiB, 8 * KiB + 1, 100_000, 1_499_999, 1_500_000, 6 * MiB)

PACKED = "SELECT count(*) FROM chunk WHERE packed IS NOT NULL"
PLAIN = "SELECT count(*) FROM chunk WHERE packed IS NULL"


@pytest.mark.spec("VOL-2")
@pytest.mark.parametrize("size", SIZES)
async def test_text_is_kept_smaller_and_read_as_it_was(tmp_path, size):
    data = TEXT[:size]
    async with opened(tmp_path / "v.db", compression="zstd") as fs:
        written = await fs.write("w", data)
        assert written.sha256 == hashlib.sha256(data).hexdigest()
        await fs.write_stream("s", chunks.of(data[::-1][: size // 2], data[::-1][size // 2 :]))
        if size > 8 * KiB:
            info = await fs.store.versions.info()
            assert info.stored_bytes < info.bytes / 2
        if size >= 1_500_000:
            assert sum(map(os.path.getsize, blob_files(tmp_path))) < size
    async with opened(tmp_path / "v.db") as fs:  # reading needs no setting
        assert await fs.read("w") == data
        assert b"".join([part async for part in fs.stream("s")]) == data[::-1]
        assert await fs.read("w", size // 2, 100) == data[size // 2 :][:100]
        await fs.append("w", b"more")
        assert await fs.read("w", size - 5, 20) == data[-5:] + b"more"
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-2")
async def test_what_does_not_get_a_tenth_smaller_is_kept_as_it_is(tmp_path):
    async with opened(tmp_path / "v.db", compression="zstd") as fs:
        await fs.write("small", TEXT[: 8 * KiB])  # in the row of its node
        await fs.write("random", os.urandom(100_000))
        await fs.write("large", os.urandom(5 * MiB))
        await fs.write("nearly", os.urandom(95_000) + bytes(5_000))
        await fs.append("log", TEXT[: 3 * KiB])
        await fs.append("log", TEXT[: 3 * KiB])
        assert await in_database(fs, PACKED) == 0
        await fs.write("worth it", os.urandom(85_000) + bytes(15_000))
        assert await in_database(fs, PACKED) == 1


@pytest.mark.spec("VOL-2")
async def test_equal_bytes_are_one_chunk_however_they_are_kept(tmp_path):
    for name, compression in (("a", "off"), ("b", "zstd"), ("c", "off")):
        async with opened(tmp_path / "v.db", compression=compression) as fs:
            await fs.write(name, TEXT[:100_000])
            await fs.write(f"{name}-large", TEXT[: 3 * MiB])
            assert await in_database(fs, "SELECT count(*) FROM chunk") == 2
            assert await in_database(fs, PACKED) == 0
            assert await fs.read(name) == TEXT[:100_000]
    assert len(blob_files(tmp_path)) == 1


@pytest.mark.spec("VOL-3", "VOL-9")
@pytest.mark.parametrize("size", [100_000, 3 * MiB])
@pytest.mark.parametrize("harm", ["flip", "cut", "plain of the same size", "a bomb"])
async def test_damage_to_what_is_compressed_is_found(tmp_path, size, harm):
    async with opened(tmp_path / "v.db", compression="zstd") as fs:
        await fs.write("d/f", TEXT[:size], parents=True)
        kept = await in_database(fs, "SELECT packed FROM chunk")
        bomb = zstandard.ZstdCompressor().compress(bytes(64 * MiB))
        wrong = {
            "flip": lambda old: old[:50] + bytes([old[50] ^ 4]) + old[51:],
            "cut": lambda old: old[:-1],
            "plain of the same size": lambda old: TEXT[:kept],
            "a bomb": lambda old: bomb[:kept].ljust(kept, b"\0"),
        }[harm]
        files = blob_files(tmp_path)
        if files:
            with open(files[0], "rb") as file:
                old = file.read()
            with open(files[0], "wb") as file:
                file.write(wrong(old))
        else:
            old = await in_database(fs, "SELECT data FROM chunk")
            await in_database(fs, "UPDATE chunk SET data = $1", wrong(old))
    async with opened(tmp_path / "v.db") as fs:
        with pytest.raises(IoError) as caught:
            await fs.read("d/f")
        assert caught.value.path == "d/f"
        assert (await fs.store.versions.check()).lost == ["d/f"]


@pytest.mark.spec("VOL-2")
async def test_without_the_package_what_is_missing_is_said(tmp_path, monkeypatch):
    async with opened(tmp_path / "v.db", compression="zstd") as fs:
        await fs.write("packed", TEXT[:100_000])
        await fs.write("plain", b"plain")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    async with opened(tmp_path / "v.db") as fs:
        assert await fs.read("plain") == b"plain"
        for look in (fs.read("packed"), anext(aiter(fs.stream("packed")))):
            with pytest.raises(Unsupported) as caught:
                await look
            assert caught.value.path == "packed"
            assert "bailiwick[zstd]" in caught.value.hint
        with pytest.raises(Unsupported):
            await fs.store.versions.check()
        await fs.write("packed", b"can be replaced")
    with pytest.raises(Unsupported) as caught:
        VolumeStore.open(str(tmp_path / "v.db"), compression="zstd")
    assert "bailiwick[zstd]" in caught.value.hint


@pytest.mark.spec("VOL-1")
async def test_the_setting_is_strict_and_one_for_all(tmp_path):
    for wrong in ("lz4", "", "ZSTD", "on"):
        with pytest.raises(ParseError):
            open_volume(tmp_path / "v.db", compression=wrong)
    async with opened(tmp_path / "v.db", compression="zstd") as fs:
        with pytest.raises(ParseError) as caught:
            open_volume(tmp_path / "v.db")
        assert "zstd" in caught.value.hint
        assert "off" in caught.value.hint
        fork = await fs.store.versions.fork("b")
        try:
            assert fork.core.pack is fs.store.core.pack
        finally:
            await fork.aclose()


@pytest.mark.spec("VOL-2")
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.binary(max_size=40), st.integers(0, 2_000), st.binary(max_size=6_000))
def test_packing_is_undone_by_unpacking(word, times, noise):
    pack = packing("zstd")
    plain = word * times + noise
    cut = len(plain) // 3
    packed = pack([plain[:cut], memoryview(plain)[cut:]])
    if packed is not None:
        assert len(plain) >= 4 * KiB
        assert len(packed) <= len(plain) * 0.9
        assert bytes(unpacked(packed, len(plain))) == plain
        with pytest.raises(IoError):
            unpacked(packed, len(plain) + 1)
    with pytest.raises(IoError):
        unpacked(noise[:50], 10)


@pytest.mark.spec("VOL-10")
@pytest.mark.sqlite_only("there are no older tables elsewhere")
async def test_chunks_of_the_first_schema_are_plain_ones(tmp_path):
    connection = apsw.Connection(str(tmp_path / "v.db"))
    first = files("bailiwick.stores.volume.rows").joinpath("schema.sql").read_text(encoding="utf-8")
    connection.execute(first)
    connection.execute(
        "INSERT INTO chunk (volume, id, hash, size, shared, data) VALUES (1, 9, x'00', 1, 0, x'78')"
    )
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    async with opened(tmp_path / "v.db", compression="zstd") as fs:
        assert await in_database(fs, PLAIN) == 1
        await in_database(fs, "DELETE FROM chunk")
        await fs.write("g", TEXT[:200_000])
        assert await fs.read("g") == TEXT[:200_000]
        assert await in_database(fs, PACKED) == 1
