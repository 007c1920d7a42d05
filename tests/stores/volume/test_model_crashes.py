"""The histories of `test_model`, with transactions, merges, and crashes in between."""

import os
import random
import shutil
import subprocess
import tempfile

import hypothesis
import pytest
from hypothesis.stateful import rule, run_state_machine_as_test

from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark
from tests.stores.trees import make_disk, make_memory
from tests.stores.volume.test_model import Histories, contents, new, picks, some
from tests.stores.volume.trees import Model, outcome, tree_of
from tests.stores.volume.volumes import make_volume


class Crashing(Histories):
    """What a process leaves that is gone without a word is opened again and gone on with."""

    @rule()
    def crash(self):
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        folder = tempfile.mkdtemp(prefix="volume-model-", dir=memory)
        # Not in this process: to open and close SQLite's file beside it would cost it its locks.
        subprocess.run(["cp", "-a", f"{self.folder}/.", folder], check=True)
        os.unlink(f"{folder}/v.db-shm")
        for store in self.stores.values():
            self.do(store.aclose())
        shutil.rmtree(self.folder)
        self.folder = folder
        self.stores = {
            name: VolumeStore.open(f"{folder}/v.db", branch=name) for name in self.stores
        }
        self.compare_all()

    @rule(number=picks, pick=picks, data=contents)
    def transact(self, number, pick, data):
        """Several changes at once, kept or thrown away."""
        name, store, model = self.pick(number)
        before, after = dict(model.tree), Model(model.tree)
        draft = self.do(store.versions.begin())
        inside = StoreDriver(draft.store)
        steps = (
            ("write", new(after.tree, pick), data), ("make_dir", new(after.tree, pick // 3)),
            ("remove", some(after.tree, pick // 5)), ("write", new(after.tree, pick // 7), b"x"),
        )  # fmt: skip
        done = 0
        for verb, *arguments in steps:
            options = {"recursive": True} if verb == "remove" else {}
            if getattr(after, verb)(*arguments):
                done += 1
                said = self.do(outcome(getattr(inside, verb)(*arguments, **options)))
                assert said == "done", (verb, arguments)
        assert self.do(tree_of(draft.store)) == after.tree
        assert self.do(tree_of(store)) == before
        first = self.last(store) + 1
        if pick % 3:
            self.do(draft.commit(Mark()))
            model.tree = after.tree
            if self.last(store) >= first:
                model.keep(self.last(store))
                self.steps[name] = (first, self.last(store), before)
        self.do(draft.discard())
        assert self.do(tree_of(store)) == model.tree

    @rule(number=picks, pick=picks, data=contents)
    def work_in_a_fork(self, number, pick, data):
        """What was done in a fork alone comes back as it is."""
        name, store, model = self.pick(number)
        before, work = dict(model.tree), Model(model.tree)
        fork = f"merged{next(self.numbers)}"
        opened = self.do(store.versions.fork(fork))
        there = StoreDriver(opened)
        for verb, *arguments in (
            ("write", new(work.tree, pick), data), ("remove", some(work.tree, pick // 5)),
        ):  # fmt: skip
            if getattr(work, verb)(*arguments):
                options = {"recursive": True} if verb == "remove" else {}
                self.do(getattr(there, verb)(*arguments, **options))
        first = self.last(store) + 1
        merged = self.do(store.versions.merge(fork))
        assert not merged.conflicts
        model.tree = work.tree
        if self.last(store) >= first:
            model.keep(self.last(store))
            self.steps[name] = (first, self.last(store), before)
        assert self.do(tree_of(store)) == model.tree
        self.do(opened.aclose())
        self.do(store.versions.delete_fork(fork))


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-5", "VOL-6", "VOL-7")
def test_histories_survive_crashes(tmp_path):
    settings = hypothesis.settings(max_examples=15, stateful_step_count=35)
    run_state_machine_as_test(Crashing, settings=settings)


# --- the same steps on every store ---------------------------------------------------------------

VERBS = ("write", "write", "append", "make_dir", "make_dir", "symlink", "remove", "move", "copy")


async def walked(fs, seed, steps):
    """A random walk; what each step came to, and the tree in the end."""
    chance, said = random.Random(seed), []
    names = [f"{a}{b}" for a in ("a", "b", "a/b", "a/b/c") for b in ("", "/a", "/b")]
    for _ in range(steps):
        verb, path, to = chance.choice(VERBS), chance.choice(names), chance.choice(names)
        if verb in ("write", "append"):
            call = getattr(fs, verb)(path, chance.randbytes(chance.choice((0, 3, 5_000, 9_000))))
        elif verb == "make_dir":
            call = fs.make_dir(path)
        elif verb == "symlink":
            call = fs.symlink(path, chance.choice(("a", "b", "nowhere")))
        elif verb == "remove":
            call = fs.remove(path, recursive=True)
        elif verb == "move":
            call = fs.move(path, to, replace=True)
        else:
            call = fs.copy(path, to, recursive=True)
        said.append((verb, path, to, await outcome(call)))
    return said, await tree_of(fs.store)


@pytest.mark.slow
@pytest.mark.spec("VOL-12")
@pytest.mark.parametrize("seed", range(10))
async def test_the_same_steps_give_the_same_tree_everywhere(tmp_path, seed):
    results = []
    for make in (make_memory(), make_disk(tmp_path, "auto"), make_volume(tmp_path)):
        fs = await make()
        results.append(await walked(fs, seed, 150))
        await fs.aclose()
    assert results[0] == results[1] == results[2]
