"""The story that every front tells, told through fsspec: on a loop, by blocking calls, by URL."""

import asyncio
import contextlib
import hashlib

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem

import bailiwick
from bailiwick.fronts.fsspec import BailiwickFileSystem
from bailiwick.testing.front_contract import CASES, ROOT, SUBJECT, Wrote, story_house
from tests.fronts.test_front_contract import ACCESS, served

pytestmark = pytest.mark.spec("ERR-4", "FSSPEC-1")


class Awaited:
    """The methods with an underscore, on the loop of the scope."""

    def __init__(self, fs):
        self._fs = fs

    async def call(self, method, *given, **options):
        return await getattr(self._fs, f"_{method}")(*given, **options)


class Blocking:
    """The methods as nearly everyone calls them, in a thread of their own."""

    def __init__(self, fs):
        self._fs = fs

    async def call(self, method, *given, **options):
        return await asyncio.to_thread(getattr(self._fs, method), *given, **options)


class FsspecFront:
    """A filesystem as its callers have it. What is written is bytes, as always there."""

    def __init__(self, way):
        self.call = way.call

    async def write(self, path, text, *, expected_sha256=None):
        done = await self.call("pipe_file", path, text.encode(), expected_sha256=expected_sha256)
        return Wrote(done.sha256, done.request_id)

    async def read(self, path):
        return (await self.call("cat_file", path)).decode()

    async def names(self, path):
        return [name.rpartition("/")[2] for name in await self.call("ls", path, detail=False)]

    async def edit(self, path, old, new):
        await self.call("edit", path, old, new)

    async def remove(self, path):
        await self.call("rm", path)

    async def undo(self, request_id):
        return [str(path) for path in (await self.call("undo", request_id)).undone]


class OpeningFront(FsspecFront):
    """The same with writes by `open`, as pandas and pyarrow make them."""

    async def write(self, path, text, *, expected_sha256=None):
        opened = await self.call("open", path, "wb", expected_sha256=expected_sha256)

        def fill():
            with opened:
                opened.write(text.encode())

        await asyncio.to_thread(fill)
        return Wrote(opened.written.sha256, opened.written.request_id)


@contextlib.asynccontextmanager
async def scope_of(house):
    scope = await house.authority.request_root(SUBJECT, ROOT, ACCESS, "the story")
    try:
        yield scope
        records = await house.authority.ledger.tail(5)
        assert "fsspec" in {record.front for record in records}
    finally:
        await scope.aclose()


@contextlib.asynccontextmanager
async def on_the_loop(house):
    async with scope_of(house) as scope:
        yield FsspecFront(Awaited(BailiwickFileSystem(scope, asynchronous=True)))


@contextlib.asynccontextmanager
async def by_blocking_calls(house):
    async with scope_of(house) as scope:
        yield FsspecFront(Blocking(BailiwickFileSystem(scope)))


@contextlib.asynccontextmanager
async def by_open_files(house):
    async with scope_of(house) as scope:
        yield OpeningFront(Blocking(BailiwickFileSystem(scope)))


@contextlib.asynccontextmanager
async def by_url(house):
    """A root of a server, as a URL names it."""
    async with served(house) as (url, secret):
        place = url.replace("http:", "bailiwick:") + "/workspace/story/"
        fs, top = fsspec.core.url_to_fs(place, token=secret, skip_instance_cache=True)
        assert top == ""
        try:
            yield FsspecFront(Blocking(fs))
        finally:
            await asyncio.to_thread(fs.close)


@pytest.mark.leaks_ok("fsspec's own loop keeps worker threads for the whole process")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("front", [on_the_loop, by_blocking_calls, by_open_files, by_url])
async def test_a_filesystem_tells_the_same_story(tmp_path, front, case):
    async with story_house(str(tmp_path)) as house, front(house) as driver:
        await case(driver, house)


# --- what the story does not tell of conditions, edits and undoing ------------------------------


@pytest.fixture
def scope(tmp_path):
    with bailiwick.open_sync(f"sqlite:{tmp_path}/v.db") as scope:
        yield scope


@pytest.fixture
def fs(scope):
    return BailiwickFileSystem(scope)


LARGE = b"x" * (9 * 1024 * 1024)
"""More than a block: written as a stream."""


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_a_file_is_only_made_onto_what_was_expected(fs, mode, data):
    first = fs.pipe_file("a", b"one")
    with fs.open("a", mode, expected_sha256=first.sha256) as file:
        file.write(data)
    kept = b"one" + data if mode == "ab" else data
    assert fs.cat_file("a") == kept
    assert file.written.sha256 == digest(kept)
    late = fs.open("a", mode, expected_sha256=first.sha256)
    late.write(data)
    with pytest.raises(bailiwick.HashMismatch):
        late.close()
    assert fs.cat_file("a") == kept


def digest(data):
    return hashlib.sha256(data).hexdigest()


async def test_so_is_one_that_is_written_on_a_loop():
    async with bailiwick.open("memory:") as scope:
        fs = BailiwickFileSystem(scope, asynchronous=True)
        first = await fs._pipe_file("a", b"one")
        async with await fs.open_async("a", "wb", expected_sha256=first.sha256) as file:
            await file.write(b"two")
        assert file.written.sha256 == digest(b"two")
        late = await fs.open_async("a", "wb", expected_sha256=first.sha256)
        await late.write(LARGE)
        with pytest.raises(bailiwick.HashMismatch):
            await late.close()
        assert await fs._cat_file("a") == b"two"


def test_a_large_pipe_keeps_its_condition_too(fs):
    first = fs.pipe_file("a", b"one")
    large = b"x" * (64 * 1024 * 1024 + 1)
    assert fs.pipe_file("a", large, expected_sha256=first.sha256).size == len(large)
    with pytest.raises(bailiwick.HashMismatch):
        fs.pipe_file("a", large, expected_sha256=first.sha256)
    with pytest.raises(bailiwick.HashMismatch):
        fs.pipe_file("none", b"x", expected_sha256=first.sha256)


def test_what_is_read_has_no_condition(fs):
    fs.pipe_file("a", b"one")
    with pytest.raises(bailiwick.ParseError, match="expected hash"):
        fs.open("a", "rb", expected_sha256=digest(b"one"))


def test_an_edit_says_what_it_did_and_can_be_undone(fs):
    fs.pipe_file("d/a", b"one one two")
    with pytest.raises(bailiwick.AmbiguousTextMatch):
        fs.edit("d/a", "one", "1")
    edited = fs.edit("/d/a", "one", "1", replace_all=True)
    assert fs.cat_file("d/a") == b"1 1 two"
    with pytest.raises(bailiwick.HashMismatch):
        fs.edit("d/a", "two", "2", expected_sha256="0" * 64)
    assert [str(path) for path in fs.undo(edited.request_id, preview=True).undone] == ["d/a"]
    assert fs.cat_file("d/a") == b"1 1 two"
    fs.undo(edited.request_id)
    assert fs.cat_file("d/a") == b"one one two"


def test_where_no_versions_are_kept_nothing_is_undone():
    with bailiwick.open_sync("memory:") as scope:
        fs = BailiwickFileSystem(scope)
        done = fs.pipe_file("a", b"x")
        with pytest.raises(bailiwick.Unsupported):
            fs.undo(done.request_id)
        assert fs.cat_file("a") == b"x"


def test_fsspec_itself_has_no_name_for_what_was_added():
    """Steps of the story for which fsspec has no method; should it get one, ours has to be that."""
    for name in ("edit", "undo"):
        assert not hasattr(AbstractFileSystem, name)
        assert not hasattr(AsyncFileSystem, f"_{name}")
    with fsspec.filesystem("memory").open("/a", "wb") as file:
        file.write(b"x")
    assert not hasattr(file, "written")
