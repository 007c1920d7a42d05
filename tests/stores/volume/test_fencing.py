"""Fencing tokens: one that is not the newest for a place, or never was one, changes nothing."""

import random

import pytest

from bailiwick.errors import LockHeld
from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.uptime import Uptime
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark
from tests.stores.volume.volumes import by, in_database, opened

pytestmark = [pytest.mark.spec("VOL-7"), pytest.mark.both_engines]

A, B = "agent_run:a", "agent_run:b"
START_NS = 10**18
MINUTE_NS = 60 * 10**9


class Machine:
    """A machine whose clock anybody sets, and whose count since its start nobody does."""

    def __init__(self, boot="one"):
        self.wall_ns = START_NS
        self.up_ms = 5_000
        self.boot = boot

    def open(self, path, **options):
        uptime = Uptime(self.boot, lambda: self.up_ms)
        return opened(path, clock_ns=lambda: self.wall_ns, uptime=uptime, **options)

    def wait(self, seconds):
        self.wall_ns += int(seconds * 10**9)
        self.up_ms += int(seconds * 1000)


async def take(fs, path, subject, ttl_s=60.0):
    entry = await fs.store.resolve(ScopedPath(path), "entry")
    try:
        return await fs.store.marked(Mark(subject=subject)).versions.lock(entry, ttl_s)
    finally:
        entry.close()


async def give_back(fs, lease, subject):
    return await fs.store.marked(Mark(subject=subject)).versions.release(lease)


def with_token(fs, subject, token) -> StoreDriver:
    return by(fs, Mark(subject=subject, lock_token=token))


async def refused(change):
    with pytest.raises(LockHeld) as held:
        await change
    return held.value.details


async def test_a_token_that_was_followed_by_another_is_stale_also_when_no_lease_is_alive(tmp_path):
    machine = Machine()
    async with machine.open(tmp_path / "v.db") as fs:
        first = await take(fs, "f", A)
        machine.wait(61)
        await with_token(fs, A, first.token).write("f", b"of a")  # the newest there ever was
        second = await take(fs, "f", B)
        assert second.token > first.token
        assert (await refused(with_token(fs, A, first.token).write("f", b"late")))["stale"]
        await with_token(fs, B, second.token).write("f", b"of b")
        await give_back(fs, second, B)
        for token in (first.token, 999_999, 0, -1, second.token + 1):
            assert (await refused(with_token(fs, A, token).write("f", b"late")))["stale"]
        assert (await refused(with_token(fs, A, second.token).write("f", b"not its own")))["stale"]
        assert await fs.read("f") == b"of b"
        await fs.write("f", b"without a token nobody says that they hold anything")


async def test_a_change_without_a_token_is_told_of_no_stale_one(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await take(fs, "f", A)
        assert await refused(fs.write("f", b"x")) == {"owner": A}
        stranger = await refused(with_token(fs, B, 77).write("f", b"x"))
        assert stranger == {"owner": A, "stale": True}


@pytest.mark.parametrize(("first", "second", "path"), [
    ("d", "d/f", "d/f"), (".", "d", "d/f"), ("d/f", "d", "d/f"), ("d", ".", "d/f"),
    ("d/f", ".", "d/f"), (".", "d/f", "d/f"), ("d", "d", "d/f"),
])  # fmt: skip
async def test_a_lease_above_or_beneath_counts_for_what_both_cover(tmp_path, first, second, path):
    machine = Machine()
    async with machine.open(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"x", parents=True)
        old = await take(fs, first, A)
        machine.wait(61)
        await give_back(fs, await take(fs, second, B), B)
        assert (await refused(with_token(fs, A, old.token).write(path, b"late")))["stale"]
        assert await fs.read(path) == b"x"


async def test_a_whole_directory_is_stale_where_something_in_it_was_locked_since(tmp_path):
    machine = Machine()
    async with machine.open(tmp_path / "v.db") as fs:
        await fs.write("d/e/f", b"x", parents=True)
        await fs.write("d/g", b"x")
        old = await take(fs, "d", A)
        machine.wait(61)
        newer = await take(fs, "d/e/f", B)
        await give_back(fs, newer, B)
        late = with_token(fs, A, old.token)
        assert (await refused(late.remove("d", recursive=True)))["stale"]
        assert (await refused(late.move("d", "elsewhere")))["stale"]
        await late.write("d/g", b"nobody else was there")
        await with_token(fs, B, newer.token).remove("d", recursive=True)


async def test_a_token_says_nothing_about_other_places(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("other", b"x")
        await fs.make_dir("d")
        lease = await take(fs, "d", A)
        own = with_token(fs, A, lease.token)
        assert (await refused(own.write("other", b"y")))["stale"]
        await own.move("other", "d/here")  # one of the two places is enough
        fork = StoreDriver(await fs.store.versions.fork("work"))
        try:
            assert (await refused(with_token(fork, A, lease.token).write("d/f", b"y")))["stale"]
        finally:
            await fork.aclose()


async def test_a_lease_that_is_alive_is_not_made_stale_by_what_was_moved_into_it(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("e/x", b"x", parents=True)
        await fs.make_dir("d")
        own = with_token(fs, A, (await take(fs, "d", A)).token)
        await give_back(fs, await take(fs, "e/x", B), B)
        await own.move("e", "d/e")
        await own.write("d/e/x", b"y")


async def test_what_was_removed_and_made_again_has_no_older_tokens(tmp_path):
    machine = Machine()
    async with machine.open(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"x", parents=True)
        old = await take(fs, "d/f", A)
        machine.wait(61)
        await fs.remove("d", recursive=True)
        await fs.write("d/f", b"another", parents=True)
        assert (await refused(with_token(fs, A, old.token).write("d/f", b"late")))["stale"]
        kept = await take(fs, "d/f", A)
        await with_token(fs, A, kept.token).remove("d/f")
        await with_token(fs, A, kept.token).write("d/f", b"again")


async def test_missing_directories_count_as_places(tmp_path):
    """A lease on what is not there yet holds whoever would make it on the way to something else."""
    async with opened(tmp_path / "v.db") as fs:
        lease = await take(fs, "a", A)
        for change in (
            lambda driver: driver.write("a/b/c", b"x", parents=True),
            lambda driver: driver.make_dir("a/b", parents=True),
        ):
            assert (await refused(change(fs)))["owner"] == A
            await change(with_token(fs, A, lease.token))
            await with_token(fs, A, lease.token).remove("a", recursive=True)
        await take(fs, "c", B)
        await fs.write("z/b/c", b"x", parents=True)  # another c


async def test_a_lease_on_the_root_holds_the_root(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        lease = await take(fs, ".", A)
        assert (await refused(fs.set_mode(".", 0o700)))["owner"] == A
        await with_token(fs, A, lease.token).set_mode(".", 0o700)


async def test_tokens_go_on_growing_when_the_volume_is_opened_again_elsewhere(tmp_path):
    tokens = []
    for number in range(3):
        machine = Machine(boot=f"machine {number}")
        machine.wall_ns -= number * 100 * MINUTE_NS
        machine.up_ms -= number * 1_000
        async with machine.open(tmp_path / "v.db") as fs:
            for _ in range(2):
                lease = await take(fs, "f", A)
                await give_back(fs, lease, A)
                tokens.append(lease.token)
            await fs.store.versions.collect(keep_days=0)
            for token in tokens[:-1]:
                assert (await refused(with_token(fs, A, token).write("f", b"late")))["stale"]
            await with_token(fs, A, tokens[-1]).write("f", b"x")
    assert tokens == sorted(set(tokens))


async def test_a_clock_that_is_set_neither_stretches_nor_ends_a_lease(tmp_path):
    machine = Machine()
    async with machine.open(tmp_path / "v.db") as fs:
        lease = await take(fs, "f", A)
        machine.wall_ns -= 100 * MINUTE_NS
        machine.up_ms += 59_000
        await refused(fs.write("f", b"x"))
        machine.wall_ns += 1_000 * MINUTE_NS
        await refused(fs.write("f", b"x"))
        lease = await fs.store.marked(Mark(subject=A)).versions.renew(lease, 60.0)
        machine.wall_ns -= 2_000 * MINUTE_NS
        machine.up_ms += 59_000
        await refused(fs.write("f", b"x"))
        machine.up_ms += 1_001
        await fs.write("f", b"free")
        with pytest.raises(LockHeld):
            await fs.store.marked(Mark(subject=A)).versions.renew(lease, 60.0)


@pytest.mark.parametrize(("set_back_s", "left_s"), [(0, 30), (-31, 0), (3_600, 600)])
async def test_over_a_reboot_a_lease_goes_on_by_the_clock_and_never_for_long(
    tmp_path, set_back_s, left_s
):
    before = Machine("before")
    async with before.open(tmp_path / "v.db") as fs:
        await take(fs, "f", A)
        before.wait(30)
    after = Machine("after")
    after.wall_ns, after.up_ms = before.wall_ns - set_back_s * 10**9, 7
    async with after.open(tmp_path / "v.db") as fs:
        if left_s:
            await refused(fs.write("f", b"x"))
            after.up_ms += left_s * 1000 - 1
            await refused(fs.write("f", b"x"))
            after.up_ms += 1
        await fs.write("f", b"free")


async def test_so_many_ended_leases_are_remembered_and_the_oldest_forgotten_first(tmp_path):
    limits = Limits(lock_tokens_max=3)
    async with opened(tmp_path / "v.db", limits=limits) as fs:
        held = await take(fs, "held", A)
        given = []
        for number in range(6):
            lease = await take(fs, f"f{number}", A)
            await give_back(fs, lease, A)
            given.append(lease.token)
        await give_back(fs, await take(fs, "last", A), A)
        rows = "SELECT count(*) FROM lease WHERE volume = $1 AND branch <> 0"
        assert await in_database(fs, rows, fs.store.core.volume) <= 3 + 2
        for number, token in enumerate(given):
            if number < 3:
                forgotten = with_token(fs, A, token).write(f"f{number}", b"x")
                assert (await refused(forgotten))["stale"]
        await with_token(fs, A, given[-1]).write("f5", b"x")
        await with_token(fs, A, held.token).write("held", b"x")


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_no_holder_writes_after_a_later_one(tmp_path, seed):
    """Two or three who lock, lose and give back, on places one in the other: of all writes that
    were let through, those at one place carry tokens that never go down."""
    chance, machine = random.Random(seed), Machine()
    places = [".", "d", "d/e", "d/e/f", "d/g"]
    async with machine.open(tmp_path / "v.db") as fs:
        await fs.write("d/e/f", b"x", parents=True)
        await fs.write("d/g", b"x")
        leases, newest, taken = [], {"d/e/f": 0, "d/g": 0}, 0
        for _ in range(300):
            subject, place = chance.choice((A, B)), chance.choice(places)
            match chance.randrange(4):
                case 0:
                    try:
                        leases.append((subject, await take(fs, place, subject, 5.0)))
                    except LockHeld:
                        continue
                    taken += 1
                    for path in newest:
                        if place == "." or path == place or path.startswith(f"{place}/"):
                            newest[path] = leases[-1][1].token
                case 1:
                    machine.wait(chance.choice((0.5, 3.0, 6.0)))
                case 2 if leases:
                    await give_back(fs, *reversed(chance.choice(leases)))
                case _ if leases:
                    owner, lease = chance.choice(leases)
                    path = chance.choice(list(newest))
                    try:
                        await with_token(fs, owner, lease.token).write(path, b"x")
                    except LockHeld:
                        assert lease.token != newest[path]
                    else:
                        assert lease.token == newest[path]
        assert taken > 10
