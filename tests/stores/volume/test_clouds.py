"""Blobs in what speaks like Azure and like Google Cloud Storage, through the address of a volume.

What is the same for every object store is tried with S3 (`test_objects`); here is what each of
these two answers in its own words. Azurite is 360 MB of npm, so Azure is tried by `make clouds`
and wherever else the environment names the folder to keep it in.
"""

import asyncio
import contextlib
import itertools
import os
import time
from urllib.parse import quote

import obstore
import pytest

import bailiwick
from bailiwick.errors import IoError, ParseError
from bailiwick.model import MiB
from bailiwick.stores.volume.content.object_store import open_blobs
from bailiwick.testing.contract import chunks
from tests.azure import FOLDER_VARIABLE, KEY, WRONG_KEY, AzureServer, installed
from tests.gcs import BUCKET, TOKEN, WRONG_TOKEN, GoogleServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spec("VOL-2", "VOL-3"),
]

BIG = os.urandom(5 * MiB)
SECRETS = {
    "az": ("AZURE_STORAGE_ACCOUNT_KEY", KEY, WRONG_KEY),
    "gs": ("GOOGLE_BEARER_TOKEN", TOKEN, WRONG_TOKEN),
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def running(request, running_s3, tmp_path_factory):
    if request.param == "gs":
        server = GoogleServer(running_s3)
    else:
        program = installed()
        if isinstance(program, str):
            pytest.fail(program)
        server = AzureServer(tmp_path_factory.mktemp("azure"), program)
        server.make_bucket(BUCKET)
    yield server
    server.end()


@pytest.fixture
def cloud(running, monkeypatch, settling):
    name, right, _ = SECRETS[running.scheme]
    monkeypatch.setenv(name, right)
    return running


@pytest.fixture
def address(cloud):
    """The address of blobs beneath a prefix of the test's own."""
    prefix = f"test-{os.getpid()}-{next(_numbers)}"

    def made(bucket=BUCKET, **settings):
        return cloud.url(bucket, prefix, **settings)

    return made


def volume(path, blobs):
    """A volume whose large content goes there, as a caller writes it."""
    return bailiwick.open(f"sqlite:{path}?blobs={quote(blobs, safe=':/')}")


def kept(address):
    """The blobs that are there, by the library's own look at the place."""
    store = open_blobs(address).store
    return store, [found["path"] for page in obstore.list(store) for found in page]


CLOUDS = ["az", "gs"] if FOLDER_VARIABLE in os.environ else ["gs"]
both = pytest.mark.parametrize("running", CLOUDS, indirect=True)


@both
async def test_large_files_go_there_and_come_back(address, tmp_path):
    async with volume(tmp_path / "v.db", address()) as fs:
        await fs.write_bytes("small", b"small")
        assert kept(address())[1] == []
        await fs.write_bytes("f", BIG)
        assert len(kept(address())[1]) == 2
        await fs.write_bytes("same", BIG)
        assert len(kept(address())[1]) == 2, "equal bytes are there once"
        await fs.append("f", b"more")
    async with volume(tmp_path / "v.db", address()) as fs:
        assert (await fs.read_bytes("same")).data == BIG
        part = await fs.read_bytes("f", offset=4 * MiB - 7, length=20)
        assert part.data == BIG[4 * MiB - 7 :][:20]
        streamed = b"".join([part async for part in fs.stream("f")])
        assert streamed == BIG + b"more"


@both
async def test_an_object_is_put_once_found_and_let_go_of(address):
    blobs = open_blobs(address())
    for _ in range(2):  # the second try of one whose answer was lost
        blobs.put("u/ab/one", [b"on", b"e"])
    with pytest.raises(IoError, match="another"):
        blobs.put("u/ab/one", [b"other bytes"])
    into = bytearray(10)
    assert blobs.fetch("u/ab/one", memoryview(into)) == 3
    assert bytes(into[:3]) == b"one"
    assert blobs.fetch("u/ab/one", memoryview(bytearray(2))) == 3
    (found,) = blobs.all("u")
    assert (found.key, found.size) == ("u/ab/one", 3)
    assert abs(found.mtime_ns - time.time_ns()) < 600 * 10**9
    for _ in range(2):
        blobs.delete("u/ab/one")
    assert blobs.fetch("u/ab/one", memoryview(into)) == 0
    assert list(blobs.all("u")) == []
    blobs.close()


@both
async def test_a_vanished_or_wrong_object_is_an_error_that_names_the_file(address, tmp_path):
    async with volume(tmp_path / "v.db", address()) as fs:
        await fs.write_bytes("d/f", BIG, parents=True)
    store, (victim, *_) = kept(address())
    right = bytes(obstore.get(store, victim).bytes())
    for harm in (None, bytes([right[0] ^ 1]) + right[1:], right[:-1], right + b"x"):
        with contextlib.suppress(FileNotFoundError):
            obstore.delete(store, victim)
        if harm is not None:
            obstore.put(store, victim, harm)
        async with volume(tmp_path / "v.db", address()) as fs:
            with pytest.raises(IoError) as caught:
                await fs.read_bytes("d/f")
            assert caught.value.path == "d/f"


@both
@pytest.mark.leaks_ok("Azurite leaves a request that it refuses half read, and its socket open")
async def test_wrong_credentials_and_a_missing_place_are_said(
    cloud, address, tmp_path, monkeypatch
):
    variable, right, wrong = SECRETS[cloud.scheme]
    place = {"az": "container", "gs": "bucket"}[cloud.scheme]
    for said, url, secret in (
        (place, address("there-is-none"), right),
        ("TLS", address(allow_http="false"), right),
        ("credentials", address(), wrong),
    ):
        monkeypatch.setenv(variable, secret)
        async with volume(tmp_path / f"{said}.db", url) as fs:
            await fs.write_bytes("f", b"old")
            with pytest.raises(IoError, match=said) as caught:
                await fs.write_bytes("f", BIG)
            assert caught.value.path == "f"
            shown = f"{caught.value} {caught.value.hint} {caught.value.__cause__!r}"
            assert wrong not in shown
            assert right not in shown
            assert (await fs.read_bytes("f")).data == b"old"


@both
@pytest.mark.spec("WRITE-3")
async def test_a_server_that_goes_away_in_the_middle_of_a_write(cloud, address, tmp_path):
    blobs = address(timeout="3", retries="1")
    for number, gone in enumerate((cloud.stopped, cloud.killed)):
        async with volume(tmp_path / f"{number}.db", blobs) as fs:
            await fs.write_bytes("f", b"old")
            gate = chunks.Gate(os.urandom(5 * MiB), os.urandom(5 * MiB))
            writer = asyncio.ensure_future(fs.write_stream("f", gate.chunks()))
            await gate.wait_for(writer)
            with gone():
                gate.opened.set()
                with pytest.raises(IoError) as caught:
                    await writer
                assert caught.value.path == "f"
                assert (await fs.read_bytes("f")).data == b"old"
            if cloud.scheme == "az":
                cloud.make_bucket(BUCKET)  # which it may have forgotten
            await fs.write_bytes("f", BIG)
            assert (await fs.read_bytes("f")).data == BIG


@pytest.mark.parametrize("variable", ["GOOGLE_SKIP_SIGNATURE"])
def test_what_can_only_read_is_no_credential_for_blobs(monkeypatch, variable):
    """With it the library signs no reading, and asks the network for a token to write."""
    for name in list(os.environ):
        if name.startswith("GOOGLE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv(variable, "true")
    with pytest.raises(ParseError, match="credentials"):
        open_blobs("gs://bucket/prefix")
