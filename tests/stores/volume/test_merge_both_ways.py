"""Merges that are repeated, go both ways, or through a third branch; and of what only one changed.

A merge is three-way from the newest state that both sides hold, whoever took over whom.
"""

import contextlib
import itertools
import random

import pytest

from bailiwick.errors import BailiwickError
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import in_database, opened

pytestmark = [pytest.mark.spec("VOL-6"), pytest.mark.both_engines]


@contextlib.asynccontextmanager
async def forked(fs, *names):
    """Forks of a branch, by name, with the branch itself as ``main``."""
    branches = {"main": fs}
    try:
        for name in names:
            branches[name] = StoreDriver(await fs.store.versions.fork(name))
        yield branches
    finally:
        for name in names:
            if name in branches:
                await branches[name].aclose()


async def merged(into, name):
    """Merge without conflicts; how many things that touched."""
    done = await into.store.versions.merge(name)
    assert done.conflicts == []
    return {str(touch.path) for touch in done.plan.touches}


# --- by hand ------------------------------------------------------------------------------------


async def test_what_was_taken_back_since_the_other_took_it_over_stays_away(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"zero")
        async with forked(fs, "work") as branches:
            work = branches["work"]
            await fs.write("new", b"made in main")
            await fs.write("a", b"one")
            assert await merged(work, "main") == {"a", "new"}
            await fs.remove("new")
            await fs.write("a", b"zero")
            await work.write("other", b"all that was done in the fork")
            assert await merged(fs, "work") == {"other"}
            assert await tree_of(fs.store) == {"a": b"zero", "other": await work.read("other")}


async def test_what_the_other_side_did_to_what_it_took_over_comes_back(tmp_path):
    async with opened(tmp_path / "v.db") as fs, forked(fs, "work") as branches:
        work = branches["work"]
        for name in ("gone", "edited", "moved"):
            await work.write(name, b"made in the fork")
        await merged(fs, "work")
        await fs.remove("gone")
        await fs.write("edited", b"by main alone")
        await fs.move("moved", "elsewhere")
        await merged(work, "main")
        assert await tree_of(work.store) == await tree_of(fs.store)
        await fs.write("edited", b"by main again")
        assert await merged(work, "main") == {"edited"}


async def test_a_change_on_both_sides_since_then_is_a_conflict(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"0")
        async with forked(fs, "work") as branches:
            work = branches["work"]
            await work.write("a", b"1")
            await merged(fs, "work")
            await fs.write("a", b"2")
            await work.write("a", b"3")
            for side, other in ((fs, "work"), (work, "main")):
                before = await tree_of(side.store)
                done = await side.store.versions.merge(other)
                assert [str(each.path) for each in done.conflicts] == ["a"]
                assert await tree_of(side.store) == before


async def test_what_came_through_a_third_branch_is_held_too(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"0")
        async with forked(fs, "one", "two") as branches:
            one, two = branches["one"], branches["two"]
            await one.write("a", b"1")
            await one.write("made", b"1")
            await merged(two, "one")
            await merged(fs, "two")
            await fs.write("a", b"0")
            await fs.remove("made")
            assert await merged(fs, "one") == set()
            assert await tree_of(fs.store) == {"a": b"0"}


async def test_two_that_took_over_a_third_each_by_itself_come_from_it(tmp_path):
    """There is no one newest state that both hold: a node is looked for in all of them."""
    async with opened(tmp_path / "v.db") as fs:
        for name in ("a", "b", "c"):
            await fs.write(name, b"0")
        async with forked(fs, "given", "one", "two") as branches:
            given, one, two = (branches[name] for name in ("given", "one", "two"))
            await given.write("a", b"given")
            await given.write("made", b"given")
            await merged(one, "given")
            await merged(two, "given")
            await one.write("a", b"one goes on")
            await one.remove("made")
            await two.write("b", b"two")
            await merged(fs, "one")
            assert await merged(fs, "two") == {"b"}
            assert await tree_of(fs.store) == {"a": b"one goes on", "b": b"two", "c": b"0"}


async def test_a_third_branch_is_kept_until_nobody_comes_from_it(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        versions = fs.store.versions
        async with forked(fs, "one", "two") as branches:
            one, two = branches["one"], branches["two"]
            async with forked(fs, "given") as more:
                await more["given"].write("made", b"given")
            await merged(one, "given")
            await merged(two, "given")
            await versions.delete_fork("given")
            await versions.collect(keep_days=0)
            await one.remove("made")
            assert await merged(one, "two") == set()
            assert await tree_of(one.store) == {}
            await merged(two, "one")
            assert await tree_of(two.store) == {}
            await versions.collect(keep_days=0)
            # Both hold each other by now, so what they took over is of no use any more.
            assert await in_database(fs, "SELECT count(*) FROM branch") == 3
            assert (await versions.check()).problems == []


async def test_a_third_branch_that_is_gone_is_not_guessed_at(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        versions = fs.store.versions
        async with forked(fs, "one", "two") as branches:
            one, two = branches["one"], branches["two"]
            async with forked(fs, "given") as more:
                await more["given"].write("made", b"given")
                await more["given"].write("kept", b"given")
            await merged(one, "given")
            await merged(two, "given")
            # As if it had been taken away all the same.
            given = await in_database(fs, "SELECT id FROM branch WHERE name = 'given'")
            for table in ("dentry", "inode", "lineage"):
                await in_database(fs, f"DELETE FROM {table} WHERE branch = {given} RETURNING 1")
            await one.remove("made")
            await two.write("of_two", b"2")
            done = await one.store.versions.merge("two")
            assert [str(each.path) for each in done.conflicts] == ["made"]
            await two.remove("made")
            assert await merged(one, "two") == {"of_two"}
        await in_database(fs, f"DELETE FROM change WHERE branch = {given} RETURNING 1")
        await in_database(fs, f"DELETE FROM branch WHERE id = {given} RETURNING 1")
        assert (await versions.check()).problems == []


async def test_a_fork_of_an_earlier_version_holds_what_that_one_held(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"0")
        versions = fs.store.versions
        async with forked(fs, "work") as branches:
            work = branches["work"]
            await fs.write("before", b"1")
            before = (await fs.stat("before")).version
            await work.write("a", b"1")
            await merged(fs, "work")
            after = (await fs.write("after", b"2")).version
            early = StoreDriver(await versions.fork("early", version=before))
            assert await merged(early, "work") == {"a"}
            await early.aclose()
            late = StoreDriver(await versions.fork("late", version=after))
            await late.write("a", b"0")
            assert await merged(late, "work") == set()
            assert await late.read("a") == b"0"
            await late.aclose()


async def test_both_wrote_the_same_and_are_alike_afterwards(tmp_path):
    clock = itertools.count(10**18, 10**9)
    async with opened(tmp_path / "v.db", clock_ns=lambda: next(clock)) as fs:
        await fs.write("a", b"0")
        async with forked(fs, "work") as branches:
            work = branches["work"]
            await fs.write("a", b"1")
            await work.write("a", b"1")
            version = (await fs.stat("a")).version
            await merged(fs, "work")
            assert (await fs.stat("a")).version == version
            assert await fs.store.versions.compare("work") == []
            await work.write("a", b"1")  # again: nothing but its time
            await merged(fs, "work")
            assert await fs.store.versions.compare("work") == []
            await work.write("a", b"2")
            await merged(fs, "work")
            assert await fs.read("a") == b"2"


async def test_directories_that_both_made_are_one_place(tmp_path):
    """Each side keeps its own directory of that name, and nothing looks moved for that."""
    async with opened(tmp_path / "v.db") as fs, forked(fs, "work") as branches:
        work = branches["work"]
        await work.write("d/e/of_work", b"w", parents=True)
        await fs.write("d/e/of_main", b"m", parents=True)
        await merged(work, "main")
        assert await merged(fs, "work") == {"d/e/of_work"}
        assert await tree_of(fs.store) == await tree_of(work.store)
        await fs.remove("d/e/of_main")
        assert await merged(fs, "work") == set()
        assert await merged(work, "main") == {"d/e/of_main"}
        assert await tree_of(fs.store) == await tree_of(work.store)


# --- a directory in the place of another ---------------------------------------------------------


async def rebuilt_after_move(fs):
    await fs.move("b", "archive")
    await fs.write("b/sub/new", b"new", parents=True)


async def rebuilt_after_remove(fs):
    await fs.remove("b", recursive=True)
    await fs.write("b/new", b"new", parents=True)


async def moved_into_its_successor(fs):
    await fs.move("b", "aside")
    await fs.make_dir("b")
    await fs.move("aside", "b/inner")
    await fs.write("b/inner/new", b"new")


async def exchanged(fs):
    await fs.make_dir("c/deep", parents=True)
    await fs.move("b", "aside")
    await fs.move("c", "b")
    await fs.move("aside", "c")
    await fs.write("b/deep/new", b"new")


@pytest.mark.spec("VOL-7")
@pytest.mark.parametrize(
    "work", [rebuilt_after_move, rebuilt_after_remove, moved_into_its_successor, exchanged]
)
@pytest.mark.parametrize("by", ["merge", "transaction"])
async def test_a_directory_made_in_the_place_of_another_is_another(tmp_path, work, by):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("b/old", b"old", parents=True)
        if by == "merge":
            async with forked(fs, "work") as branches:
                await work(branches["work"])
                expected = await tree_of(branches["work"].store)
                await merged(fs, "work")
        else:
            draft = await fs.store.versions.begin()
            await work(StoreDriver(draft.store))
            expected = await tree_of(draft.store)
            assert (await draft.commit(Mark())).conflicts == []
            await draft.discard()
        assert await tree_of(fs.store) == expected
        assert (await fs.store.versions.check()).problems == []


# --- at random: one side only --------------------------------------------------------------------

NAMES = "abc"


def some_path(rng):
    return "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, 3)))


async def change_anything(fs, rng):
    path, to = some_path(rng), some_path(rng)
    some_bytes = b"%d" % rng.randrange(1_000_000)
    kind = rng.choice(["write", "write", "dir", "move", "move", "remove", "link", "mode", "copy"])
    with contextlib.suppress(BailiwickError):
        match kind:
            case "write":
                await fs.write(path, some_bytes, parents=rng.random() < 0.5)
            case "dir":
                await fs.make_dir(path, parents=True)
            case "move":
                await fs.move(path, to, replace=rng.random() < 0.6)
            case "remove":
                await fs.remove(path, recursive=rng.random() < 0.6)
            case "link":
                await fs.symlink(path, rng.choice(["a", "b/c", "x"]))
            case "mode":
                await fs.set_mode(path, rng.choice([0o600, 0o644, 0o755]))
            case "copy":
                await fs.copy(path, to, recursive=True)


async def drafted(fs, rng):
    """A transaction at random, beside which nothing is done; the tree that it saw in the end."""
    draft = await fs.store.versions.begin()
    inside = StoreDriver(draft.store)
    for _ in range(rng.randint(1, 6)):
        await change_anything(inside, rng)
    seen = await tree_of(draft.store)
    done = await draft.commit(Mark())
    assert done.conflicts == []
    await draft.discard()
    return seen


@pytest.mark.slow
@pytest.mark.spec("VOL-7")
@pytest.mark.parametrize("start", range(0, 120, 40))
async def test_what_only_one_side_changed_is_taken_over_exactly(tmp_path, start):
    for seed in range(start, start + 40):
        rng = random.Random(seed)
        async with opened(tmp_path / f"{seed}.db") as fs:
            for _ in range(8):
                await change_anything(fs, rng)
            assert await drafted(fs, rng) == await tree_of(fs.store), seed
            async with forked(fs, "work") as branches:
                sides = [("work", branches["work"]), ("main", fs)]
                for _ in range(4):
                    (name, side), (_, other) = rng.sample(sides, 2)
                    for _ in range(rng.randint(1, 5)):
                        await change_anything(side, rng)
                    done = await other.store.versions.merge(name)
                    assert done.conflicts == [], seed
                    assert await tree_of(other.store) == await tree_of(side.store), seed
                    assert await fs.store.versions.compare("work") == [], seed
            assert (await fs.store.versions.check()).problems == []


# --- at random: all sides, held against who knew what --------------------------------------------


class Knowledge:
    """For each branch and path the change that stands there, and which changes it came after.

    A change that came after the other's is taken over; one that the other came after is not; of
    two that did not know of each other neither is. Nothing else may decide a merge.
    """

    def __init__(self):
        self._before = {0: frozenset()}
        self._content = {0: ...}
        self._at = {}

    def change(self, branch, path, content):
        self._stand(branch, path, content, {self._at.get((branch, path), 0)})

    def _stand(self, branch, path, content, after):
        number = len(self._before)
        self._before[number] = frozenset(after).union(*(self._before[each] for each in after))
        self._content[number] = content
        self._at[branch, path] = number

    def fork(self, branch, name):
        for (of, path), number in list(self._at.items()):
            if of == branch:
                self._at[name, path] = number

    def merge(self, into, source):
        """The paths that both changed; where there is none, what is theirs is taken over."""
        paths = sorted({path for of, path in self._at if of in (into, source)})
        pairs = [(self._at.get((into, each), 0), self._at.get((source, each), 0)) for each in paths]
        both = [
            path
            for path, (ours, theirs) in zip(paths, pairs, strict=True)
            if ours != theirs
            and ours not in self._before[theirs]
            and theirs not in self._before[ours]
            and self._content[ours] != self._content[theirs]
        ]
        if not both:
            for path, (ours, theirs) in zip(paths, pairs, strict=True):
                if ours in self._before[theirs]:
                    self._at[into, path] = theirs
                elif ours != theirs and theirs not in self._before[ours]:
                    self._stand(into, path, self._content[ours], {ours, theirs})
        return both

    def tree(self, branch):
        return {
            path: self._content[number]
            for (of, path), number in self._at.items()
            if of == branch and self._content[number] is not ...
        }


async def change_known(known, name, fs, rng, paths):
    """One change of one file, which is never made again once it was removed."""
    there = known.tree(name)
    path = rng.choice(sorted(there)) if there and rng.random() < 0.7 else f"d/{next(paths)}"
    if path in there and rng.random() < 0.4:
        await fs.remove(path)
        known.change(name, path, ...)
    else:
        content = b"%d" % rng.randrange(10**9)
        await fs.write(path, content)
        known.change(name, path, content)


async def merge_known(known, branches, into, source):
    """One merge, which tells exactly the conflicts there are; those are then removed on both sides.
    Returns whether there were any."""
    both = known.merge(into, source)
    done = await branches[into].store.versions.merge(source)
    assert {str(each.path) for each in done.conflicts} == set(both)
    for path, name in itertools.product(both, (into, source)):
        if path in known.tree(name):
            await branches[name].remove(path)
            known.change(name, path, ...)
    for name, each in branches.items():
        tree = await tree_of(each.store)
        del tree["d"]
        assert tree == known.tree(name), name
    return bool(both)


async def followed(fs, forks, rng):
    """Some steps of as many branches; how many merges were refused, and how many were made."""
    known, paths, outcomes = Knowledge(), itertools.count(), []
    await fs.make_dir("d")
    for _ in range(4):
        await change_known(known, "main", fs, rng, paths)
    names = [f"fork{number}" for number in range(forks)]
    async with forked(fs, *names) as branches:
        for name in names:
            known.fork("main", name)
        for step in range(25):
            if step == 12 and forks > 1:
                # What the others took over of it is theirs, and as it was.
                await branches.pop(names[0]).aclose()
                await fs.store.versions.delete_fork(names[0])
                await fs.store.versions.collect(keep_days=0)
            for name in rng.sample(sorted(branches), rng.randint(1, len(branches))):
                for _ in range(rng.randrange(3)):
                    await change_known(known, name, branches[name], rng, paths)
            into, source = rng.sample(sorted(branches), 2)
            outcomes.append(await merge_known(known, branches, into, source))
            if rng.random() < 0.1:
                await fs.store.versions.collect(keep_days=0)
    assert (await fs.store.versions.check()).problems == []
    return sum(outcomes), len(outcomes) - sum(outcomes)


@pytest.mark.slow
@pytest.mark.spec("VOL-8")
@pytest.mark.parametrize("forks", [1, 2, 3])
async def test_nothing_is_lost_or_reverted_whoever_takes_over_whom(tmp_path, forks):
    refused, made = 0, 0
    for seed in range(10):
        async with opened(tmp_path / f"{seed}.db") as fs:
            outcome = await followed(fs, forks, random.Random(seed))
            refused, made = refused + outcome[0], made + outcome[1]
    assert refused > 20
    assert made > 20
