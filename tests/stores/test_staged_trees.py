"""A staged tree appears whole or not at all; a merged one can be undone."""

import contextlib

import pytest

from bailiwick.errors import (
    BailiwickError,
    Closed,
    FileAlreadyExists,
    FileTooLarge,
    InternalError,
    IsADirectory,
    NotADirectory,
    SymlinkEscape,
)
from bailiwick.paths import ScopedPath
from bailiwick.store import Staged, Stages
from bailiwick.testing.contract.case import tree
from tests.stores.trees import KINDS, litter, make_kind

pytestmark = pytest.mark.spec("ARCH-1")


def path(text):
    return ScopedPath(text)


def new_file(text, **fields):
    return Staged(path(text), "file", **fields)


@pytest.fixture(params=KINDS)
def opened(request, tmp_path):
    """``async with opened() as fs``: a fresh tree, which leaves nothing lying about."""
    make = make_kind(request.param, tmp_path)

    @contextlib.asynccontextmanager
    async def open_tree(**options):
        fs = await make(**options)
        try:
            yield fs
            assert litter(tmp_path) == []
        finally:
            await fs.aclose()

    return open_tree


@contextlib.asynccontextmanager
async def staged(fs, place, size_max=10**6):
    entry = await fs.store.resolve(path(place), "entry")
    stage = await fs.store.stage(entry, size_max=size_max)
    try:
        yield stage
    finally:
        await stage.discard()
        entry.close()


async def test_nothing_is_seen_before_it_is_published(opened):
    async with opened() as fs:
        assert isinstance(fs.store, Stages)
        assert "Stages" in fs.store.powers
        async with staged(fs, "out") as stage:
            await stage.add([new_file("a/b", file_mode=0o640, mtime_ns=10**18), b"con", b"tent"])
            assert await tree(fs) == {}
            await stage.add([
                Staged(path("a"), "directory", 0o750, 10**18), Staged(path("e"), "directory"),
                Staged(path("l"), "symlink", target="a/b"),
                Staged(path("c"), "copy", 0o600, 10**18, "a/b"), new_file("empty"),
            ])  # fmt: skip
            assert await tree(fs) == {}
            await stage.publish()
        assert await tree(fs) == {
            "out": None, "out/a": None, "out/a/b": b"content", "out/e": None, "out/l": "a/b",
            "out/c": b"content", "out/empty": b"",
        }  # fmt: skip
        found = {name: await fs.lstat(f"out/{name}") for name in ("a", "a/b", "e", "c", "empty")}
        assert [found[name].mode for name in ("a", "a/b", "e", "c", "empty")] == [
            0o750, 0o640, 0o700, 0o600, 0o600,
        ]  # fmt: skip
        assert {found[name].mtime_ns for name in ("a", "a/b", "c")} == {10**18}
        assert {stat.links for name, stat in found.items() if stat.type == "file"} == {1}


async def test_what_is_discarded_never_was(opened):
    async with opened() as fs:
        async with staged(fs, "out") as stage:
            await stage.add([new_file("a/b"), b"content"])
        assert await tree(fs) == {}
        async with staged(fs, "out"):
            pass
        async with staged(fs, ".") as stage:
            await stage.add([new_file("a"), b"content"])
        assert await tree(fs) == {}


async def test_a_name_that_is_taken_meanwhile(opened):
    async with opened() as fs:
        async with staged(fs, "out") as stage:
            await stage.add([new_file("a")])
            await fs.write("out", b"theirs")
            with pytest.raises(FileAlreadyExists):
                await stage.publish()
        assert await tree(fs) == {"out": b"theirs"}


async def test_directories_that_shut_themselves(opened):
    async with opened() as fs:
        async with staged(fs, "out") as stage:
            await stage.add([Staged(path("d"), "directory", 0o000), new_file("d/e/f"), b"x"])
            await fs.make_dir("out")
            with pytest.raises(FileAlreadyExists):
                await stage.publish()
        assert await tree(fs) == {"out": None}


async def test_nothing_is_made_twice_or_through_something_else(opened):
    async with opened() as fs:
        await fs.write("d/kept", b"x", parents=True)
        for first, second in (
            ("a", "a"), ("a/b", "a"), ("a", "a/b"),
        ):  # fmt: skip
            async with staged(fs, "out") as stage:
                await stage.add([new_file(first)])
                with pytest.raises((FileAlreadyExists, NotADirectory, IsADirectory)):
                    await stage.add([new_file(second)])
        async with staged(fs, "out") as stage:
            await stage.add([Staged(path("l"), "symlink", target="../d")])
            with pytest.raises(BailiwickError):
                await stage.add([new_file("l/evil"), b"x"])
        assert await tree(fs) == {"d": None, "d/kept": b"x"}


async def test_a_file_that_is_too_large(opened):
    async with opened() as fs:
        async with staged(fs, "out", size_max=5) as stage:
            await stage.add([new_file("a"), b"12345"])
            with pytest.raises(FileTooLarge):
                await stage.add([b"6"])
        assert await tree(fs) == {}


async def test_content_without_a_file(opened):
    async with opened() as fs, staged(fs, "out") as stage:
        with pytest.raises(InternalError):
            await stage.add([b"content"])


async def test_links_where_none_are_made(opened):
    async with opened(symlinks="reject") as fs, staged(fs, "out") as stage:
        with pytest.raises(SymlinkEscape):
            await stage.add([Staged(path("l"), "symlink", target="a")])


async def test_a_place_that_will_not_do(opened):
    async with opened() as fs:
        await fs.write("f", b"x")
        entry = await fs.store.resolve(path("f"), "entry")
        with pytest.raises((FileAlreadyExists, NotADirectory)):
            await fs.store.stage(entry, size_max=1)
        entry.close()


async def test_merging(opened):
    async with opened() as fs:
        await fs.write("d/old", b"old", parents=True)
        await fs.write("d/e/kept", b"kept", parents=True)
        await fs.set_mode("d/e", 0o711)
        async with staged(fs, "d") as stage:
            await stage.add([
                new_file("old", file_mode=0o640), b"new", new_file("e/more"), b"more",
                Staged(path("e"), "directory", 0o700), Staged(path("n"), "directory", 0o750),
                new_file("n/x"), b"x", Staged(path("l"), "symlink", target="n/x"),
            ])  # fmt: skip
            await stage.merge(replace=True)
        assert await tree(fs, "d") == {
            "d/old": b"new", "d/e": None, "d/e/kept": b"kept", "d/e/more": b"more", "d/n": None,
            "d/n/x": b"x", "d/l": "n/x",
        }  # fmt: skip
        assert (await fs.lstat("d/old")).mode == 0o640
        assert (await fs.lstat("d/e")).mode == 0o711
        assert (await fs.lstat("d/n")).mode == 0o750


@pytest.mark.parametrize(
    ("steps", "replace", "error"),
    [
        ([new_file("a"), new_file("z/f")], False, FileAlreadyExists),
        ([new_file("n/x"), new_file("a"), new_file("dir")], True, IsADirectory),
        ([new_file("n/x"), new_file("a"), new_file("f/x")], True, NotADirectory),
        ([new_file("a"), new_file("link")], True, SymlinkEscape),
        ([new_file("a"), new_file("link/x")], True, SymlinkEscape),
        ([new_file("a"), Staged(path("f"), "symlink", target="a")], True, FileAlreadyExists),
        ([new_file("n/x"), new_file("z/f")], False, FileAlreadyExists),
    ],
)
async def test_a_merge_that_fails_undoes_all_of_it(opened, steps, replace, error):
    async with opened() as fs:
        await fs.write("d/a", b"old a", parents=True)
        await fs.write("d/f", b"old f")
        await fs.make_dir("d/dir/in", parents=True)
        await fs.write("d/z/f", b"z", parents=True)
        await fs.write("elsewhere/x", b"kept", parents=True)
        await fs.symlink("d/link", "../elsewhere")
        before = await tree(fs)
        async with staged(fs, "d") as stage:
            await stage.add([part for step in steps for part in _with_content(step)])
            with pytest.raises(error):
                await stage.merge(replace=replace)
            assert await tree(fs) == before
        assert await tree(fs) == before


def _with_content(step):
    return (step, b"new") if step.type == "file" else (step,)


async def test_a_closed_store(opened):
    async with opened() as fs:
        entry = await fs.store.resolve(path("out"), "entry")
        stage = await fs.store.stage(entry, size_max=1)
        await stage.discard()
        await fs.store.aclose()
        with pytest.raises(Closed):
            await stage.add([new_file("a")])
        with pytest.raises(Closed):
            await fs.store.stage(entry, size_max=1)
        await stage.discard()
        entry.close()
