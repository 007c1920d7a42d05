"""What a change touches, told with all that lies in directories that come, go or move."""

import asyncio
import random

import pytest

from bailiwick.errors import ParseError, PathNotFound
from bailiwick.stores.volume.rows.sqlite_session import SqliteSession
from bailiwick.stores.volume.versions import comparison
from bailiwick.stores.volume.versions.undo import undo
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark, Undoing
from tests.stores.volume.trees import outcome
from tests.stores.volume.volumes import by, in_database, opened

pytestmark = pytest.mark.both_engines

SEEDS = 12
NAMES = "abcd"


class TakenBack(Exception):
    """Ends a turn whose work was only looked at."""


async def touches_two_ways(fs, what):
    """All that an undo touches, as it is told; and found by a look at every node there ever was."""
    told = []

    async def job(turn):
        done = await undo(turn, what, Mark())
        if done.version is not None:
            told.append(await comparison.touches_of(turn, done.version))
            told.append(await one_by_one(turn, done.version))
        raise TakenBack

    try:
        await fs.store.core.change(job)
    except TakenBack:
        return told


async def one_by_one(turn, version):
    session, view = turn.transaction.session, turn.tree.view
    before = turn.core.tree_at(session, view._replace(at=version - 1))
    nodes = [row[0] for row in await session.rows("SELECT DISTINCT id FROM inode")]
    rows = await session.rows(comparison._TOUCHED, view.volume, view.branch, version - 1, version)
    logged = {node for row in rows for node in row}
    found = [
        await comparison._touch(before, turn.tree, node, told=node in logged) for node in nodes
    ]
    return comparison._replacements([each for each in found if each is not None])


async def change_at_random(fs, chance):
    """A few changes under one request id: trees are moved into each other, removed and made."""

    def path():
        return "/".join(chance.choice(NAMES) for _ in range(chance.randint(1, 3)))

    for _ in range(chance.randint(1, 4)):
        act = chance.choice(("write", "move", "remove", "make_dir", "set_mode", "copy"))
        if act == "write":
            call = fs.write(path(), chance.randbytes(4), parents=True)
        elif act == "make_dir":
            call = fs.make_dir(path(), parents=True)
        elif act == "remove":
            call = fs.remove(path(), recursive=True)
        elif act == "set_mode":
            call = fs.set_mode(path(), chance.choice((0o600, 0o640, 0o700)))
        else:
            call = getattr(fs, act)(path(), path())
        await outcome(call)


@pytest.mark.spec("VOL-5", "VOL-6")
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_it_is_what_a_look_at_every_node_finds(tmp_path, seed):
    chance, compared = random.Random(seed), 0
    async with opened(tmp_path / "v.db") as fs:
        for number in range(14):
            await change_at_random(by(fs, Mark(request_id=f"r{number}")), chance)
        fork = StoreDriver(await fs.store.versions.fork("fork"))
        for number in range(14, 20):
            await change_at_random(by(fork, Mark(request_id=f"r{number}")), chance)
        for number in range(20):
            place = fs if number < 14 else fork
            what = Undoing(request_id=f"r{number}")
            try:
                told = await touches_two_ways(place, what)
            except (PathNotFound, ParseError):
                continue  # all of it was refused, or where it belongs lies in it now
            if told:
                assert sorted(map(repr, told[0])) == sorted(map(repr, told[1]))
                compared += bool(told[0])
        await fork.aclose()
    assert compared


@pytest.mark.slow
@pytest.mark.sqlite_only
@pytest.mark.spec("VOL-5")
async def test_to_undo_a_removal_asks_once_a_page_of_names_and_not_once_a_file(
    tmp_path, monkeypatch
):
    files, asked = 4_000, 0
    row, rows = SqliteSession.row, SqliteSession.rows

    def counting(ask):
        async def counted(*given):
            nonlocal asked
            asked += 1
            return await ask(*given)

        return counted

    async with opened(tmp_path / "v.db") as fs:
        await fs.make_dir("d")
        for start in range(0, files, 500):
            names = [f"d/{number:05}" for number in range(start, start + 500)]
            await asyncio.gather(*(fs.write(name, b"x") for name in names))
        await by(fs, Mark(request_id="oops")).remove("d", recursive=True)
        monkeypatch.setattr(SqliteSession, "row", counting(row))
        monkeypatch.setattr(SqliteSession, "rows", counting(rows))
        plan = await fs.store.versions.plan_undo(Undoing(request_id="oops"))
        assert len(plan.touches) == files + 1
        assert 0 < asked < 100
        await fs.store.versions.undo(Undoing(request_id="oops"), cleared=plan)
        monkeypatch.undo()
        assert await fs.read("d/00042") == b"x"
        assert await in_database(fs, "SELECT count(*) FROM fallen") == 0
