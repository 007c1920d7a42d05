"""find, files and glob page by page: the same as at once, whatever comes and goes meanwhile."""

import base64
import json
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import bailiwick
from bailiwick.limits import Limits
from tests.scope.support import Opener, granted, plant
from tests.scope.test_reads import SHARED_TMP

TREE = {
    ".gitignore": "*.log\nbuild/\n", "a": "1", "a.txt": "22", "a b/c": "3",
    "b/.gitignore": "!z.log", "b/y.txt": "", "b/z.log": "4", "b/z/deep/one.txt": "5",
    "b/z/deep/two.txt": "6", "b.txt": "7",
    "build/out.txt": "8", "c/empty.txt": "", "é/ä.txt": "9", "z.log": "0",
}  # fmt: skip

SEARCHES = {
    "find": lambda fs, **more: fs.find(**more),
    "find-named": lambda fs, **more: fs.find(".", "*.txt", **more),
    "find-empty": lambda fs, **more: fs.find(empty=True, **more),
    "find-below": lambda fs, **more: fs.find("b", type="file", **more),
    "files": lambda fs, **more: fs.files(**more),
    "files-all": lambda fs, **more: fs.files("b", include_ignored=True, **more),
    "glob": lambda fs, **more: fs.glob("**/*.txt", **more),
    "glob-level": lambda fs, **more: fs.glob("*", include_ignored=True, **more),
}


async def pages(search, fs, limit):
    found = await search(fs, limit=limit)
    yield found
    while found.next_cursor is not None:
        assert found.truncated
        found = await search(fs, limit=limit, cursor=found.next_cursor)
        yield found
    assert not found.truncated


@pytest.mark.spec("TREE-5", "TREE-7")
@pytest.mark.parametrize("name", SEARCHES)
async def test_pages_joined_are_the_whole_answer(opening, name):
    search = SEARCHES[name]
    async with opening() as fs:
        await plant(fs, TREE)
        whole = (await search(fs)).matches
        assert whole
        for limit in (1, 2, 3, 100):
            joined = []
            async for found in pages(search, fs, limit):
                assert len(found.matches) <= limit
                joined += found.matches
            assert joined == whole


@pytest.mark.spec("TREE-5", "VOL-2")
@pytest.mark.parametrize("name", SEARCHES)
async def test_a_volume_and_what_was_there_are_found_page_by_page_too(tmp_path, name):
    search = SEARCHES[name]
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await plant(fs, TREE)
        await fs.snapshot("then")
        whole = (await search(fs)).matches
        await fs.remove("b", recursive=True)

        def before(fs, **more):
            return search(fs, as_of="then", **more)

        joined = [each async for found in pages(before, fs, 2) for each in found.matches]
        assert joined == whole


@pytest.mark.spec("TREE-5")
async def test_the_first_page_says_how_many_are_left_out_and_the_next_that_there_are(opening):
    async with opening() as fs:
        await plant(fs, {f"d/{number:02}": "" for number in range(20)})
        first = await fs.files(limit=5)
        assert (first.omitted, len(first.matches)) == (15, 5)
        assert "15" in first.reason
        second = await fs.files(limit=5, cursor=first.next_cursor)
        assert (second.omitted, second.truncated) == (1, True)
        assert second.visited < 15


@pytest.mark.spec("TREE-5")
@settings(max_examples=60, suppress_health_check=SHARED_TMP)
@given(data=st.data())
async def test_what_is_there_all_the_time_is_found_once(tmp_path, data):
    """Between two pages anything may come or go, directories and what the cursor names too."""
    names = st.lists(st.sampled_from(["a", "a b", "b", "b.txt", "c"]), min_size=1, max_size=3)
    paths = names.map("/".join)
    async with Opener("memory", tmp_path)() as fs:
        for path in data.draw(st.lists(paths, max_size=12)):
            await _make(fs, path)
        there = set(await _files(fs))
        ever, seen, found = set(there), [], await fs.files(limit=2)
        while True:
            seen += found.paths
            if found.next_cursor is None:
                break
            for path in data.draw(st.lists(paths, max_size=2)):
                await _make(fs, path)
            for path in data.draw(st.lists(paths, max_size=2)):
                if await fs.exists(path):
                    await fs.remove(path, recursive=True)
            now = await _files(fs)
            ever |= now
            there &= now
            found = await fs.files(limit=2, cursor=found.next_cursor)
        assert len(seen) == len(set(seen))
        assert seen == sorted(seen, key=lambda path: path.parts)
        assert there <= set(map(str, seen)) <= ever


async def _make(fs, path):
    taken = bailiwick.NotADirectory, bailiwick.IsADirectory, bailiwick.FileAlreadyExists
    with suppress(*taken):
        await fs.write_text(path, "x", parents=True)


async def _files(fs):
    return set(map(str, (await fs.files()).paths))


@pytest.mark.spec("TREE-5", "TREE-7")
async def test_a_walk_that_was_stopped_is_gone_on_with(opening):
    async with opening(limits=Limits(walk_entries_max=7)) as fs:
        await plant(fs, {f"{letter}/{number}": "" for letter in "abcdef" for number in range(4)})
        for search in (
            lambda fs, **more: fs.files(**more),
            lambda fs, **more: fs.glob("f/3", **more),
        ):
            joined, count = [], 0
            async for found in pages(search, fs, None):
                joined += found.paths
                count += 1
            assert joined[-1] == "f/3"
            assert count > 1
        assert (await fs.find("f", "3")).paths == ["f/3"]


@pytest.mark.spec("TREE-5")
@pytest.mark.parametrize(
    "cursor",
    [
        "", "x", "é", "!!!!", base64.b64encode(b"[]").decode(), base64.b64encode(b"[1]").decode(),
        base64.b64encode(b'"a"').decode(), base64.b64encode(b"\xff").decode(),
    ],
)  # fmt: skip
async def test_a_cursor_that_nobody_gave_is_refused(either, cursor):
    async with either() as fs:
        await plant(fs, {"a": "1"})
        for search in (fs.find, fs.files):
            with pytest.raises(bailiwick.ParseError):
                await search(cursor=cursor)
        with pytest.raises(bailiwick.ParseError):
            await fs.glob("*", cursor=cursor)


@pytest.mark.spec("TREE-5", "PATH-1")
async def test_a_cursor_leads_nowhere(either):
    """It is compared with names, never looked up."""
    async with either() as fs:
        await plant(fs, {"a": "1", "z": "2"})
        for names in (["..", "..", "x"], ["/etc", "passwd"], ["b\0"], ["b", "", "."]):
            cursor = base64.urlsafe_b64encode(json.dumps(names).encode()).decode()
            found = (await fs.files(cursor=cursor)).paths
            assert found == [path for path in ("a", "z") if path > names[0]]


@pytest.mark.spec("TREE-5")
async def test_a_cursor_holds_for_whoever_sees_a_part(either):
    async with either() as fs:
        await plant(fs, {f"part/{number}": "" for number in range(6)})
        part = granted(fs, base=fs.grant.base.child("part"))
        first = await part.files(limit=2)
        second = await part.files(limit=2, cursor=first.next_cursor)
        assert (first.paths, second.paths) == (["0", "1"], ["2", "3"])
        assert "part" not in base64.urlsafe_b64decode(first.next_cursor).decode()


@pytest.mark.spec("TREE-5")
async def test_files_of_a_file_is_that_file(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        found = await fs.files("b/z/deep/one.txt")
        assert (found.paths, found.truncated) == (["b/z/deep/one.txt"], False)
        (entry,) = found.matches
        assert (entry.type, entry.size, entry.ignored) == ("file", 1, False)
        assert entry in (await fs.files("b/z")).matches
        assert [entry.ignored for entry in (await fs.files("z.log")).matches] == [True]
        assert (await fs.files("missing")).paths == []
        with pytest.raises(bailiwick.NotADirectory):
            await fs.files("a/beneath/a/file")


@pytest.mark.spec("TREE-5")
async def test_a_pattern_without_a_slash_is_for_names_to_find_and_for_this_level_to_glob(opening):
    async with opening() as fs:
        await plant(fs, TREE)
        named = (await fs.find("b", "*.txt")).paths
        assert named == ["b/y.txt", "b/z/deep/one.txt", "b/z/deep/two.txt"]
        assert (await fs.find("b", "z/*")).paths == ["b/z/deep"]
        assert (await fs.glob("*.txt", "b")).paths == ["b/y.txt"]


@pytest.mark.spec("TREE-5")
async def test_what_comes_together_is_counted_and_cut_as_if_it_came_one_by_one(opening):
    """Where ignored ones are wanted every entry comes alone, else those of a directory in rows."""
    async with opening() as fs:
        tops = ("", "a/", "a/b/", "z/")
        await plant(fs, {f"{top}{n}": "x" * (n % 2) for top in tops for n in range(5)})
        for ask in (fs.files, partial(fs.glob, "**/*"), fs.find, partial(fs.find, empty=True)):
            for limit in (1, 3, 4, 7, 100):
                cursor, pages = None, 0
                while pages == 0 or cursor is not None:
                    rows, alone = [
                        await ask(limit=limit, cursor=cursor, include_ignored=each)
                        for each in (False, True)
                    ]
                    assert structs.replace(rows, request_id="") == structs.replace(
                        alone, request_id=""
                    )
                    cursor, pages = rows.next_cursor, pages + 1
                assert pages > 1 or limit == 100
