"""Listing a directory: sorted, paged, complete, and no entry fails the page."""

import asyncio
import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick.limits import Limits
from tests.scope.support import Opener, Rules, hide, place_of, plant, unruled

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cc", "Cs"]),
    min_size=1, max_size=8,
).filter(
    # What names no place in a root: dots, staging names, drive letters and UNC paths.
    lambda name: not re.match(r"\.{1,2}$|\.bailiwick~|[A-Za-z]:|\\\\", name)
)  # fmt: skip


async def _pages(fs, limit, **options):
    page = await fs.list(limit=limit, **options)
    yield page
    while page.next_cursor is not None:
        page = await fs.list(cursor=page.next_cursor, limit=limit, **options)
        yield page


@pytest.mark.spec("TREE-1")
async def test_entries_are_sorted_and_described(opening):
    async with opening() as fs:
        await plant(fs, {"b.txt": "12345", "a/inner": "x", "B": "", ".dot": "", "link": "-> b.txt"})
        await fs.set_times("b.txt", 10**18)
        page = await fs.list()
        assert [entry.name for entry in page.entries] == [".dot", "B", "a", "b.txt", "link"]
        assert [entry.type for entry in page.entries] == [
            "file", "file", "directory", "file", "symlink",
        ]  # fmt: skip
        file = page.entries[3]
        assert (file.path, file.parent, file.size, file.mtime_ns) == ("b.txt", ".", 5, 10**18)
        assert (page.truncated, page.next_cursor, page.path) == (False, None, ".")
        inner = (await fs.list("a")).entries[0]
        assert (inner.path, inner.parent, inner.ignored) == ("a/inner", "a", False)


@pytest.mark.spec("TREE-1", "TREE-7")
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(names=st.sets(NAMES, max_size=20), limit=st.integers(1, 7), hidden=st.sets(NAMES))
async def test_pages_joined_are_the_whole_listing(tmp_path, names, limit, hidden):
    policy = Rules(hide(*sorted(hidden | set(sorted(names)[::3]))))
    async with Opener("memory", tmp_path)(policy=policy) as fs:
        for name in names:
            await unruled(fs).make_dir(name)
        pages = [page async for page in _pages(fs, limit, include_ignored=True)]
        joined = [entry.name for page in pages for entry in page.entries]
        assert joined == sorted(names - hidden - set(sorted(names)[::3]))
        assert all(page.truncated == (page.next_cursor is not None) for page in pages)
        assert all(len(page.entries) == limit for page in pages[:-1])


@pytest.mark.spec("TREE-1", "TREE-7")
async def test_a_page_that_is_full_says_how_to_go_on(opening):
    async with opening(limits=Limits(list_page_max=4)) as fs:
        for number in range(10):
            await fs.write_bytes(f"f{number}", b"")
        pages = [page async for page in _pages(fs, None)]
        assert [len(page.entries) for page in pages] == [4, 4, 2]
        assert [page.truncated for page in pages] == [True, True, False]
    assert Limits().list_page_max == 2_000


@pytest.mark.spec("TREE-1")
async def test_entries_made_between_two_pages_shift_nothing(opening):
    async with opening() as fs:
        for name in "bdf":
            await fs.write_bytes(name, b"")
        page = await fs.list(limit=2)
        await fs.write_bytes("a", b"")
        await fs.write_bytes("e", b"")
        await fs.remove("d")
        rest = await fs.list(cursor=page.next_cursor)
        assert [entry.name for entry in rest.entries] == ["e", "f"]


@pytest.mark.spec("TREE-1", "ERR-5")
@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": -1}, {"limit": 2_001}, {"cursor": "ä"}, {"cursor": "x"}]
)
async def test_a_page_that_cannot_be_served_is_refused(opening, options):
    async with opening() as fs:
        with pytest.raises(bailiwick.ParseError):
            await fs.list(**options)


@pytest.mark.spec("TREE-1")
async def test_a_bad_entry_never_fails_the_page(disk):
    async with disk() as fs:
        place = place_of(fs)
        await plant(fs, {"a": "x", "z": "x", "loop": "-> loop", "dangling": "-> nothing"})
        os.mkfifo(f"{place}/fifo")
        os.symlink("/etc/passwd", f"{place}/outside")
        with open(os.path.join(os.fsencode(place), b"not-text-\xff"), "w"):
            pass
        page = await fs.list()
        by_name = {entry.name: entry for entry in page.entries}
        assert list(by_name) == [
            "a", "dangling", "fifo", "loop", "not-text-\\xff", "outside", "z",
        ]  # fmt: skip
        assert by_name["fifo"].type == "other"
        assert by_name["outside"].type == "symlink"
        assert not by_name["not-text-\\xff"].addressable


@pytest.mark.spec("TREE-1", "TREE-3")
async def test_only_a_directory_is_listed(opening):
    async with opening() as fs:
        await plant(fs, {"f": "x", "d/x": "1", "link": "-> d"})
        with pytest.raises(bailiwick.NotADirectory):
            await fs.list("f")
        with pytest.raises(bailiwick.PathNotFound):
            await fs.list("missing")
        assert (await fs.list("link")).path == "d"


def _counting_looks(fs):
    """Every look into a directory from now on."""
    looks, children = [], fs._pipeline.store.children

    async def counted(*arguments, **options):
        looks.append(options)
        return await children(*arguments, **options)

    fs._pipeline.store.children = counted
    return looks


@pytest.mark.spec("TREE-1", "TREE-8")
async def test_many_ignored_entries_take_few_looks(opening):
    """A page of one beside hundreds of ignored names: not one reading of the directory for each."""
    async with opening() as fs:
        await fs.write_text(".gitignore", "*.log\n")
        for number in range(300):
            await fs.write_bytes(f"{number}.log", b"")
        await fs.write_bytes("last", b"")
        looks = _counting_looks(fs)
        pages = [page async for page in _pages(fs, 1)]
        assert [e.name for page in pages for e in page.entries] == [".gitignore", "last"]
        assert len(looks) < 25


@pytest.mark.slow
@pytest.mark.spec("TREE-1", "TREE-8")
async def test_thousands_of_ignored_entries_take_few_looks_and_let_others_work(tmp_path):
    """Each look reads the whole directory, so what is asked for grows beyond a page."""
    async with Opener("memory", tmp_path)(limits=Limits(list_page_max=10)) as fs:
        await fs.write_text(".gitignore", "*.log\n")
        for number in range(9_000):
            await fs.write_bytes(f"{number}.log", b"")
        await fs.write_bytes("last", b"")
        looks = _counting_looks(fs)
        listing = asyncio.create_task(fs.list())
        turns = 0
        while not listing.done():
            await asyncio.sleep(0)
            turns += 1
        assert [entry.name for entry in (await listing).entries] == [".gitignore", "last"]
        assert len(looks) <= 7
        assert turns >= 4
