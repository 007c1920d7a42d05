"""Nothing is lost under an authority when those who watch are held up, or told of another's change
before or after they see it themselves."""

import os

import pytest

from bailiwick.paths import ScopedPath
from tests.feeds import Follower, Model, change, disk_store, tree_of
from tests.state.pausing import play
from tests.state.test_feed import State
from tests.stores.disk.pausing import differing
from tests.virtual_time import run
from tests.waiting import until

pytestmark = pytest.mark.spec("EVENT-1", "DISK-7")


@pytest.mark.parametrize("kind", ["moved", "copied"])
async def test_a_directory_made_in_one_that_was_told_as_a_whole(tmp_path, kind):
    root, store = tmp_path / "root", disk_store(tmp_path)
    (root / "d" / "x").mkdir(parents=True)
    async with (
        State(tmp_path / "authority", store=store, ledger=True) as state,
        Follower(state.feed) as follower,
    ):
        own = state.own("one")
        await (own.move("d", "e") if kind == "moved" else own.copy("d", "e", trees=True))
        await until(lambda: follower.told)
        watcher = state.feed.lookout._watcher
        await until(lambda: not watcher._to_enter and watcher._entering is None)
        os.mkdir(root / "e" / "later")
        (root / "last").write_text("x")
        await until(lambda: ("created", "last") in follower.brief())
        told = [path for kind, path, *_ in follower.brief()]
    assert told == ["e", "e/later", "last"]
    await store.aclose()


@pytest.mark.parametrize(
    "untrue",
    [
        change("d", "deleted", type="directory", subtree=True),
        change("d", "created", type="file", version="1-1"),
        change("d", "created", type="directory", version="1-1"),
        change("d/x", "created", type="file", version="1-1"),
        change("d/x/f/g", "created", type="file", version="1-1"),
        change("d/x/f", "updated", type="file", version="1-1"),
        change("e", "moved", type="directory", subtree=True, origin=ScopedPath("d")),
        change("d", "moved", type="directory", subtree=True, origin=ScopedPath("e")),
        change("d", "moved", type="file", version="1-1", origin=ScopedPath("f")),
        change("f", "moved", type="file", version="1-1", origin=ScopedPath("d")),
        change("d", "moved", type="directory", subtree=True, origin=ScopedPath("d/x")),
    ],
    ids=lambda untrue: f"{untrue.kind} {untrue.path} {untrue.type}",
)
async def test_what_another_tells_and_is_not_so_any_more(tmp_path, untrue):
    """A change that is told late may be overtaken by others: whoever watches looks at what is
    told, and tells what stands there instead."""
    root, store = tmp_path / "root", disk_store(tmp_path)
    (root / "d" / "x").mkdir(parents=True)
    (root / "d" / "x" / "f").write_text("1")
    (root / "f").write_text("2")
    before = tree_of(root)
    async with (
        State(tmp_path / "authority", store=store) as state,
        State(tmp_path / "authority") as other,
        Follower(state.feed) as follower,
    ):
        other.feed.publish([untrue])

        def known():
            model = Model(root)
            model.tree = dict(before)
            for each in follower.told:
                model.apply(each)
            return model.tree

        await until(lambda: follower.told and not differing(known(), tree_of(root)))
    await store.aclose()


async def test_what_could_not_be_written_is_told_later(tmp_path, monkeypatch):
    monkeypatch.setattr("bailiwick.state.feed._TELL_AGAIN_S", 0.01)
    store, failures = disk_store(tmp_path), []
    async with (
        State(tmp_path / "authority", store=store) as state,
        Follower(state.feed) as follower,
    ):
        keep = state.feed.keep_changes

        def fails_twice(connection, changes):
            if len(failures) < 2:
                failures.append(changes)
                raise OSError("the disk is full")
            keep(connection, changes)

        monkeypatch.setattr(state.feed, "keep_changes", fails_twice)
        (tmp_path / "root" / "d").mkdir()
        await until(lambda: follower.told)
        assert follower.brief() == [("created", "d")]
    assert len(failures) == 2
    await store.aclose()


@pytest.mark.parametrize("seed", range(24))
def test_seeded_pauses_of_two_authorities_lose_nothing(tmp_path, seed):
    for rough in (False, True):
        place = tmp_path / ("rough" if rough else "gentle")
        place.mkdir()
        lost, _ = run(play(place, seed, rough=rough, chance=(0.02, 0.1, 0.3)[seed % 3]))
        assert lost == []


@pytest.mark.parametrize("seed", range(6))
def test_changes_of_two_authorities_are_told_by_whoever_made_them(tmp_path, seed):
    """Where nobody else changes anything, nothing that was noticed is told."""
    lost, told = run(play(tmp_path, seed, alone=True, chance=(0.02, 0.1, 0.3)[seed % 3]))
    assert lost == []
    assert [each for each in told if not each.request_id] == []
