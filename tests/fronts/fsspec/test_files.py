"""Files through fsspec: read by ranges, made at once when they are closed."""

import asyncio
import gc
import os
import random
import threading
import tracemalloc
import warnings

import pytest

import bailiwick
from bailiwick.fronts.fsspec import BailiwickFileSystem
from bailiwick.fronts.fsspec.files import BLOCK_BYTES

pytestmark = pytest.mark.spec("FSSPEC-1")

MiB = 1024 * 1024


def fail():
    raise ZeroDivisionError


def in_transaction(fs):
    with fs.transaction:
        write_and(fs.open("c", "wb"), b"c", lambda: None)
        fail()


def write_and(file, data, then):
    """Write, do something else, and close, as a block does."""
    with file:
        file.write(data)
        then()


@pytest.fixture(params=["memory", "disk", "volume"])
def scope(request, tmp_path):
    place = {"memory": "memory:", "disk": tmp_path, "volume": f"sqlite:{tmp_path}/v.db"}
    with bailiwick.open_sync(place[request.param]) as scope:
        yield scope


@pytest.fixture
def fs(scope):
    return BailiwickFileSystem(scope)


def test_a_file_is_read_at_random(fs, scope):
    data = random.Random(1).randbytes(3 * BLOCK_BYTES + 12_345)
    scope.write_bytes("a", data)
    rng = random.Random(2)
    for cache in ("readahead", "none", "bytes"):
        with fs.open("a", "rb", cache_type=cache) as file:
            assert file.size == len(data)
            for _ in range(20):
                at, size = rng.randrange(len(data)), rng.randrange(200_000)
                file.seek(at)
                assert file.read(size) == data[at : at + size]
            file.seek(-10, os.SEEK_END)
            assert file.read() == data[-10:]
            assert file.read() == b""
    for start, end in ((0, 5), (10, 10), (-7, None), (5, -5), (None, None), (len(data), None)):
        assert fs.cat_file("a", start, end) == data[start:end]
    assert fs.cat_ranges(["a", "a"], [1, 5], [3, 9]) == [data[1:3], data[5:9]]
    assert fs.head("a", 9) == data[:9]
    assert fs.tail("a", 9) == data[-9:]


def test_nothing_appears_before_a_file_is_closed(fs, scope):
    scope.write_text("old", "before")
    with fs.open("new", "wb") as new, fs.open("old", "wb") as old:
        for _ in range(3):
            new.write(b"x" * BLOCK_BYTES)
            old.write(b"y" * BLOCK_BYTES)
            assert not scope.exists("new")
            assert scope.read_text("old").text == "before"
    assert scope.stat("new").size == scope.stat("old").size == 3 * BLOCK_BYTES
    assert fs.info("new")["size"] == 3 * BLOCK_BYTES


@pytest.mark.parametrize("blocks", [0, 3])
def test_what_an_exception_leaves_is_not_made(fs, scope, blocks):
    scope.write_text("old", "before")
    for name in ("old", "new"):
        with pytest.raises(ZeroDivisionError):
            write_and(fs.open(name, "wb"), b"x" * (blocks * BLOCK_BYTES + 1), fail)
    assert scope.read_text("old").text == "before"
    assert fs.ls("/", detail=False).count("new") == 0


@pytest.mark.parametrize("blocks", [0, 2])
def test_a_file_that_nobody_closes_is_closed_when_it_is_let_go(fs, scope, blocks):
    file = fs.open("a", "wb")
    file.write(b"x" * (blocks * BLOCK_BYTES + 1))
    del file
    gc.collect()
    assert scope.stat("a").size == blocks * BLOCK_BYTES + 1


@pytest.mark.parametrize("blocks", [0, 2])
async def test_where_nobody_can_wait_for_it_it_is_not_made(blocks):
    async with bailiwick.open("memory:") as scope:
        fs = BailiwickFileSystem(scope)
        files = []

        def begin():
            files.append(fs.open("a", "wb"))
            files[0].write(b"x" * (blocks * BLOCK_BYTES + 1))

        await asyncio.to_thread(begin)
        with pytest.warns(ResourceWarning, match="not closed"):
            files.clear()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not await scope.exists("a")


def test_a_new_file_is_new(fs, scope):
    with fs.open("a", "xb") as file:
        file.write(b"mine")
    with pytest.raises(FileExistsError):
        fs.open("a", "xb")
    late = fs.open("b", "xb")
    with pytest.raises(FileExistsError):
        write_and(late, b"late", lambda: scope.write_text("b", "first"))
    assert scope.read_text("b").text == "first"


def test_appending(fs, scope):
    with fs.open("log", "ab") as file:
        assert file.tell() == 0
        file.write(b"one\n")
    with fs.open("log", "ab") as file:
        assert file.tell() == 4
        file.write(b"two\n")
    assert fs.cat_file("log") == b"one\ntwo\n"
    with fs.open("log", "ab") as file:
        for _ in range(3):
            file.write(b"z" * BLOCK_BYTES)
        assert fs.cat_file("log") == b"one\ntwo\n"
    assert fs.cat_file("log") == b"one\ntwo\n" + b"z" * (3 * BLOCK_BYTES)
    with fs.open("large", "ab") as file:
        file.write(b"z" * (2 * BLOCK_BYTES))
    assert fs.size("large") == 2 * BLOCK_BYTES


def test_appending_much_never_loses_what_another_appends(fs, scope):
    scope.write_bytes("log", b"one\n")
    large = fs.open("log", "ab")
    with pytest.raises(bailiwick.HashMismatch):
        write_and(large, b"z" * BLOCK_BYTES, lambda: scope.append("log", b"two\n"))
    assert scope.read_bytes("log").data == b"one\ntwo\n"


def test_text_and_compression(fs):
    with fs.open("a.txt", "w", encoding="utf-8", newline="") as file:
        file.write("grüße\r\n")
    assert fs.cat_file("a.txt") == "grüße\r\n".encode()
    with fs.open("a.txt", "r", encoding="utf-8") as file:
        assert list(file) == ["grüße\n"]
    with fs.open("a.gz", "wt", compression="gzip") as file:
        file.write("squeezed")
    with fs.open("a.gz", "rt", compression="infer") as file:
        assert file.read() == "squeezed"
    fs.write_text("b", "x")
    assert fs.read_text("b") == "x"


@pytest.mark.parametrize("mode", ["r+b", "w+b", "a+b"])
def test_what_is_not_supported_is_refused(fs, mode):
    with pytest.raises(NotImplementedError):
        fs.open("a", mode)


def test_a_change_while_reading_is_noticed(fs, scope):
    scope.write_bytes("a", b"x" * (2 * BLOCK_BYTES))
    with fs.open("a", "rb", cache_type="none") as file:
        file.read(10)
        scope.write_bytes("a", b"y" * (2 * BLOCK_BYTES))
        with pytest.raises(bailiwick.HashMismatch):
            file.read(10)


def test_a_transaction_is_made_at_its_end_or_not_at_all(fs, scope):
    with fs.transaction:
        with fs.open("a", "wb") as file:
            file.write(b"a")
        with fs.open("b", "wb") as file:
            file.write(b"b" * (2 * BLOCK_BYTES))
        assert not scope.exists("a")
    assert (scope.stat("a").size, scope.stat("b").size) == (1, 2 * BLOCK_BYTES)
    with pytest.raises(ZeroDivisionError):
        in_transaction(fs)
    assert not scope.exists("c")


def test_a_write_that_is_refused_says_so_and_leaves_nothing(tmp_path):
    limits = bailiwick.Limits(max_file_bytes=BLOCK_BYTES)
    with bailiwick.open_sync(tmp_path, limits=limits) as scope:
        fs = BailiwickFileSystem(scope)
        with pytest.raises(bailiwick.FileTooLarge):
            fs.pipe_file("a", b"x" * (BLOCK_BYTES + 1))
        large = fs.open("a", "wb")
        with pytest.raises(bailiwick.FileTooLarge):
            write_and(large, b"x" * BLOCK_BYTES, lambda: large.write(b"x" * BLOCK_BYTES))
        assert fs.ls("/") == []
    with bailiwick.open_sync(tmp_path, trusted=False) as scope:
        fs = BailiwickFileSystem(scope)
        with pytest.raises(PermissionError), fs.open("a", "wb") as file:
            file.write(b"x")


def test_memory_holds_a_few_blocks_of_a_large_file(tmp_path):
    with bailiwick.open_sync(tmp_path) as scope:
        fs = BailiwickFileSystem(scope)
        block = b"x" * MiB
        tracemalloc.start()
        try:
            with fs.open("large", "wb") as file:
                for _ in range(64):
                    file.write(block)
            with fs.open("large", "rb") as file:
                while file.read(MiB):
                    pass
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * BLOCK_BYTES


def test_many_threads_share_one(fs):
    failed = []

    def work(number):
        try:
            for each in range(10):
                path = f"t{number}/{each}"
                fs.pipe_file(path, str(each).encode())
                with fs.open(path, "rb") as file:
                    assert file.read() == str(each).encode()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(fs.find("/")) == 60


def test_opening_what_is_no_file(fs, scope):
    scope.make_dir("d")
    with pytest.raises(FileNotFoundError):
        fs.open("none", "rb")
    with pytest.raises(IsADirectoryError):
        fs.open("d", "rb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(IsADirectoryError), fs.open("d", "wb") as file:
            file.write(b"x")
