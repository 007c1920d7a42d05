"""Which kind of error is told where no retry helps, and what a stat does not tell."""

import os

import pytest

import bailiwick
from bailiwick.errors import NotARegularFile, ParseError


def opened(tmp_path, **options):
    (tmp_path / "tree").mkdir(exist_ok=True)
    return bailiwick.open(
        str(tmp_path / "tree"), state_dir=str(tmp_path / "state"), durability="rename", **options
    )


@pytest.mark.spec("LINK-5", "ARCH-1")
async def test_an_archive_that_is_a_fifo_is_not_a_regular_file(tmp_path):
    async with opened(tmp_path) as fs:
        os.mkfifo(tmp_path / "tree" / "a.tar")
        with pytest.raises(NotARegularFile):
            await fs.extract_archive("a.tar", "d")


@pytest.mark.spec("TREE-3")
@pytest.mark.parametrize("kind", ["directory", "history", "sqlite:"])
async def test_a_root_copied_into_itself_is_refused_at_once(tmp_path, kind):
    """Also by way of a second scope, for which it is another root."""

    def place():
        if kind == "sqlite:":
            return bailiwick.open(f"sqlite:{tmp_path}/v.db")
        return opened(tmp_path, **({"history": "on"} if kind == "history" else {}))

    async with place() as fs, place() as again:
        await fs.write_text("d/f", "x", parents=True)
        for other in (fs, again):
            for path, to in ((".", "new"), ("d", "d/new")):
                with pytest.raises(ParseError) as caught:
                    await fs.copy_from(other, path, to, recursive=True)
                assert "into itself" in caught.value.message
        assert [str(path) for path in (await fs.files()).paths] == ["d/f"]


@pytest.mark.spec("POL-1")
async def test_a_stat_of_a_directory_does_not_count_what_lies_in_it(tmp_path):
    async with opened(tmp_path) as fs:
        await fs.make_dir("d")
        before = await fs.stat("d")
        for name in ("a", "b", "c"):
            (tmp_path / "tree" / "d" / name).mkdir()
        after = await fs.stat("d")
        assert after.links == before.links == 1
        assert after.size == before.size == 0
        inode, size, _, _ = after.version.split("-")
        assert (inode, size) == (before.version.split("-")[0], "0")
        await fs.write_text("f", "x")
        os.link(tmp_path / "tree" / "f", tmp_path / "other-name")
        assert (await fs.stat("f")).links == 2
