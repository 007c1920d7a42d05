"""Leases through a scope: binding for all who come this way, in every process."""

import asyncio
import subprocess
import sys
import textwrap

import pytest

import bailiwick
from bailiwick import LockHeld, MissingAccess, ParseError, PolicyDenied
from bailiwick.grant import AgentRun
from bailiwick.stores.volume.uptime import Uptime
from tests.scope.support import Rules, deny, granted, records
from tests.scope.volumes import AGENT, OTHER, ruled, text, tree, volume

pytestmark = pytest.mark.spec("VOL-7")


async def _uploading(fs, path, **options):
    async def chunks():
        yield b"x"

    return await fs.write_stream(path, chunks(), **options)


CHANGES = {
    "write_bytes": lambda fs, **token: fs.write_bytes("d/f", b"x", **token),
    "write_text": lambda fs, **token: fs.write_text("d/f", "x", **token),
    "write_json": lambda fs, **token: fs.write_json("d/f", 1, **token),
    "write_stream": lambda fs, **token: _uploading(fs, "d/f", **token),
    "append": lambda fs, **token: fs.append("d/f", "x", **token),
    "truncate": lambda fs, **token: fs.truncate("d/f", 1, **token),
    "edit": lambda fs, **token: fs.edit("d/f", old="text", new="x", **token),
    "make_dir": lambda fs, **token: fs.make_dir("d/new", **token),
    "symlink": lambda fs, **token: fs.symlink("d/new", "f", **token),
    "set_mode": lambda fs, **token: fs.set_mode("d/f", 0o640, **token),
    "set_times": lambda fs, **token: fs.set_times("d/f", 10**18, **token),
    "remove": lambda fs, **token: fs.remove("d", recursive=True, **token),
    "move": lambda fs, **token: fs.move("d", "e", **token),
    "move_in": lambda fs, **token: fs.move("other", "d/new", **token),
    "copy": lambda fs, **token: fs.copy("other", "d/new", **token),
    "copy_from": lambda fs, **token: fs.copy_from(fs, "other", "d/new", **token),
    "create_archive": lambda fs, **token: fs.create_archive("other", "d/a.tar", **token),
    "extract_archive": lambda fs, **token: fs.extract_archive("a.tar", "d/new", **token),
    "restore": lambda fs, **token: fs.restore("d/f", "start", **token),
    "restore_all": lambda fs, **token: fs.restore(".", "start", **token),
    "undo": lambda fs, **token: fs.undo("edited", **token),
    "merge": lambda fs, **token: fs.merge("work", **token),
}


async def _planted(fs):
    await fs.write_text("other", "x")
    await fs.write_text("d/f", "text", parents=True)
    await fs.create_archive("other", "a.tar")
    await fs.snapshot("start")
    fork = await fs.fork("work")
    await fork.write_text("d/by_fork", "x")
    await fork.aclose()
    await fs.with_request("edited").write_text("d/f", "text, edited")


@pytest.mark.parametrize("verb", CHANGES)
async def test_a_stale_token_changes_nothing_when_all_leases_are_gone(tmp_path, verb):
    """Whoever slept while others locked, changed and went is not let in by their old token, nor is
    one that made a number up; the last of those others still is."""
    async with volume(tmp_path) as fs:
        await _planted(fs)
        before = await tree(fs)
        first = await fs.lock("d")
        await first.release()
        last = await fs.lock("d")
        await last.release()
        for stale in (first.token, 999_999):
            with pytest.raises(LockHeld) as held:
                await CHANGES[verb](fs, lock_token=stale)
            assert held.value.details["stale"] is True
        assert await tree(fs) == before
        await CHANGES[verb](fs, lock_token=last.token)


async def test_a_transaction_with_a_stale_token_changes_nothing(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("f", "1")
        tokens = []
        for _ in range(2):
            async with fs.lock("f") as lease:
                tokens.append(lease.token)
        for stale in (tokens[0], 999_999):
            with pytest.raises(LockHeld) as held:
                async with fs.transaction(lock_token=stale) as inside:
                    await inside.write_text("f", "2")
            assert held.value.details["stale"] is True
        assert await text(fs, "f") == "1"


@pytest.mark.parametrize("verb", CHANGES)
async def test_a_lease_keeps_out_every_change_but_those_with_its_token(tmp_path, verb):
    async with volume(tmp_path) as fs:
        await _planted(fs)
        before = await tree(fs)
        async with fs.lock("d") as lease:
            for wrong in ({}, {"lock_token": lease.token + 1}):
                with pytest.raises(LockHeld):
                    await CHANGES[verb](fs, **wrong)
            assert await tree(fs) == before
            await CHANGES[verb](fs, lock_token=lease.token)
        await fs.write_text("free", "x")


async def test_a_token_is_good_for_nobody_else(tmp_path):
    """A number can be guessed: it says which lease is meant, not whose."""
    async with volume(tmp_path) as fs:
        one, other = await fs.delegate(AGENT), await fs.delegate(OTHER)
        lease = await one.lock("f")
        for stranger in (other, fs):
            with pytest.raises(LockHeld) as held:
                await stranger.write_text("f", "x", lock_token=lease.token)
            assert held.value.details["owner"] == str(AGENT)
            with pytest.raises(LockHeld):
                await stranger.lock("f")
        await one.write_text("f", "x", lock_token=lease.token)
        assert (lease.path, lease.expires_ns > 0) == ("f", True)
        await lease.renew(30)
        assert await lease.release()
        assert not await lease.release()
        with pytest.raises(LockHeld):
            await lease.renew(30)
        await other.write_text("f", "y")
        later = await other.lock("f", ttl=1)
        assert later.token > lease.token
        await later.release()


async def test_a_transaction_and_a_lease(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("f", "1")
        lease = await fs.lock("f")
        with pytest.raises(LockHeld):
            async with fs.transaction() as inside:
                await inside.write_text("f", "2")
        assert await text(fs, "f") == "1"
        async with fs.transaction(lock_token=lease.token) as inside:
            await inside.write_text("f", "2")
        assert await text(fs, "f") == "2"
        await lease.release()


@pytest.mark.spec("AUDIT-1")
async def test_a_lease_needs_the_right_to_write_there(tmp_path):
    async with volume(tmp_path, policy=Rules(deny("kept", access=["write"]))) as fs:
        agent = await ruled(fs)
        with pytest.raises(PolicyDenied):
            await agent.lock("kept")
        reader = granted(fs, access=frozenset({"read"}))
        with pytest.raises(MissingAccess):
            await reader.lock("free")
        for wrong in (0, -1, 601, "5", None, True, float("nan")):
            with pytest.raises(ParseError):
                await agent.lock("free", ttl=wrong)
        assert {each.verb for each in records(fs)} == {"lock"}
        for wrong in ("5", True, 1.5):
            with pytest.raises(ParseError):
                await fs.write_text("free", "x", lock_token=wrong)


@pytest.mark.spec("AUTH-5")
async def test_an_ended_grant_keeps_no_lease(tmp_path, clock):
    async with volume(tmp_path) as fs:
        fs._pipeline.store.core.uptime = Uptime("boot", lambda: clock.time_ns() // 1_000_000)
        agent = await fs.delegate(AgentRun("a", "b"), expires_in=60)
        lease = await agent.lock("f", ttl=120)
        clock.advance(60)
        with pytest.raises(bailiwick.GrantExpired):
            await lease.renew(60)
        with pytest.raises(LockHeld):
            await fs.write_text("f", "x")
        clock.advance(60)
        await fs.write_text("f", "x")


OTHER_PROCESS = """
    import asyncio, sys
    from bailiwick import LockHeld
    from tests.scope.volumes import volume
    import pathlib

    async def main():
        async with volume(pathlib.Path(sys.argv[1])) as fs:
            try:
                await fs.write_text("d/f", "from elsewhere")
            except LockHeld:
                print("held")
            else:
                print("written")

    asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.spec("VOL-4")
async def test_a_lease_holds_in_other_processes(tmp_path):
    def elsewhere():
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(OTHER_PROCESS), str(tmp_path)],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    async with volume(tmp_path) as fs:
        await fs.write_text("d/f", "x", parents=True)
        async with fs.lock("d"):
            assert await asyncio.to_thread(elsewhere) == "held"
            assert await text(fs, "d/f") == "x"
        assert await asyncio.to_thread(elsewhere) == "written"
        assert await text(fs, "d/f") == "from elsewhere"


async def test_who_is_kept_out_is_told_where(tmp_path):
    """Also of many places that one call would change, and seen from where the caller is."""
    async with volume(tmp_path) as fs:
        for path in ("a", "d/e/f", "d/e/g"):
            await fs.write_text(path, "1", parents=True)
        before = await fs.snapshot("before")
        for path in ("a", "d/e/f", "d/e/g"):
            await fs.with_request("once").write_text(path, "2")
        inner = await fs.delegate(AGENT, path="d", rebase=True)
        async with fs.lock("d/e/g"):
            with pytest.raises(LockHeld) as held:
                await fs.undo("once")
            assert held.value.path == "d/e/g"
            assert str(held.value).startswith("d/e/g: is locked")
            with pytest.raises(LockHeld) as held:
                await fs.restore(".", before.version)
            assert held.value.path == "."
            with pytest.raises(LockHeld) as held:
                await inner.write_text("e/g", "3")
            assert held.value.path == "e/g"
            with pytest.raises(LockHeld) as held:
                await inner.remove("e", recursive=True)
            assert held.value.path == "e"
