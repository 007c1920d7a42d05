"""`create_archive`: what goes in comes out again, and only what may be read goes in."""

import asyncio
import contextlib
import os
import tempfile

import hypothesis
import hypothesis.strategies as st
import pytest

import bailiwick
from bailiwick.errors import (
    ApprovalDenied,
    BailiwickError,
    FileAlreadyExists,
    FileTooLarge,
    IsADirectory,
    NotADirectory,
    NotARegularFile,
    ParseError,
    PathNotFound,
    PathOutsideWorkspace,
    PolicyDenied,
    Unsupported,
)
from bailiwick.limits import Limits
from bailiwick.model import KiB
from tests.archives.support import ALL_FORMATS, FORMATS_OF_ANY_TREE
from tests.archives.test_round_trip import NAMES
from tests.scope.archives import litter, unchanged
from tests.scope.support import (
    Rules,
    ask,
    deny,
    hide,
    place_of,
    plant,
    snapshot,
    unruled,
)
from tests.waiting import let_pass

pytestmark = pytest.mark.spec("ARCH-1")


# --- packing ----------------------------------------------------------------------------------

TREE = {
    "d/a": "one", "d/e/b": "two", "d/empty": None, "d/l": "-> e/b", "other": "three",
    "d/" + "n" * 150 + "/" + "é" * 100: "long names are kept whole",
}  # fmt: skip


@pytest.mark.parametrize("known", ALL_FORMATS)
async def test_there_and_back(opening, known):
    async with opening() as fs:
        await plant(fs, TREE)
        await fs.write_bytes("d/big", os.urandom(600_000))
        await fs.set_mode("d/a", 0o755)
        await fs.set_times("d/a", 1_234_567_890 * 10**9)
        await fs.set_times("d/e", 1_234_567_000 * 10**9)
        before = await snapshot(fs)
        made = await fs.create_archive(".", f"x.{known}")
        assert made.format == known
        assert made.files == sum(isinstance(content, bytes) for content in before.values())
        assert (made.links, made.created) == (1, True)
        found = await fs.read_bytes(f"x.{known}")
        assert (made.size, made.sha256) == (found.size, found.sha256)
        await fs.extract_archive(f"x.{known}", "back")
        after = await snapshot(fs)
        assert {
            path.removeprefix("back/"): content
            for path, content in after.items()
            if path.startswith("back/")
        } == before
        assert (await fs.stat("back/d/a")).mode == 0o755
        assert (await fs.stat("back/d/a")).mtime_ns == 1_234_567_890 * 10**9
        assert (await fs.stat("back/d/e")).mtime_ns == 1_234_567_000 * 10**9
        assert litter(fs) == []


async def test_several_paths_in_order_and_once(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        one = await fs.create_archive(["other", "d/e", "d"], "one.tar")
        two = await fs.create_archive(["d", "other"], "two.tar")
        assert one.sha256 == two.sha256
        three = await fs.create_archive("d/l", "three.tar")
        assert (three.files, three.links) == (0, 1)


async def test_an_archive_does_not_hold_itself(opening):
    async with opening() as fs:
        await plant(fs, {"a": "x"})
        await fs.create_archive(".", "all.tar")
        again = await fs.create_archive(".", "all.tar", mode="overwrite")
        assert (again.files, again.created) == (1, False)
        with pytest.raises(ParseError):
            await fs.create_archive("all.tar", "all.tar", mode="overwrite")


async def test_ignored_files_are_packed_unless_told_otherwise(opening):
    async with opening() as fs:
        await plant(fs, {".gitignore": "*.log\n", "a.log": "x", "b": "y"})
        assert (await fs.create_archive(".", "all.tar")).files == 3
        assert (await fs.create_archive(".", "some.zip", include_ignored=False)).files == 3
        assert (await fs.create_archive(["a.log"], "one.zip", include_ignored=False)).files == 1


@pytest.mark.parametrize(
    ("paths", "to", "options", "error"),
    [
        ([], "a.tar", {}, ParseError),
        (["missing"], "a.tar", {}, PathNotFound),
        (["d", "missing"], "a.tar", {}, PathNotFound),
        (["d"], "other", {}, ParseError),
        (["d"], "other", {"format": "tar"}, FileAlreadyExists),
        (["d"], "a.tar", {"format": "rar"}, ParseError),
        (["d"], "a.tar", {"format": 5}, ParseError),
        (["d"], "a.tar", {"include_ignored": "no"}, ParseError),
        (["d"], "a.tar", {"mode": "replace"}, ParseError),
        (["d"], "a.tar", {"file_mode": 0o4755}, ParseError),
        (["d"], "d", {"format": "tar", "mode": "overwrite"}, ParseError),
        (["other"], "d", {"format": "tar", "mode": "overwrite"}, IsADirectory),
        (["d"], "nowhere/a.tar", {}, PathNotFound),
        (["d"], "a.tar/", {}, NotADirectory),
        (["../d"], "a.tar", {}, PathOutsideWorkspace),
        ([5], "a.tar", {}, ParseError),
    ],
)
async def test_what_is_not_packed(opening, paths, to, options, error):
    async with opening() as fs:
        await plant(fs, {"d/a": "one", "other": "x"})
        async with unchanged(fs):
            with pytest.raises(error):
                await fs.create_archive(paths, to, **options)


async def test_what_is_hidden_is_not_in_the_archive(opening):
    async with opening(policy=Rules(hide("d/secret"))) as fs:
        await plant(unruled(fs), {"d/a": "x", "d/secret/key": "y"})
        assert (await fs.create_archive("d", "d.tar")).files == 1
        await fs.extract_archive("d.tar", "out")
        assert set(await snapshot(unruled(fs))) >= {"out/d/a"}
        assert "out/d/secret" not in await snapshot(unruled(fs))
        async with unchanged(fs):
            with pytest.raises(PathNotFound):
                await fs.create_archive(["d/a", "d/secret/key"], "e.tar")


async def test_what_is_refused_refuses_the_whole(opening):
    for rule, error in (
        (deny("d/secret"), PolicyDenied), (deny("d/secret", access={"read"}), PolicyDenied),
        (ask("d/secret"), ApprovalDenied), (deny("d.tar", access={"write"}), PolicyDenied),
    ):  # fmt: skip
        async with opening(policy=Rules(rule)) as fs:
            await plant(unruled(fs), {"d/a": "x", "d/secret/key": "y"})
            async with unchanged(fs):
                with pytest.raises(error):
                    await fs.create_archive("d", "d.tar")


async def test_a_device_or_fifo_is_not_packed(disk):
    async with disk() as fs:
        await plant(fs, {"d/a": "x"})
        os.mkfifo(f"{place_of(fs)}/d/fifo")
        with pytest.raises(NotARegularFile):
            await fs.create_archive("d", "d.tar")
        assert await fs.exists("d.tar") is False
        assert litter(fs) == []


@pytest.mark.parametrize("name", ["back\\slash", "C:drive", "new\nline"])
async def test_a_name_that_could_not_be_unpacked_is_not_packed(disk, name):
    async with disk() as fs:
        await plant(fs, {"d/a": "x"})
        with open(f"{place_of(fs)}/d/{name}", "w") as file_:
            file_.write("x")
        if name[1] == ":":
            await fs.create_archive("d", "d.tar")  # no drive letter where it does not come first
            return
        with pytest.raises(BailiwickError):
            await fs.create_archive("d", "d.tar")
        assert await fs.exists("d.tar") is False


async def test_too_large_an_archive(opening):
    async with opening(limits=Limits(max_file_bytes=20_000)) as fs:
        await plant(fs, {f"d/{number}": os.urandom(9_000) for number in range(3)})
        async with unchanged(fs):
            with pytest.raises(FileTooLarge):
                await fs.create_archive("d", "d.tar")


async def test_without_zstd(opening, monkeypatch):
    import sys

    async with opening() as fs:
        await plant(fs, {"a": "x"})
        monkeypatch.setitem(sys.modules, "zstandard", None)
        async with unchanged(fs):
            with pytest.raises(Unsupported, match="zstd"):
                await fs.create_archive("a", "a.tar.zst")


@pytest.mark.slow
async def test_cancelled_while_packing(opening):
    async with opening() as fs:
        await fs.write_bytes("d", os.urandom(512 * KiB))
        before = await snapshot(fs)
        for milliseconds in range(0, 60, 3):
            task = asyncio.ensure_future(fs.create_archive("d", "d.tar.xz"))
            await let_pass(milliseconds / 1_000)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
                await fs.remove("d.tar.xz")
            assert await snapshot(fs) == before
            assert litter(fs) == []


TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map(tuple),
    st.one_of(st.none(), st.binary(max_size=300)),
    max_size=6,
)


@pytest.mark.parametrize("known", FORMATS_OF_ANY_TREE)
@pytest.mark.parametrize("kind", ["memory", "disk"])
@hypothesis.settings(max_examples=25)
@hypothesis.given(tree=TREES, modes=st.lists(st.integers(0, 0o777), min_size=6, max_size=6))
async def test_any_tree_comes_back(kind, known, tree, modes):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        place, options = "memory:", {}
        if kind == "disk":
            os.mkdir(f"{folder}/root")
            place = f"{folder}/root"
            options = {"state_dir": f"{folder}/state", "durability": "rename"}
        async with bailiwick.open(place, **options) as fs:
            for (parts, content), mode in zip(tree.items(), modes, strict=False):
                path = "/".join(("tree", *parts))
                with contextlib.suppress(BailiwickError):  # it does not fit to the others
                    if content is None:
                        await fs.make_dir(path, parents=True)
                    else:
                        await fs.write_bytes(path, content, parents=True, mode="create")
                        await fs.set_mode(path, mode)
            await fs.make_dir("tree", parents=True)
            await fs.create_archive("tree", f"x.{known}")
            await fs.extract_archive(f"x.{known}", "out")
            found = await snapshot(fs)
            before, after = (
                {path[len(top) :]: content for path, content in found.items()
                 if path.startswith(top)} for top in ("tree/", "out/tree/")
            )  # fmt: skip
            assert after == before
            for path in before:
                one, other = await fs.lstat(f"tree/{path}"), await fs.lstat(f"out/tree/{path}")
                assert (one.mode, one.mtime_ns // 10**9) == (other.mode, other.mtime_ns // 10**9)
