"""Nothing is lost under an authority when those who watch are held up, or told of another's change
before or after they see it themselves."""

import os

import pytest

from tests.feeds import Follower, disk_store
from tests.state.test_feed import State
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
        await state.feed.ready()
        os.mkdir(root / "e" / "later")
        (root / "last").write_text("x")
        await until(lambda: ("created", "last") in follower.brief())
        told = [path for kind, path, *_ in follower.brief()]
    assert told == ["e", "e/later", "last"]
    await store.aclose()
