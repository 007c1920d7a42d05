"""A narrowed store is the same tree, stricter: it keeps the whole contract, and its own end."""

import asyncio
import os

import pytest

from bailiwick.errors import Closed, HardlinkRefused, ParseError, SymlinkEscape
from bailiwick.paths import ScopedPath
from bailiwick.store import Narrows
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing.driver import StoreDriver
from bailiwick.testing.store_contract import CASES, DIFFERENCES, failure_of
from tests.stores.trees import KINDS, cases_of, litter, make_kind

pytestmark = pytest.mark.spec("LINK-1", "LINK-4")


class NarrowedDriver(StoreDriver):
    """Speaks to a view of a store, and closes the store with it."""

    def __init__(self, whole, symlinks):
        super().__init__(whole.store.narrowed(symlinks=symlinks))
        self._whole = whole

    async def aclose(self):
        await super().aclose()
        await self._whole.aclose()


def make_narrowed(kind, tmp_path):
    make_whole = make_kind(kind, tmp_path)

    async def make(*, symlinks="in-root", plant=None):
        return NarrowedDriver(await make_whole(symlinks="in-root", plant=plant), symlinks)

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", cases_of(CASES))
async def test_a_narrowed_store_keeps_the_contract(case, kind, tmp_path):
    make = make_narrowed(kind, tmp_path)
    if case.name in DIFFERENCES[kind.partition("-")[0]]:
        assert await failure_of(case, make), "declared as different, but it holds"
    else:
        await case.run(make)
    assert litter(tmp_path) == []


@pytest.fixture(params=KINDS)
def make(request, tmp_path):
    return make_kind(request.param, tmp_path)


async def test_it_is_the_same_tree(make):
    whole = await make()
    view = StoreDriver(whole.store.narrowed(symlinks="reject"))
    await whole.write("a", b"1")
    assert await view.read("a") == b"1"
    await view.write("b", b"2")
    assert await whole.read("b") == b"2"
    assert isinstance(whole.store, Narrows)
    assert "Narrows" in whole.store.powers
    assert whole.store.shares_tree(view.store)
    assert view.store.shares_tree(whole.store)
    other = await make()
    assert not whole.store.shares_tree(other.store)
    assert not whole.store.shares_tree(MemoryStore())
    await other.aclose()
    await view.aclose()
    await whole.aclose()


async def test_links_are_followed_in_one_view_and_not_in_the_other(make):
    whole = await make()
    view = StoreDriver(whole.store.narrowed(symlinks="reject"))
    await whole.write("d/f", b"x", parents=True)
    await whole.symlink("l", "d")
    assert await whole.read("l/f") == b"x"
    for verb in (view.read("l/f"), view.write("l/g", b""), view.symlink("m", "d")):
        with pytest.raises(SymlinkEscape):
            await verb
    assert view.store.description["symlinks"] == "reject"
    assert whole.store.description["symlinks"] == "in-root"
    await view.aclose()
    await whole.aclose()


async def test_never_looser(make):
    strict = await make(symlinks="reject")
    view = StoreDriver(strict.store.narrowed(symlinks="in-root", hardlinks="allow"))
    assert view.store.description["symlinks"] == "reject"
    twice = StoreDriver(view.store.narrowed())
    assert twice.store.description["symlinks"] == "reject"
    for driver in (twice, view, strict):
        with pytest.raises(SymlinkEscape):
            await driver.symlink("l", "x")
        await driver.aclose()


async def test_a_view_of_a_view(make):
    whole = await make()
    view = whole.store.narrowed(hardlinks="reject")
    inner = StoreDriver(view.narrowed(symlinks="reject"))
    await whole.write("a", b"1")
    assert await inner.read("a") == b"1"
    if "hardlinks" in inner.store.description:
        assert inner.store.description["hardlinks"] == "reject"
    await view.aclose()
    with pytest.raises(Closed):
        await inner.read("a")
    await inner.aclose()
    assert await whole.read("a") == b"1"
    await whole.aclose()


async def test_closing_a_view_closes_the_view_alone(make):
    whole = await make()
    view = StoreDriver(whole.store.narrowed())
    await view.write("a", b"1")
    await view.aclose()
    await view.aclose()
    for verb in (view.read("a"), view.write("b", b""), view.remove("a", recursive=True)):
        with pytest.raises(Closed):
            await verb
    assert await whole.read("a") == b"1"
    await whole.write("b", b"2")
    await whole.aclose()


async def test_closing_the_store_closes_its_views(make):
    whole = await make()
    view = StoreDriver(whole.store.narrowed())
    await view.write("a", b"1")
    await whole.aclose()
    for verb in (view.read("a"), view.write("b", b"")):
        with pytest.raises(Closed):
            await verb
    await view.aclose()


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_hard_links(kind, tmp_path):
    whole = await make_kind(kind, tmp_path)()
    await whole.write("a", b"1")
    (tree,) = (path for path in tmp_path.rglob("tree") if path.is_dir())
    os.link(tree / "a", tree / "b")
    view = StoreDriver(whole.store.narrowed(hardlinks="reject"))
    assert await whole.read("b") == b"1"
    with pytest.raises(HardlinkRefused):
        await view.read("b")
    with pytest.raises(HardlinkRefused):
        await view.write("b", b"2")
    for setting in ("symlinks", "hardlinks"):
        with pytest.raises(ParseError):
            whole.store.narrowed(**{setting: "perhaps"})
    await view.aclose()
    await whole.aclose()


async def test_appends_of_both_lose_nothing(make):
    """The same turns and locks: two views are no two stores."""
    whole = await make()
    view = StoreDriver(whole.store.narrowed(symlinks="reject"))
    appends = [driver.append("a", b"x") for driver in (whole, view) for _ in range(40)]
    await asyncio.gather(*appends)
    assert await whole.read("a") == b"x" * 80
    await view.aclose()
    await whole.aclose()


async def test_closing_waits_for_work_of_a_view(make):
    whole = await make()
    view = StoreDriver(whole.store.narrowed())

    async def chunks():
        for _ in range(3):
            yield b"x" * 300_000
            await asyncio.sleep(0)

    handle = await view.store.resolve(ScopedPath("a"), "entry")
    task = asyncio.ensure_future(view.write_stream("a", chunks()))
    await asyncio.sleep(0)
    await whole.aclose()
    await asyncio.gather(task, return_exceptions=True)
    handle.close()
    await view.aclose()
