"""Faults of other filesystems for agents with names, walks and options, none of them ours.

Each test is one fault that was seen in the wild; its docstring says what happens there.
"""

import pytest

import bailiwick
from tests.scope.support import plant, snapshot


@pytest.mark.spec("TREE-3")
async def test_moving_a_file_onto_itself_does_not_delete_it(opening):
    """There it is copied onto itself, and then the source is removed."""
    async with opening() as fs:
        await fs.write_text("f", "x")
        for same in ("f", "./f", "d/../f"):
            assert not (await fs.move("f", same, replace=True)).changed
        assert await snapshot(fs) == {"f": b"x"}


@pytest.mark.spec("TREE-2")
@pytest.mark.parametrize("verb", ["move", "copy", "copy_from"])
async def test_all_files_of_a_large_directory_come_along(opening, verb):
    """There 1,000 of 1,200 do: one page of the listing."""
    async with opening() as fs, opening() as other:
        await fs.make_dir("d")
        for number in range(1_200 if opening.kind == "memory" else 60):
            await fs.write_bytes(f"d/{number}", b"")
        count = len((await fs.files("d")).paths)
        there = fs
        if verb == "copy_from":
            there = other
            await other.copy_from(fs, "d", "e", recursive=True)
        elif verb == "copy":
            await fs.copy("d", "e", recursive=True)
        else:
            await fs.move("d", "e")
        assert len((await there.files("e")).paths) == count


@pytest.mark.spec("TREE-3")
async def test_a_directory_moved_into_itself_does_not_recurse(opening):
    """There it does, until the names are too long."""
    async with opening() as fs:
        await plant(fs, {"d/f": "x"})
        for to in ("d/d", "d/new/deep"):
            with pytest.raises(bailiwick.BailiwickError) as refused:
                await fs.move("d", to)
            assert refused.value.kind in ("parse_error", "path_not_found")
        assert await snapshot(fs) == {"d": None, "d/f": b"x"}


@pytest.mark.spec("TREE-3", "WRITE-3")
async def test_writing_onto_a_directory_does_not_succeed(opening):
    """There it is said to, and nothing is there afterwards."""
    async with opening() as fs:
        await plant(fs, {"d/f": "x"})
        for call in (
            fs.write_text("d", "x"), fs.write_bytes("d/", b"x"), fs.append("d", "x"),
            fs.write_stream("d", [b"x"]), fs.write_json("d", 1), fs.copy("d/f", "d"),
        ):  # fmt: skip
            with pytest.raises(bailiwick.BailiwickError) as refused:
                await call
            assert refused.value.kind in ("is_a_directory", "file_already_exists")
        assert await snapshot(fs) == {"d": None, "d/f": b"x"}


@pytest.mark.spec("LINK-2")
async def test_every_verb_goes_through_a_linked_directory_alike(opening):
    """There reading gives nothing, listing is empty, writing is refused or not by the verb."""
    async with opening() as fs:
        await plant(fs, {"real/f": "x", "link": "-> real"})
        assert (await fs.read_text("link/f")).path == "real/f"
        assert [entry.name for entry in (await fs.list("link")).entries] == ["f"]
        assert (await fs.write_text("link/new", "y")).path == "real/new"
        assert (await fs.make_dir("link/sub")).path == "real/sub"
        assert (await fs.make_dir("link/a/b", parents=True)).path == "real/a/b"
        assert (await fs.copy("link/f", "link/g")).destination == "real/g"
        assert (await fs.move("link/g", "link/h")).destination == "real/h"
        assert (await fs.remove("link/h")).path == "real/h"
        assert (await fs.files("link")).paths == ["real/f", "real/new"]


@pytest.mark.spec("WRITE-3")
async def test_overwriting_keeps_the_executable_bit(opening):
    """There it is dropped."""
    async with opening() as fs:
        await fs.write_text("run.sh", "#!/bin/sh\n", file_mode=0o755)
        await fs.write_text("run.sh", "#!/bin/sh\necho\n")
        await fs.edit("run.sh", old="echo", new="true")
        await fs.append("run.sh", "false\n")
        assert (await fs.stat("run.sh")).mode == 0o755


@pytest.mark.spec("PATH-3")
async def test_names_have_a_limit(opening):
    """There they have none, and cannot be exported."""
    async with opening() as fs:
        await fs.write_text("n" * 255, "x")
        for path in ("n" * 256, "ä" * 128, "d/" * 257 + "f", "a/" * 2048 + "f"):
            with pytest.raises(bailiwick.ParseError):
                await fs.write_text(path, "x", parents=True)


@pytest.mark.spec("TREE-2")
async def test_a_copy_has_the_same_bytes(opening):
    """There text becomes base64."""
    async with opening() as fs:
        await plant(fs, {"t": "text\n", "b": b"\0\xff"})
        await fs.copy("t", "t2")
        await fs.copy("b", "b2")
        tree = await snapshot(fs)
        assert (tree["t2"], tree["b2"]) == (b"text\n", b"\0\xff")


@pytest.mark.spec("TREE-2", "ERR-5")
async def test_modes_and_times_that_are_set_are_set(opening):
    """There the capabilities say so, and nothing happens."""
    async with opening() as fs:
        await fs.write_text("f", "x")
        await fs.set_mode("f", 0o741)
        await fs.set_times("f", 10**18)
        stat = await fs.stat("f")
        assert (stat.mode, stat.mtime_ns) == (0o741, 10**18)


@pytest.mark.spec("GREP-1", "ERR-5")
async def test_an_include_pattern_is_not_accepted_and_ignored(opening):
    """There it is."""
    async with opening() as fs:
        await plant(fs, {"a.py": "x", "b.md": "x"})
        assert [match.path for match in (await fs.grep("x", include="*.py")).matches] == ["a.py"]
        assert [match.path for match in (await fs.grep("x", exclude="*.py")).matches] == ["b.md"]


@pytest.mark.spec("ERR-5")
def test_an_option_nobody_knows_is_not_accepted_and_ignored():
    """There a list of allowed paths is taken, and every path is allowed."""
    with pytest.raises(bailiwick.ParseError):
        bailiwick.open("memory:", allowed_paths=["src/**"])


@pytest.mark.spec("TREE-5")
async def test_a_negated_set_does_not_match_what_it_names(opening):
    """There `[!a]` matches "a"."""
    async with opening() as fs:
        await plant(fs, {"a": "", "b": "", "!": ""})
        assert (await fs.glob("[!a]")).paths == ["!", "b"]


@pytest.mark.spec("TREE-5")
async def test_wildcards_stand_in_braces(opening):
    """There `{*.ts,*.md}` throws."""
    async with opening() as fs:
        await plant(fs, {"a.ts": "", "b.md": "", "c.py": ""})
        assert (await fs.glob("{*.ts,*.md}")).paths == ["a.ts", "b.md"]


@pytest.mark.spec("TREE-5")
async def test_empty_finds_no_full_directories(opening):
    """There every directory counts as empty."""
    async with opening() as fs:
        await plant(fs, {"full/f": "x", "empty": None})
        assert (await fs.find(type="directory", empty=True)).paths == ["empty"]
        assert (await fs.find(type="directory", empty=False)).paths == ["full"]


@pytest.mark.spec("GREP-3")
async def test_no_pattern_takes_exponential_time(opening):
    """There one took 8 seconds on a file of 28 bytes; the test's own time limit would tell."""
    async with opening() as fs:
        await fs.write_text("f", "a" * 5_000 + "!")
        assert (await fs.grep("^(a+)+$")).matches == []
        assert (await fs.grep("(a|a)*b")).matches == []


@pytest.mark.spec("GREP-3")
async def test_a_binary_file_gives_no_endless_line(opening):
    """There it gives one of 4 MiB."""
    async with opening() as fs:
        await plant(fs, {"bin": b"needle\0" + b"x" * 100_000, "min.js": "needle" + "x" * 100_000})
        result = await fs.grep("needle")
        assert result.skipped_binary_paths == ["bin"]
        (match,) = result.matches
        assert match.line_truncated
        assert len(match.text) <= 4_000


@pytest.mark.spec("TREE-7")
async def test_a_listing_that_is_cut_says_so(opening):
    """There it ends at 1,000 entries without a sign."""
    async with opening(limits=bailiwick.Limits(list_page_max=10)) as fs:
        for number in range(11):
            await fs.write_bytes(f"{number:02}", b"")
        page = await fs.list()
        assert (len(page.entries), page.truncated) == (10, True)
        rest = await fs.list(cursor=page.next_cursor)
        assert ([entry.name for entry in rest.entries], rest.truncated) == (["10"], False)


@pytest.mark.spec("TREE-2")
async def test_removing_is_not_recursive_by_default(opening):
    """There it is."""
    async with opening() as fs:
        await plant(fs, {"d/f": "x"})
        with pytest.raises(bailiwick.DirectoryNotEmpty):
            await fs.remove("d")
        assert await snapshot(fs) == {"d": None, "d/f": b"x"}


@pytest.mark.spec("EVENT-2")
async def test_a_listeners_exception_does_not_reach_the_caller(opening):
    """There the write is committed, and its caller gets the listener's exception."""
    async with opening() as fs:

        def failing(change):
            raise RuntimeError

        fs._pipeline.changes.subscribe(failing)
        assert (await fs.write_text("f", "x")).created
