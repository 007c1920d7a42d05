"""No change without its record: a ledger that cannot write stops changes, and a killed process
leaves nothing that is not on record."""

import asyncio
import os
import random
import subprocess
import sys
from contextlib import asynccontextmanager

import apsw
import pytest

from tests.authority.support import ME, Person, configuration, governed, refusal, rule
from tests.killing import killed_at_work
from tests.laws.repository import ROOT
from tests.scope.every_verb import VERBS, plant_tree
from tests.scope.support import snapshot, unruled

KILLS = 30


def _no_room(cursor, sql, bindings):
    if sql.lstrip().upper().startswith(("INSERT", "UPDATE", "REPLACE")):
        raise apsw.FullError("database or disk is full")
    return True


@asynccontextmanager
async def full(database):
    """Meanwhile there is no room left where the state is kept."""

    def fill(connection):
        connection.exec_trace = _no_room

    def empty(connection):
        connection.exec_trace = None

    await database.write(fill)
    try:
        yield
    finally:
        await database.write(empty)


CHANGING = {name: verb for name, verb in VERBS.items() if verb.changes} | {
    "copy_from": None, "extract_archive": None, "create_archive": None,
}  # fmt: skip


def _act(name, fs):
    if VERBS.get(name) is not None:
        return VERBS[name].call(fs)
    if name == "copy_from":
        return fs.copy_from(fs, "dir", "got", recursive=True)
    if name == "create_archive":
        return fs.create_archive("dir", "made.tar")
    return fs.extract_archive("planted.tar", "unpacked")


@pytest.mark.spec("AUDIT-4")
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
async def test_a_ledger_that_cannot_record_stops_every_change_and_no_read(tmp_path, on_disk):
    state = tmp_path / "state" if on_disk else None
    async with governed(tmp_path, on_disk=on_disk, state_dir=state) as house:
        await plant_tree(await house.bare())
        await (await house.bare()).create_archive("dir", "planted.tar")
        before = await house.tree()
        fs = await house.scope()
        ledger = house.authority.ledger
        async with full(ledger._database):
            for name in CHANGING:
                error = await refusal(_act(name, fs))
                assert error is not None, name
                assert error.kind == "io_error", (name, error)
                assert await _tree(fs) == before, name
            for name, verb in VERBS.items():
                if not verb.changes:
                    assert await refusal(verb.call(fs)) is None, name
            assert not ledger.health().ok
        for name in ("write_text", "copy_from", "create_archive"):
            await _act(name, fs)
        await ledger.flush()
        assert (await ledger.verify()).ok
        changed = [each.verb for each in await house.operations() if each.outcome == "success"]
        assert {"write_text", "copy_from", "create_archive"} <= set(changed)


async def _tree(fs):
    """What is there, looked at without asking for another scope: that would need the ledger."""
    return await snapshot(unruled(fs))


@pytest.mark.spec("AUDIT-4", "ASK-2")
async def test_a_ledger_that_fails_while_a_person_is_asked(tmp_path, monkeypatch):
    """The change was allowed, cannot be put on record, and is not made."""
    async with governed(tmp_path, rule("ask", "kept")) as house:
        await house.plant({"kept": "old"})
        room = full(house.authority.ledger._database)
        desk = house.authority.approvals
        ask = desk.ask

        async def fill_when_answered(question, **how):
            verdict = await ask(question, **how)
            await room.__aenter__()
            return verdict

        monkeypatch.setattr(desk, "ask", fill_when_answered)
        fs = await house.scope(asker=Person("once"))
        error = await refusal(fs.write_text("kept", "new"))
        assert error.kind == "io_error"
        assert (await _tree(fs))["kept"] == b"old"
        await room.__aexit__(None, None, None)


@pytest.mark.spec("AUDIT-4", "AUTH-8")
async def test_what_cannot_be_recorded_is_not_counted_either(tmp_path):
    async with governed(tmp_path, options="quota = {bytes = 100}") as house:
        fs = await house.scope()
        await fs.write_bytes("a", b"x" * 50)
        await house.authority.ledger.flush()
        async with full(house.authority.ledger._database):
            assert (await refusal(fs.write_bytes("b", b"x" * 40))).kind == "io_error"
        await fs.write_bytes("b", b"x" * 50)
        assert fs._pipeline.meter.used_by_root("workspace:demo").bytes == 100


# --- killed ---------------------------------------------------------------------------------------


def _killed_after(arguments, lines, seconds):
    """Let a writer go, kill it, and return what it had acknowledged until then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.authority.writer", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    with process:
        assert process.stdout.readline() == "ready\n"
        return killed_at_work(process, lines, seconds)


async def _told(fs, since):
    """All paths that the feed tells of since then, and whether it told to look for oneself."""
    await fs.with_request("sentinel").write_text("sentinel", "x")
    paths, rescans = set(), []
    async for change in fs.watch(since=since):
        if change.request_id == "sentinel":
            return paths, rescans
        if change.kind == "rescan":
            rescans.append(change.path)
        paths.add(change.path)
        if change.origin is not None:
            paths.add(change.origin)
    return paths, rescans


def _is_told(path, paths, rescans):
    return path in paths or any(
        path == each or each == "." or path.startswith(each + "/") for each in (*rescans, *paths)
    )


@pytest.mark.slow
@pytest.mark.spec("AUDIT-3", "AUDIT-4", "DISK-4", "EVENT-1")
async def test_killed_at_random_instants_every_change_is_on_record_and_told(tmp_path):
    place, state = tmp_path / "tree", tmp_path / "state"
    place.mkdir()
    file = tmp_path / "writer.toml"
    file.write_text(configuration(place, state='durability = "rename"'))
    options = {"on_disk": True, "place": place, "state_dir": state}
    async with governed(tmp_path, **options) as house:
        fs = await house.scope()
        changes = fs.watch(since=await fs.change_cursor())
        await fs.write_text("beginning", "x")
        start = (await anext(changes)).cursor
        await changes.aclose()
    chance, acknowledged, interrupted, head = random.Random(7), set(), 0, None
    for kill in range(KILLS):
        said = await asyncio.to_thread(
            _killed_after,
            (file, state, f"w{kill}"),
            chance.randrange(4),
            chance.uniform(0.0, 0.12),
        )
        acknowledged.update(said)
        async with governed(tmp_path, **options) as house:
            ledger = house.authority.ledger
            interrupted += len(ledger.interrupted)
            found = await ledger.verify(head)
            assert found.ok, found.words
            assert ledger._database.read("SELECT count(*) FROM ledger_intents") == [(0,)]
            await house.bare()  # opens the root: what was half done there is undone
            await ledger.flush()
            head = ledger.head()
    async with governed(tmp_path, **options) as house:
        fs = await house.scope()
        paths, rescans = await _told(fs, start)
        tree = await house.tree()
        records = await house.operations()
    on_record = {each.request_id for each in records}
    assert acknowledged <= on_record
    by_writer = [each.request_id for each in records if each.request_id.startswith("w")]
    assert len(by_writer) == len(set(by_writer))  # each once
    made = {path for path in tree if path.startswith("w")}
    assert {path.partition("/")[0] for path in made} <= on_record
    assert tree["shared"].decode() in on_record
    assert [path for path in made if not _is_told(path, paths, rescans)] == []
    assert interrupted == sum(each.error_kind == "interrupted" for each in records)
    assert acknowledged
    assert interrupted


@pytest.mark.spec("AUDIT-4")
async def test_a_volume_keeps_the_intent_of_a_change_with_the_change(tmp_path):
    place = f"sqlite:{tmp_path / 'volume.db'}"
    async with governed(tmp_path, place=place, state_dir=tmp_path / "state") as house:
        fs = await house.scope()
        fs._pipeline.ledger.intend = None  # nothing is kept beforehand
        await fs.write_text("f", "x")
        (record,) = await house.operations()
        assert (record.path, record.outcome) == ("f", "success")


@pytest.mark.spec("AUDIT-4", "AUTH-5")
async def test_a_grant_that_ends_while_the_intent_is_kept_changes_nothing(tmp_path):
    async with governed(tmp_path) as house:
        fs = await house.scope()
        ledger = fs._pipeline.ledger
        intend = ledger.intend

        async def slowly(intent):
            kept = await intend(intent)
            await house.authority.revoke(fs.grant.id, by=ME)
            return kept

        ledger.intend = slowly
        assert (await refusal(fs.write_text("f", "x"))).kind == "grant_revoked"
        assert await house.tree() == {}
        (record,) = await house.operations()
        assert (record.outcome, record.error_kind) == ("denied", "grant_revoked")
