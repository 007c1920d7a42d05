"""Places joined under one tree, by `bailiwick.open` and in a configuration."""

import asyncio
import os
import re

import pytest

import bailiwick
from bailiwick.errors import (
    BailiwickError,
    ParseError,
    PathNotFound,
    PolicyDenied,
    ReadOnly,
    RootNotFound,
    Unsupported,
)
from bailiwick.state.ledger.query import LedgerFilter
from bailiwick.stores.memory import MemoryStore
from tests.waiting import until

pytestmark = pytest.mark.spec("OVER-2")

AGENT = bailiwick.AgentRun("talk", "1")


def places(tmp_path, **more):
    (tmp_path / "docs").mkdir(exist_ok=True)
    (tmp_path / "docs/a.txt").write_text("one\n")
    return {
        "mounts": {
            "docs": tmp_path / "docs",
            "notes": f"sqlite:{tmp_path / 'notes.db'}",
            "scratch": "memory:",
            **more,
        },
        "state_dir": str(tmp_path / "state"),
    }


async def test_directories_volumes_and_memory_are_one_tree(tmp_path):
    async with bailiwick.open("mounts:", **places(tmp_path)) as fs:
        await fs.write_text("notes/n.md", "two\n")
        await fs.write_text("scratch/s.md", "three\n")
        await fs.write_text("docs/b.txt", "four\n")
        assert (await fs.files(".")).paths == [
            "docs/a.txt", "docs/b.txt", "notes/n.md", "scratch/s.md",
        ]  # fmt: skip
        assert (await fs.copy("docs", "notes/docs", recursive=True)).count == 3
    assert (tmp_path / "docs/b.txt").read_text() == "four\n"
    async with bailiwick.open(f"sqlite:{tmp_path / 'notes.db'}") as fs:
        assert (await fs.files(".")).paths == ["docs/a.txt", "docs/b.txt", "n.md"]


def test_blocking_code_has_the_same(tmp_path):
    with bailiwick.open_sync("mounts:", **places(tmp_path)) as fs:
        fs.write_text("notes/n.md", "two\n")
        assert fs.read_text("/docs/a.txt").text == "one\n"
        assert fs.files(".").paths == ["docs/a.txt", "notes/n.md"]


async def test_a_mount_keeps_its_own_past(tmp_path):
    async with bailiwick.open("mounts:", **places(tmp_path), history="on") as fs:
        for mount in ("docs", "notes"):
            path = f"{mount}/f"
            first = await fs.write_text(path, "first\n")
            second = await fs.write_text(path, "second\n")
            versions = (await fs.history(path)).versions
            assert [each.request_id for each in versions] == [
                second.request_id, first.request_id,
            ]  # fmt: skip
            assert {str(each.path) for each in versions} == {path}
            earlier = versions[1].version
            assert (await fs.read_text(path, as_of=earlier)).text == "first\n"
            assert (await fs.undo(second.request_id)).undone == [path]
            assert (await fs.read_text(path)).text == "first\n"
            assert (await fs.restore(path, versions[0].version)).changed == 1
            assert (await fs.read_text(path)).text == "second\n"
            told = {str(each.path) for each in (await fs.history(mount)).versions}
            assert path in told
        with pytest.raises(Unsupported):
            await fs.history("scratch/f")
        with pytest.raises(Unsupported):
            await fs.history(".")
        with pytest.raises(Unsupported):
            await fs.undo(version="1", through="2")


async def test_a_request_is_undone_in_every_mount_that_it_changed(tmp_path):
    async with bailiwick.open("mounts:", **places(tmp_path), history="on") as fs:
        work = fs.with_request("one-request")
        await work.write_text("docs/a.txt", "changed\n")
        await work.write_text("notes/new", "made\n")
        await work.write_text("scratch/new", "made\n")
        seen = await fs.undo("one-request", preview=True)
        assert sorted(map(str, seen.undone)) == ["docs/a.txt", "notes/new"]
        done = await fs.undo("one-request")
        assert sorted(map(str, done.undone)) == ["docs/a.txt", "notes/new"]
        assert (await fs.read_text("docs/a.txt")).text == "one\n"
        assert (await fs.files(".")).paths == ["docs/a.txt", "scratch/new"]
        with pytest.raises(PathNotFound):
            await fs.undo("never-made")


async def test_what_cannot_be_done_over_several_mounts_is_refused(tmp_path):
    async with bailiwick.open("mounts:", **places(tmp_path)) as fs:
        with pytest.raises(Unsupported):
            async with fs.transaction():
                pass
        for act in (
            lambda: fs.fork("f"),
            lambda: fs.snapshot("s"),
            lambda: fs.exec(["true"]).result(),
        ):
            with pytest.raises(Unsupported):
                await act()
        with pytest.raises(Unsupported):
            async with fs.lock("notes/n"):
                pass


async def test_changes_of_all_mounts_are_told_by_their_names_in_the_tree(tmp_path):
    given = places(tmp_path)
    told = []
    async with bailiwick.open("mounts:", **given) as fs:
        wanted = {"docs/own", "notes/own", "scratch/own", "docs/foreign", "notes/foreign"}
        end = await fs.on_change(told.append)
        try:
            for mount in ("docs", "notes", "scratch"):
                await fs.write_text(f"{mount}/own", "x")
            (tmp_path / "docs/foreign").write_text("x")
            async with bailiwick.open(f"sqlite:{tmp_path / 'notes.db'}") as other:
                await other.write_text("foreign", "x")
            await until(lambda: wanted <= {str(each.path) for each in told})
            await fs.write_text("scratch/last", "x")
        finally:
            end()
    created = [str(each.path) for each in told if each.kind == "created"]
    assert sorted(created) == sorted([*wanted, "scratch/last"]), "each once"
    assert {each.subject for each in told if str(each.path).endswith("own")} == {"user:local"}


@pytest.mark.spec("EVENT-1")
@pytest.mark.parametrize("mount", ["docs", "notes", "scratch"])
async def test_a_directory_that_several_find_missing_is_told_once(tmp_path, mount):
    told = []
    async with bailiwick.open("mounts:", **places(tmp_path)) as fs:
        end = await fs.on_change(told.append)
        places_in = [f"{mount}/new/deep/{number}" for number in range(8)]
        writes = [fs.write_text(place, "x", parents=True) for place in places_in]
        made = [fs.make_dir(f"{mount}/new/deep", parents=True) for _ in range(3)]
        await asyncio.gather(*writes, *made)
        await fs.write_text(f"{mount}/last", "x")
        await until(lambda: f"{mount}/last" in {str(each.path) for each in told})
        end()
    created = [str(each.path) for each in told if each.kind == "created"]
    assert sorted(created) == sorted(
        [f"{mount}/new", f"{mount}/new/deep", *places_in, f"{mount}/last"]
    )


@pytest.mark.parametrize(
    ("mounts", "words"),
    [
        (None, "mounts are places"),
        ({}, "mounts are places"),
        ({".": "memory:"}, "root itself"),
        ({"a": "memory:", "a/b": "memory:"}, "lie in each other"),
        ({"a": "memory:", "/a": "memory:"}, "lie in each other"),
        ({"a": "memory:", "./a": "memory:"}, "plain path"),
        ({"a/../b": "memory:"}, "plain path"),
        ({"a//b": "memory:"}, "plain path"),
        ({"a/": "memory:"}, "plain path"),
        ({"a\nb": "memory:"}, "control characters"),
        ({"a\0b": "memory:"}, "NUL"),
        ({".bailiwick~a": "memory:"}, "reserved"),
        ({"a" * 256: "memory:"}, "too long"),
        ({"a/" * 300 + "a": "memory:"}, "deep"),
        ({7: "memory:"}, "a path is text"),
        ({"a": "HERE", "b": "overlay:HERE/sub"}, "the same place"),
        ({"a": "sqlite:HERE.db", "b": "overlay:sqlite:HERE.db"}, "the same place"),
        ({"a": "overlay:overlay:HERE"}, "overlay lies over"),
        ({"a": "s3://data/x", "b": "s3://data/x/y"}, "the same place"),
        ({"../a": "memory:"}, "root"),
        ({"a": {"place": "memory:", "mode": "ro"}}, "read-write or read-only"),
        ({"a": {"place": "memory:", "modus": 1}}, "no 'modus'"),
        ({"a": {"mode": "read-only"}}, "a place is"),
        ({"a": "HERE", "b": "HERE/sub"}, "the same place"),
        ({"a": "HERE", "b": "LINK"}, "the same place"),
        ({"a": "sqlite:HERE.db", "b": "sqlite:HERE.db?volume=main"}, "the same place"),
    ],
)
def test_mounts_that_make_no_sense_are_refused(mounts, words, tmp_path):
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    os.symlink(here, tmp_path / "link")

    def spelled(place):
        if not isinstance(place, str):
            return place
        return place.replace("HERE", str(here)).replace("LINK", str(tmp_path / "link"))

    given = mounts and {name: spelled(place) for name, place in mounts.items()}
    with pytest.raises((ParseError, BailiwickError), match=re.escape(words)):
        bailiwick.open("mounts:", mounts=given)


async def test_what_is_not_mounted_is_named(tmp_path):
    with pytest.raises(ParseError, match="only a tree of mounts"):
        bailiwick.open("memory:", mounts={"a": "memory:"})
    with pytest.raises(Unsupported, match="tree of mounts"):
        bailiwick.open("mounts:", mounts={"a": "mounts:"})
    with pytest.raises(Unsupported, match="to be read"):
        bailiwick.open("mounts:", mounts={"a": {"place": "s3://data", "mode": "read-write"}})
    with pytest.raises(Unsupported, match="durability"):
        async with bailiwick.open("mounts:", mounts={"a": "memory:"}, durability="rename"):
            pass
    with pytest.raises(Unsupported, match="commands"):
        async with bailiwick.open(
            "mounts:", mounts={"a": "memory:"}, commands=bailiwick.HostShare()
        ):
            pass
    same = MemoryStore()
    with pytest.raises(ParseError, match="the same place"):
        bailiwick.open("mounts:", mounts={"a": same, "b": same})


async def test_nothing_of_a_mount_is_read_before_somebody_asks(tmp_path):
    """Neither opening nor listing what is mounted looks into a mount."""

    class Noting(MemoryStore):
        asked = 0

        async def resolve(self, *args, **kwargs):
            Noting.asked += 1
            return await super().resolve(*args, **kwargs)

    async with bailiwick.open("mounts:", mounts={"far": Noting(), "near": "memory:"}) as fs:
        await fs.list(".", include_ignored=True)
        await fs.write_text("near/f", "x")
        assert (await fs.read_text("near/f")).text == "x"
        before = Noting.asked
        await fs.list("near")
        await fs.stat("near/f")
        assert Noting.asked == before == 0
        await fs.list("far")
        assert Noting.asked > 0


async def test_a_mount_that_cannot_be_opened_leaves_nothing_open(tmp_path):
    given = places(tmp_path, gone=tmp_path / "gone")
    with pytest.raises((RootNotFound, PathNotFound)):
        async with bailiwick.open("mounts:", **given):
            pass


CONFIG = """
[[root]]
kind = "workspace"
id = "all"
trusted = true
mounts = {docs = {place = "docs", mode = "read-only"}, notes = "sqlite:notes.db", tmp = "memory:"}

[[grant]]
subject = "agent_run:talk/1"
root = "workspace:all"
access = ["read", "write", "list", "metadata", "watch", "delete"]

[[rule]]
effect = "hide"
path = ["notes/secret/**", "notes/secret"]
subject = ["agent_run:*"]
"""


def configured(tmp_path, text=CONFIG):
    places(tmp_path)
    file = tmp_path / "bailiwick.toml"
    file.write_text(text)
    return bailiwick.Authority.from_config(str(file), str(tmp_path / "state"))


async def test_a_root_of_mounts_in_a_configuration(tmp_path):
    async with configured(tmp_path) as authority:
        fs = await authority.request_root(
            AGENT, "workspace:all", {"read", "write", "list", "metadata"}, "test"
        )
        written = await fs.write_text("notes/n.md", "x")
        assert written.path == "notes/n.md"
        with pytest.raises(ReadOnly):
            await fs.write_text("docs/a.txt", "x")
        assert (await fs.files(".")).paths == ["docs/a.txt", "notes/n.md"]
        with pytest.raises((Unsupported, BailiwickError)):
            await fs.exec(["true"]).result()
        await authority.ledger.flush()
        page = await authority.ledger.query(LedgerFilter(root="workspace:all"), limit=100)
        records = [each for each in reversed(page.records) if each.operation == "write"]
        assert [(each.path, each.error_kind) for each in records] == [
            ("notes/n.md", None), ("docs/a.txt", "read_only"),
        ]  # fmt: skip


async def test_what_is_hidden_in_a_mount_is_not_told_by_way_of_its_links(tmp_path):
    """Where a link leads is gone again before its failing tells anything, from where its mount
    begins."""
    places(tmp_path)
    async with bailiwick.open(f"sqlite:{tmp_path / 'notes.db'}") as fs:
        await fs.write_text("secret/file", "x", parents=True)
        await fs.symlink("to-file", "/secret/file/beneath")
        await fs.symlink("to-nothing", "/secret/nothing/beneath")
    async with configured(tmp_path) as authority:
        fs = await authority.request_root(AGENT, "workspace:all", {"read", "write"}, "test")
        told = []
        for path in ("notes/to-file", "notes/to-nothing"):
            with pytest.raises(BailiwickError) as caught:
                await fs.read_bytes(path)
            told.append((caught.value.kind, caught.value.message))
        assert told[0] == told[1]
        with pytest.raises(PathNotFound):
            await fs.read_bytes("notes/secret/file")
        with pytest.raises(PolicyDenied):
            await fs.write_bytes("notes/secret/new", b"x")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mounts = {}", "has some"),
        ('mounts = {a = "memory:", "a/b" = "memory:"}', "lie in each other"),
        ('mounts = {a = {place = "memory:", mode = "ro"}}', "mode"),
        ('mounts = {a = {mode = "read-only"}}', "place"),
        ('mounts = {a = "sqlite:x.db?volum=1"}', "volum"),
        ('mounts = {a = "overlay:overlay:docs"}', "overlay of an overlay"),
        ('mounts = {a = "overlay:"}', "lies over a directory"),
        ('mounts = {a = "overlay:s3://data"}', "lies over a directory"),
        ('mounts = {a = "mounts:"}', "tree of mounts"),
        ('mounts = {a = {place = "s3://data", mode = "read-write"}}', "to be read"),
        ('mounts = {"a/../b" = "memory:"}', "plain path"),
        ('mounts = {a = "memory:", A = "memory:"}\nnames = "portable"', "differ only"),
        ('mounts = {con = "memory:"}\nnames = "portable"', "device name"),
        ('mounts = {a = "memory:"}\nexec = {network = "none"}', "exec"),
        ('mounts = {a = "memory:"}\ndurability = "rename"', "durability"),
        ('mounts = {a = "memory:"}\nmemory = true', "one place"),
        ('mounts = {a = "docs", b = "docs"}', "same place"),
    ],
)
async def test_a_mistake_in_a_configuration_is_named(line, words, tmp_path):
    text = f'[[root]]\nkind = "workspace"\nid = "all"\n{line}\n'
    with pytest.raises((ParseError, Unsupported), match=words):
        async with configured(tmp_path, text):
            pass


async def test_no_directory_is_reached_by_a_root_and_a_mount(tmp_path):
    other = '[[root]]\nkind = "workspace"\nid = "docs"\npath = "docs"\n'
    with pytest.raises(ParseError, match="overlap"):
        async with configured(tmp_path, CONFIG + other):
            pass
    other = '[[root]]\nkind = "workspace"\nid = "notes"\nvolume = "sqlite:notes.db"\n'
    with pytest.raises(ParseError, match="same branch"):
        async with configured(tmp_path, CONFIG + other):
            pass


async def test_names_that_other_systems_take_for_one(tmp_path):
    for mounts in ({"Docs": "memory:", "docs": "memory:"}, {"T/a": "memory:", "t/b": "memory:"}):
        async with bailiwick.open("mounts:", mounts=mounts) as fs:
            assert len((await fs.list(".")).entries) == 2
        with pytest.raises(ParseError, match="differ only"):
            async with bailiwick.open("mounts:", mounts=mounts, names="portable"):
                pass


@pytest.mark.spec("OVER-1")
@pytest.mark.parametrize("over", ["directory", "volume", "memory"])
async def test_an_overlay_is_mounted_and_touches_nothing_below(over, tmp_path):
    (tmp_path / "tree").mkdir()
    places = {"directory": tmp_path / "tree", "volume": f"sqlite:{tmp_path}/t.db", "memory": None}
    below, state = places[over], str(tmp_path / "state")
    if below is not None:
        async with bailiwick.open(below, state_dir=state) as fs:
            await fs.write_text("a.txt", "old\n")
    mounts = {"work": f"overlay:{below or 'memory:'}", "own": "memory:"}
    async with bailiwick.open("mounts:", mounts=mounts, state_dir=state) as fs:
        await fs.write_text("work/a.txt", "new\n")
        await fs.copy("work/a.txt", "own/a.txt")
        await fs.copy("own", "work/all", recursive=True)
        assert (await fs.files("work")).paths == ["work/a.txt", "work/all/a.txt"]
        with pytest.raises(Unsupported):
            await fs.changes()
    if below is None:
        assert not list((tmp_path / "state" / "passing").iterdir())
        return
    async with bailiwick.open(below, state_dir=state) as fs:
        assert (await fs.read_text("a.txt")).text == "old\n"
        (left,) = await fs.work()
        async with await fs.open_work(left.id) as work:
            await work.apply()
        assert (await fs.files(".")).paths == ["a.txt", "all/a.txt"]
        assert await fs.work() == []


async def test_an_overlay_in_a_configuration(tmp_path):
    text = CONFIG.replace('{place = "docs", mode = "read-only"}', '"overlay:docs"')
    async with configured(tmp_path, text) as authority:
        fs = await authority.request_root(AGENT, "workspace:all", {"read", "write"}, "test")
        await fs.write_text("docs/a.txt", "new\n")
    assert (tmp_path / "docs/a.txt").read_text() == "one\n"
    async with configured(tmp_path, text) as authority:
        fs = await authority.request_root(AGENT, "workspace:all", {"read", "write"}, "test")
        assert (await fs.read_text("docs/a.txt")).text == "new\n"
