"""A scope as a part of a tree: its own grant, rules and records hold there as anywhere."""

import os

import pytest

import bailiwick
from bailiwick.errors import (
    BailiwickError,
    Closed,
    GrantRevoked,
    MissingAccess,
    ParseError,
    PathNotFound,
    PolicyDenied,
    ReadOnly,
    SymlinkEscape,
    Unsupported,
)
from tests.authority.support import governed, rule

pytestmark = pytest.mark.spec("OVER-2")


def joined(scope, **more):
    return bailiwick.open("mounts:", mounts={"docs": scope, "own": "memory:"}, **more)


@pytest.fixture(params=["memory", "directory", "volume"])
def place(request, tmp_path):
    (tmp_path / "tree").mkdir()
    places = {
        "memory": "memory:",
        "directory": str(tmp_path / "tree"),
        "volume": f"sqlite:{tmp_path}/tree.db",
    }
    return places[request.param]


async def test_every_verb_of_the_tree_is_one_of_the_scope(place):
    async with bailiwick.open(place) as inner, joined(inner) as fs:
        written = await fs.write_text("docs/d/a.txt", "one\n", parents=True)
        assert (written.path, written.created) == ("docs/d/a.txt", True)
        await fs.append("docs/d/a.txt", "two\n")
        await fs.edit("docs/d/a.txt", [bailiwick.Edit("one", "ONE")])
        assert (await inner.read_text("d/a.txt")).text == "ONE\ntwo\n"
        await fs.write_stream("docs/b", [b"x" * 1000, b"y" * 1000])
        await fs.truncate("docs/b", 1500)
        assert b"".join([chunk async for chunk in fs.stream("docs/b", 999, 2)]) == b"xy"
        assert (await fs.copy("docs/d", "docs/e", recursive=True)).count == 2
        await fs.move("docs/d/a.txt", "docs/c.txt")
        await fs.set_mode("docs/c.txt", 0o640)
        await fs.make_dir("docs/f/g", parents=True)
        await fs.remove("docs/d")
        assert (await fs.stat("docs/c.txt")).mode & 0o777 == 0o640
        assert (await fs.files(".")).paths == ["docs/b", "docs/c.txt", "docs/e/a.txt"]
        assert [str(each.path) for each in (await fs.grep("ONE")).matches] == [
            "docs/c.txt", "docs/e/a.txt",
        ]  # fmt: skip
        assert sorted(each.name for each in (await inner.list(".")).entries) == [
            "b", "c.txt", "e", "f",
        ]  # fmt: skip
        assert (await fs.copy("docs/c.txt", "own/c.txt")).count == 1
        with pytest.raises(PathNotFound) as caught:
            await fs.read_text("docs/none")
        assert caught.value.path == "docs/none"
        with pytest.raises(bailiwick.HashMismatch):
            await fs.write_text("docs/b", "", expected_version="0")
        with pytest.raises(bailiwick.FileAlreadyExists):
            await fs.write_text("docs/b", "", mode="create")


@pytest.mark.spec("TREE-7")
async def test_what_was_not_counted_there_is_not_here(tmp_path):
    limits = bailiwick.Limits(removed_counted_max=2)
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db", limits=limits) as inner:
        for path in ("few/a", "few/b", "many/a", "many/b", "many/c"):
            await inner.write_text(path, "x", parents=True)
        async with joined(inner) as fs:
            for path, went in (("few", (3, False)), ("many", (2, True))):
                gone = await fs.remove(f"docs/{path}", recursive=True)
                assert (gone.count, gone.count_truncated) == went


async def test_a_long_listing_comes_page_by_page(place):
    async with bailiwick.open(place) as inner, joined(inner) as fs:
        async with inner.transaction() if "Branches" in inner.powers else Plainly(inner) as draft:
            for number in range(30):
                await draft.write_text(f"{number:02}", "")
        found, cursor = [], None
        while True:
            page = await fs.list("docs", limit=7, cursor=cursor)
            found += [each.name for each in page.entries]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [f"{number:02}" for number in range(30)]


class Plainly:
    def __init__(self, scope):
        self.scope = scope

    async def __aenter__(self):
        return self.scope

    async def __aexit__(self, *_):
        pass


async def test_the_scope_stays_its_owners(place):
    async with bailiwick.open(place) as inner:
        async with joined(inner) as fs:
            await fs.write_text("docs/a", "one")
        assert (await inner.read_text("a")).text == "one"
        async with joined(inner) as fs:
            assert (await fs.read_text("docs/a")).text == "one"


async def test_a_scope_that_was_closed_says_so_and_the_rest_goes_on(place):
    opening = bailiwick.open(place)
    inner = await opening.__aenter__()
    async with joined(inner) as fs:
        await fs.write_text("docs/a", "one")
        await inner.aclose()
        for attempt in (fs.read_text("docs/a"), fs.write_text("docs/a", "two"), fs.list("docs")):
            with pytest.raises(Closed):
                await attempt
        await fs.write_text("own/a", "one")
        assert {each.name for each in (await fs.list(".")).entries} == {"docs", "own"}


async def test_its_grant_and_its_rules_hold(tmp_path):
    rules = rule("hide", "secret") + rule("deny", "kept", access=["write"])
    async with governed(tmp_path, rules) as home:
        agent = await home.scope({"read", "write", "list", "metadata", "delete"})
        await home.plant({"secret": b"SECRET", "kept": b"kept", "a": b"a"})
        async with joined(agent) as fs:
            assert [each.name for each in (await fs.list("docs")).entries] == ["a", "kept"]
            with pytest.raises(PathNotFound):
                await fs.read_text("docs/secret")
            with pytest.raises(PolicyDenied):
                await fs.write_text("docs/kept", "other")
            await fs.with_request("outer-1").write_text("docs/a", "new")
            (record,) = [each for each in await home.operations() if each.request_id == "outer-1"]
            assert (record.verb, record.path, record.outcome) == ("write_bytes", "a", "success")
        reader = await home.scope({"read", "list", "metadata"})
        async with joined(reader) as fs:
            with pytest.raises(MissingAccess):
                await fs.write_text("docs/a", "other")


@pytest.mark.spec("AUTH-5")
async def test_a_grant_that_was_revoked_ends_the_mount(tmp_path):
    async with governed(tmp_path) as home:
        agent = await home.scope({"read", "write", "list", "metadata"})
        async with joined(agent) as fs:
            await fs.write_text("docs/a", "one")
            await home.authority.revoke(agent.grant.id, by="user:local")
            for attempt in (fs.read_text("docs/a"), fs.write_text("docs/a", "two")):
                with pytest.raises(GrantRevoked):
                    await attempt
            await fs.write_text("own/a", "one")


async def test_a_part_of_a_tree_to_be_read(place):
    async with bailiwick.open(place) as inner:
        await inner.write_text("part/a", "one", parents=True)
        await inner.write_text("beside", "SECRET")
        part = await inner.delegate(bailiwick.User("local"), path="part", rebase=True)
        mounts = {"docs": {"place": part, "mode": "read-only"}}
        async with bailiwick.open("mounts:", mounts=mounts) as fs:
            assert (await fs.files(".")).paths == ["docs/a"]
            assert (await fs.stat("docs/a")).read_only
            with pytest.raises(ReadOnly):
                await fs.write_text("docs/a", "two")
            with pytest.raises(BailiwickError):
                await fs.read_text("docs/../beside")


async def test_links_are_followed_to_be_found_and_never_to_be_acted_on(tmp_path):
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    (tree / "d" / "a").write_text("one")
    os.symlink("d", tree / "link")
    async with bailiwick.open(tree) as inner, joined(inner) as fs:
        assert (await fs.read_text("docs/link/a")).path == "docs/d/a"
        with pytest.raises(Unsupported):
            await fs.symlink("docs/new", "d")
        (store,) = [each.store for each in fs._pipeline.store.mounts if each.point == "docs"]
        found = await store.resolve((await inner.stat("d/a")).path, "object")
        os.rename(tree / "d", tree / "moved")
        os.symlink("moved", tree / "d")
        with pytest.raises(SymlinkEscape):
            await store.read(found, 0, 10)


async def test_what_is_mounted_twice_or_in_itself_is_refused(tmp_path):
    (tmp_path / "tree").mkdir()
    async with bailiwick.open(tmp_path / "tree") as inner, bailiwick.open("memory:") as other:
        part = await other.delegate(bailiwick.User("local"), path=".")
        for mounts in (
            {"a": inner, "b": inner},
            {"a": inner, "b": str(tmp_path / "tree")},
            {"a": f"overlay:{tmp_path}", "b": inner},
            {"a": other, "b": part},
        ):
            with pytest.raises(ParseError, match="the same place"):
                bailiwick.open("mounts:", mounts=mounts)
        async with joined(other) as tree:
            with pytest.raises(Unsupported, match="tree of mounts"):
                bailiwick.open("mounts:", mounts={"a": tree})
        with pytest.raises(ParseError, match="open_sync"):
            bailiwick.open_sync("mounts:", mounts={"a": other})


def test_blocking_code_mounts_its_own(place):
    with bailiwick.open_sync(place) as inner:
        with pytest.raises(ParseError, match="open_sync"):
            bailiwick.open("mounts:", mounts={"a": inner})
        with bailiwick.open_sync("mounts:", mounts={"docs": inner}) as fs:
            fs.write_text("docs/a", "one")
        assert inner.read_text("a").text == "one"
