"""Blobs in a real S3 server: what spills, what goes wrong, and that nothing wrong is ever read."""

import asyncio
import itertools
import os
import subprocess
import sys
import time
import tracemalloc

import obstore
import pytest

from bailiwick.errors import IoError, ParseError, Unsupported
from bailiwick.model import MiB
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import new_key
from bailiwick.stores.volume.content.object_store import open_blobs
from bailiwick.testing.contract import chunks
from tests.stores.volume.volumes import blob_files, in_database, opened

DAY_NS = 24 * 3600 * 10**9
BIG = os.urandom(9 * MiB)

_numbers = itertools.count()


@pytest.fixture
def place(s3):
    """What gives addresses in the one bucket, beneath a prefix of the test's own."""
    s3.make_bucket("blobs")
    prefix = f"test-{os.getpid()}-{next(_numbers)}"

    def url(beneath="a", **settings):
        return s3.url("blobs", f"{prefix}/{beneath}", **settings)

    return url


def keys(blobs, uid):
    return sorted(blob.key for blob in blobs.all(uid))


def content(blobs, key):
    into = bytearray(5 * MiB)
    return bytes(into[: blobs.fetch(key, memoryview(into))])


async def collect(stream, into):
    async for part in stream:
        into.append(part)


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.spec("VOL-2")
@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket?colour=red",
        "s3://bucket?secret_access_key=hush",
        "s3://key:hush@bucket/",
        "s3://bucket:80/",
        "s3://bucket/#x",
        "s3:///prefix",
        "s3://[bucket",
        "s3://bucket/a/../b",
        "s3://bucket/a//b",
        "s3://bucket?timeout=soon",
        "s3://bucket?timeout=0",
        "s3://bucket?timeout=nan",
        "s3://bucket?retries=99",
        "s3://bucket?allow_http=1",
        "s3://bucket?endpoint=",
        "s3://bucket?endpoint",
        "s3://bucket?region=a&region=b",
        "s3://bucket?credentials=mine",
        "gs://bucket?region=x",
        "az://container?region=x",
        "http://bucket/",
        "bucket",
        "",
    ],
)
def test_an_address_that_is_not_understood_is_refused(monkeypatch, url):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    with pytest.raises(ParseError) as caught:
        open_blobs(url)
    assert "hush" not in str(caught.value)


@pytest.mark.spec("VOL-2")
@pytest.mark.parametrize(
    ("url", "described"),
    [
        ("s3://bucket/a/b?region=eu-west-1", "s3://bucket/a/b"),
        ("s3://bucket", "s3://bucket/"),
        ("gs://bucket/a/?timeout=5&retries=0", "gs://bucket/a"),
        ("az://container/a?account=me", "az://container/a"),
        ("folder:/some where", "folder:/some where"),
    ],
)
def test_the_three_services_and_a_folder_are_opened_without_a_word_to_them(
    monkeypatch, url, described
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    assert open_blobs(url).description == described


@pytest.mark.spec("VOL-2")
@pytest.mark.parametrize("url", ["s3://bucket", "gs://bucket", "az://container?account=me"])
def test_without_credentials_nobody_goes_and_asks_the_network_for_some(monkeypatch, url):
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    with pytest.raises(ParseError, match="credentials"):
        open_blobs(url)


@pytest.mark.spec("VOL-2")
def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Unsupported) as caught:
        open_blobs("s3://bucket")
    assert "bailiwick[objects]" in caught.value.hint


# --- keeping -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("VOL-2")
def test_an_object_is_put_once_and_found(place):
    blobs = open_blobs(place("some/prefix"))
    for _ in range(2):  # the second try of one whose answer was lost
        blobs.put("u/ab/one", [b"on", b"e"])
    assert content(blobs, "u/ab/one") == b"one"
    assert blobs.fetch("u/ab/one", memoryview(bytearray(2))) == 3
    with pytest.raises(IoError, match="another"):
        blobs.put("u/ab/one", [b"other bytes"])
    assert content(blobs, "u/ab/one") == b"one"
    (found,) = blobs.all("u")
    assert (found.key, found.size) == ("u/ab/one", 3)
    assert abs(found.mtime_ns - time.time_ns()) < 600 * 10**9
    beside = open_blobs(place("some/prefix2"))
    assert list(beside.all("u")) == []
    for _ in range(2):
        blobs.delete("u/ab/one")
    assert blobs.fetch("u/ab/one", memoryview(bytearray(2))) == 0


@pytest.mark.slow
@pytest.mark.spec("VOL-2", "VOL-3", "READ-1")
async def test_large_files_spill_to_the_bucket_and_come_back(place, tmp_path):
    def blobs():
        return open_blobs(place())

    async with opened(tmp_path / "v.db", blobs=blobs()) as fs:
        await fs.write("small", BIG[:1_499_999])
        uid = fs.store.core.identity.uid
        assert keys(blobs(), uid) == []
        await fs.write_stream(
            "f", chunks.of(*[BIG[at : at + MiB] for at in range(0, 9 * MiB, MiB)])
        )
        assert len(keys(blobs(), uid)) == 3
        await fs.write("same", BIG)
        await fs.write("zeros", bytes(24 * MiB))
        assert len(keys(blobs(), uid)) == 4, "equal bytes are there once"
        await fs.append("f", BIG[: 2 * MiB])
    assert blob_files(tmp_path) == []
    async with opened(tmp_path / "v.db", blobs=blobs()) as fs:
        assert await fs.read("same") == BIG
        assert b"".join([part async for part in fs.stream("f")]) == BIG + BIG[: 2 * MiB]
        assert await fs.read("zeros", 23 * MiB) == bytes(MiB)
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.slow
@pytest.mark.spec("VOL-2", "READ-1")
async def test_a_range_touches_the_objects_it_lies_in_and_no_others(place, tmp_path):
    blobs = open_blobs(place())
    async with opened(tmp_path / "v.db", blobs=blobs) as fs:
        await fs.write("f", BIG)
        first = await in_database(
            fs, "SELECT c.blob FROM manifest m JOIN chunk c ON c.id = m.chunk WHERE m.start = 0"
        )
        blobs.delete(first)
        assert await fs.read("f", 5 * MiB, 100) == BIG[5 * MiB :][:100]
        part = [part async for part in fs.stream("f", 4 * MiB, 5 * MiB)]
        assert b"".join(part) == BIG[4 * MiB :]
        with pytest.raises(IoError):
            await fs.read("f", 0, 1)


@pytest.mark.slow
@pytest.mark.spec("VOL-2", "VOL-8")
async def test_two_volumes_in_one_bucket_do_not_touch_each_other(place, tmp_path):
    now, url = [time.time_ns()], place()
    one, two = open_blobs(url), open_blobs(url)
    async with (
        opened(tmp_path / "one.db", blobs=one, clock_ns=lambda: now[0]) as first,
        opened(tmp_path / "two.db", blobs=two, clock_ns=lambda: now[0]) as second,
    ):
        await first.write("f", BIG)
        await second.write("f", BIG)
        await first.remove("f")
        now[0] += 2 * DAY_NS
        await first.store.versions.collect(keep_days=0)
        await first.store.versions.collect(keep_days=0)
        assert keys(one, first.store.core.identity.uid) == []
        assert len(keys(two, second.store.core.identity.uid)) == 3
        assert await second.read("f") == BIG


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-8")
async def test_gc_removes_objects_that_no_row_names(place, tmp_path):
    now, blobs = [time.time_ns()], open_blobs(place())
    async with opened(tmp_path / "v.db", blobs=blobs, clock_ns=lambda: now[0]) as fs:
        await fs.write("f", BIG)
        uid = fs.store.core.identity.uid
        kept = keys(blobs, uid)
        blobs.put(new_key(uid, bytes(32)), [b"left by the dead"])
        await fs.store.versions.collect(keep_days=0)
        assert len(keys(blobs, uid)) == 4, "an upload may be under way"
        now[0] += 2 * DAY_NS
        await fs.store.versions.collect(keep_days=0)
        assert keys(blobs, uid) == kept


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-9")
async def test_a_vanished_or_wrong_object_is_an_error_that_names_the_file(place, tmp_path):
    blobs = open_blobs(place())
    async with opened(tmp_path / "v.db", blobs=blobs) as fs:
        await fs.write("fine", b"fine")
        await fs.write("d/f", BIG, parents=True)
        (victim, *_) = keys(blobs, fs.store.core.identity.uid)
        right = content(blobs, victim)
    wrong = bytes([right[0] ^ 1]) + right[1:]
    for harm in (None, wrong, right[:-1], right + b"x", b"", bytes(20 * MiB)):
        obstore.delete(blobs.store, victim)
        if harm is not None:
            obstore.put(blobs.store, victim, harm)
        async with opened(tmp_path / "v.db", blobs=blobs) as fs:
            with pytest.raises(IoError) as caught:
                await fs.read("d/f")
            assert caught.value.path == "d/f"
            given = []
            with pytest.raises(IoError) as caught:
                await collect(fs.stream("d/f"), given)
            assert caught.value.path == "d/f"
            assert BIG.startswith(b"".join(given)), "nothing wrong is ever given out"
            checked = await fs.store.versions.check()
            assert checked.lost == ["d/f"]
            assert await fs.read("fine") == b"fine"


@pytest.mark.slow
@pytest.mark.spec("VOL-3")
async def test_wrong_credentials_and_a_missing_bucket_are_said(s3, place, tmp_path, monkeypatch):
    blobs = open_blobs(place())
    async with opened(tmp_path / "v.db", blobs=blobs) as fs:
        await fs.write("f", BIG)
    right = os.environ["AWS_SECRET_ACCESS_KEY"]
    for said, url, secret in (
        ("bucket", s3.url("there-is-none"), right),
        ("TLS", place(allow_http="false"), right),
        ("credentials", place(), "hush"),
    ):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        wrong = open_blobs(url)
        async with opened(tmp_path / f"{said}.db", blobs=wrong) as fs:
            await fs.write("f", b"old")
            with pytest.raises(IoError, match=said) as caught:
                await fs.write("f", BIG)
            assert caught.value.path == "f"
            assert caught.value.hint
            assert "hush" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"
            assert await fs.read("f") == b"old"
            for call in (lambda w=wrong: list(w.all("u")), lambda w=wrong: w.delete("u/x")):
                with pytest.raises(IoError, match=said):
                    call()
    async with opened(tmp_path / "v.db", blobs=open_blobs(place())) as fs:
        with pytest.raises(IoError, match="credentials"):
            await fs.read("f")


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "WRITE-3")
async def test_a_server_that_stops_answering_in_the_middle(s3, place, tmp_path):
    hasty = open_blobs(place(timeout="2", retries="0"))
    async with (
        opened(tmp_path / "v.db", blobs=open_blobs(place())) as fs,
        opened(tmp_path / "v.db", blobs=hasty) as impatient,
    ):
        await fs.write("f", b"old")
        await fs.write("big", BIG)
        gate = chunks.Gate(os.urandom(9 * MiB), os.urandom(9 * MiB))
        writer = asyncio.ensure_future(impatient.write_stream("f", gate.chunks()))
        await gate.wait_for(writer)
        with s3.stopped():
            gate.opened.set()
            reader = asyncio.ensure_future(impatient.read("big"))
            assert await fs.read("f") == b"old", "the rest goes on"
            for failing, name in ((writer, "f"), (reader, "big")):
                with pytest.raises(IoError, match="answer") as caught:
                    await failing
                assert caught.value.path == name
        await fs.write("f", BIG[::-1])
        assert await fs.read("f") == BIG[::-1]
        assert await impatient.read("big") == BIG
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "WRITE-3", "VOL-8")
async def test_a_server_that_is_killed_in_the_middle(s3, place, tmp_path):
    now, blobs = [time.time_ns()], open_blobs(place(timeout="10", retries="1"))
    async with opened(tmp_path / "v.db", blobs=blobs, clock_ns=lambda: now[0]) as fs:
        await fs.write("f", b"old")
        await fs.write("big", BIG)
        gate = chunks.Gate(os.urandom(9 * MiB), os.urandom(9 * MiB))
        writer = asyncio.ensure_future(fs.write_stream("f", gate.chunks()))
        await gate.wait_for(writer)
        with s3.killed():
            gate.opened.set()
            with pytest.raises(IoError) as caught:
                await writer
            assert caught.value.path == "f"
            assert await fs.read("f") == b"old"
            with pytest.raises(IoError):
                await fs.read("big")
        assert await fs.read("big") == BIG
        await fs.write("f", BIG[::-1])
        assert await fs.read("f") == BIG[::-1]
        now[0] += 2 * DAY_NS
        await fs.store.versions.collect(keep_days=0)
        assert len(keys(blobs, fs.store.core.identity.uid)) == 6
        assert (await fs.store.versions.check()).problems == []


# --- streams, and the end of a process ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("VOL-2")
async def test_a_long_stream_takes_little_memory(place, tmp_path):
    async def many():
        for number in range(64):
            yield number.to_bytes(4, "big") * (MiB // 4)

    blobs = open_blobs(place())
    async with opened(tmp_path / "v.db", blobs=blobs) as fs:
        tracemalloc.start()
        try:
            await fs.write_stream("f", many())
            size = 0
            async for part in fs.stream("f"):
                assert part[:4] == (size // MiB).to_bytes(4, "big")
                size += len(part)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert size == 64 * MiB
        assert peak < 48 * MiB


ENDING = """
import asyncio, sys
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.object_store import open_blobs
from bailiwick.testing.driver import StoreDriver

async def main(path, url, how):
    fs = StoreDriver(VolumeStore.open(path, blobs=open_blobs(url)))
    await fs.write("f", bytes(2_000_000))
    assert len(await fs.read("f")) == 2_000_000
    if how == "closed":
        await fs.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.spec("VOL-3")
@pytest.mark.parametrize("how", ["closed", "left open"])
@pytest.mark.slow
def test_a_process_ends_in_peace_right_after_a_request(place, tmp_path, how):
    for number in range(3):
        arguments = [str(tmp_path / f"{number}.db"), place(), how]
        command = [sys.executable, "-W", "error", "-c", ENDING, *arguments]
        ended = subprocess.run(command, timeout=60, capture_output=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.slow
@pytest.mark.spec("VOL-1")
async def test_one_volume_is_not_opened_with_two_buckets(place, tmp_path):
    async with opened(tmp_path / "v.db", blobs=open_blobs(place())):
        with pytest.raises(ParseError) as caught:
            VolumeStore.open(str(tmp_path / "v.db"), blobs=open_blobs(place("other")))
        assert "/other" in caught.value.hint
