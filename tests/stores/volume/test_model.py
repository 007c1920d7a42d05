"""Random histories of several branches, held against plain dicts that remember everything."""

import asyncio
import itertools
import os
import random
import shutil
import tempfile

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from bailiwick.paths import ScopedPath
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Undoing
from tests.stores.volume.trees import Model, outcome, tree_of

NAMES = ("a", "b", "c")
DEPTH_MAX = 4
contents = st.sampled_from((b"", b"x", b"hello", b"y" * 5_000, b"z" * 9_000))
picks = st.integers(0, 10**6)


def some(tree, pick):
    """A path that is there, if there is any."""
    found = sorted(tree)
    return found[pick % len(found)] if found else "a"


def new(tree, pick):
    """A name in some directory that is there, taken or not."""
    places = ["", *(f"{path}/" for path in sorted(tree) if tree[path] is None)]
    places = [place for place in places if place.count("/") < DEPTH_MAX]
    return places[pick % len(places)] + NAMES[pick // 7 % len(NAMES)]


class Histories(RuleBasedStateMachine):
    """Verbs and versions on up to six branches of one volume."""

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="volume-model-", dir=memory)
        self.stores = {"main": VolumeStore.open(f"{self.folder}/v.db")}
        self.models = {"main": Model()}
        self.snapshots = {}
        self.numbers = itertools.count()
        self.horizon = 0
        self.steps = {}  # branch → the last change that can be undone, and the tree before it

    def do(self, coroutine):
        return self.runner.run(coroutine)

    def pick(self, number):
        names = sorted(self.stores)
        name = names[number % len(names)]
        return name, self.stores[name], self.models[name]

    def last(self, store):
        async def look():
            async with store.core.looking() as session:
                return (await session.row("SELECT last FROM volume"))[0]

        return self.do(look())

    def change(self, number, verb, *arguments, **options):
        name, store, model = self.pick(number)
        before = dict(model.tree)
        done = getattr(model, verb)(*arguments)
        first = self.last(store) + 1
        said = self.do(outcome(getattr(StoreDriver(store), verb)(*arguments, **options)))
        assert (said == "done") == done or (verb == "move" and arguments[0] == arguments[1]), (
            verb, arguments, said,
        )  # fmt: skip
        if done:
            model.keep(self.last(store))
            self.steps[name] = (first, self.last(store), before)
        assert self.do(tree_of(store)) == model.tree

    @rule(number=picks, pick=picks, data=contents)
    def write(self, number, pick, data):
        tree = self.pick(number)[2].tree
        self.change(number, "write", some(tree, pick) if pick % 3 == 0 else new(tree, pick), data)

    @rule(number=picks, pick=picks, data=contents)
    def append(self, number, pick, data):
        self.change(number, "append", some(self.pick(number)[2].tree, pick), data)

    @rule(number=picks, pick=picks)
    def make_dir(self, number, pick):
        self.change(number, "make_dir", new(self.pick(number)[2].tree, pick))

    @rule(number=picks, pick=picks)
    def symlink(self, number, pick):
        # Nothing is ever reached through it, so that the model needs to know no links.
        self.change(number, "symlink", new(self.pick(number)[2].tree, pick), "nowhere")

    @rule(number=picks, pick=picks)
    def remove(self, number, pick):
        self.change(number, "remove", some(self.pick(number)[2].tree, pick), recursive=True)

    @rule(number=picks, pick=picks, to=picks)
    def move(self, number, pick, to):
        tree = self.pick(number)[2].tree
        target = some(tree, to) if to % 4 == 0 else new(tree, to)
        self.change(number, "move", some(tree, pick), target, replace=True)

    @rule(number=picks, pick=picks, to=picks)
    def copy(self, number, pick, to):
        tree = self.pick(number)[2].tree
        self.change(number, "copy", some(tree, pick), new(tree, to), recursive=True)

    @rule(number=picks, back=st.integers(0, 5))
    def fork(self, number, back):
        if len(self.stores) >= 6:
            return
        name, store, model = self.pick(number)
        version, tree = model.past[-1 - back % len(model.past)]
        fork = f"fork{next(self.numbers)}"
        if version < self.horizon or version == 0 or back == 0:
            version, tree, said = self.last(store), dict(model.tree), None
        else:
            said = str(version)
        self.stores[fork] = self.do(store.versions.fork(fork, version=said))
        self.models[fork] = Model(tree, version)
        assert self.do(tree_of(self.stores[fork])) == tree, name

    @rule(number=picks)
    def snapshot(self, number):
        _, store, model = self.pick(number)
        name = f"s{next(self.numbers)}"
        self.do(store.versions.snapshot(name))
        self.snapshots[name] = dict(model.tree)

    @rule(number=picks, which=picks)
    def delete_snapshot(self, number, which):
        _, store, _ = self.pick(number)
        if self.snapshots:
            name = sorted(self.snapshots)[which % len(self.snapshots)]
            self.do(store.versions.delete_snapshot(name))
            del self.snapshots[name]

    @rule(number=picks)
    def delete_fork(self, number):
        name, store, _ = self.pick(number)
        if name != "main" and len(self.stores) > 3:
            self.do(store.aclose())
            del self.stores[name], self.models[name]
            self.steps.pop(name, None)
            self.do(self.stores["main"].versions.delete_fork(name))

    @rule(number=picks, pick=picks, back=st.integers(0, 6))
    def restore(self, number, pick, back):
        name, store, model = self.pick(number)
        version, tree = model.past[-1 - back % len(model.past)]
        path = some(tree if pick % 2 else model.tree, pick)
        before = dict(model.tree)
        if version < self.horizon or version == 0:
            return
        inside = lambda each: each == path or each.startswith(f"{path}/")  # noqa: E731
        parents = ["/".join(path.split("/")[:n]) for n in range(1, len(path.split("/")))]
        if any(model.tree.get(each, None) is not None for each in parents):
            return
        if path not in tree and path not in model.tree:
            return
        first = self.last(store) + 1
        restored = self.do(store.versions.restore(ScopedPath(path), str(version)))
        for each in parents:
            model.tree.setdefault(each, None)
        model.tree = {each: model.tree[each] for each in model.tree if not inside(each)}
        model.tree |= {each: tree[each] for each in tree if inside(each)}
        model.keep(self.last(store))
        assert (restored.version is not None) == (model.tree != before) or restored.plan.touches
        if restored.version is not None:
            self.steps[name] = (first, self.last(store), before)
        assert self.do(tree_of(store)) == model.tree

    @rule(number=picks)
    def undo(self, number):
        """The last change of a branch can always be taken back whole."""
        name, store, model = self.pick(number)
        first, last, before = self.steps.get(name, (0, 0, None))
        if before is None or first <= self.horizon:
            return
        now = dict(model.tree)
        what = Undoing(first=str(first), last=str(last))
        plan = self.do(store.versions.plan_undo(what))
        assert plan.conflicts == []
        assert self.do(tree_of(store)) == now
        undone_first = self.last(store) + 1
        self.do(store.versions.undo(what, cleared=plan))
        model.tree = dict(before)
        model.keep(self.last(store))
        self.steps[name] = (undone_first, self.last(store), now)
        assert self.do(tree_of(store)) == model.tree

    @rule(number=picks)
    def collect(self, number):
        _, store, _ = self.pick(number)
        self.horizon = int(self.do(store.versions.collect(keep_days=0)).horizon)
        self.compare_all()

    @rule(number=picks, back=st.integers(0, 8))
    def look_back(self, number, back):
        _, store, model = self.pick(number)
        version, tree = model.past[-1 - back % len(model.past)]
        if version < self.horizon or version == 0:
            return
        then = self.do(store.versions.as_of(str(version)))
        assert self.do(tree_of(then)) == tree
        self.do(then.aclose())

    def compare_all(self):
        for name, store in self.stores.items():
            assert self.do(tree_of(store)) == self.models[name].tree, name
        main = self.stores["main"]
        for name, tree in self.snapshots.items():
            then = self.do(main.versions.as_of(name))
            assert self.do(tree_of(then)) == tree, name
            self.do(then.aclose())

    def teardown(self):
        try:
            self.compare_all()
            checked = self.do(self.stores["main"].versions.check())
            assert checked.problems == []
        finally:
            for store in self.stores.values():
                self.do(store.aclose())
            self.runner.close()
            shutil.rmtree(self.folder)


@pytest.mark.slow
@pytest.mark.spec("VOL-5", "VOL-6", "VOL-8")
def test_histories_are_what_dicts_remember():
    settings = hypothesis.settings(max_examples=25, stateful_step_count=40)
    run_state_machine_as_test(Histories, settings=settings)


CHANGES = ("write", "append", "make_dir", "make_dir", "symlink", "remove", "move", "move", "copy")
VERSIONS = ("fork", "snapshot", "delete_snapshot", "restore", "undo", "collect", "look_back",
            "delete_fork")  # fmt: skip


def run_seed(seed, steps):
    """The same machine on a long random walk: what shrinks well seldom grows a deep history."""
    rng = random.Random(seed)
    machine = Histories()
    try:
        for _ in range(steps):
            verb = rng.choice(CHANGES if rng.random() < 0.75 else VERSIONS)
            arguments = {"number": rng.randrange(10**6)}
            if verb in CHANGES or verb == "restore":
                arguments["pick"] = rng.randrange(10**6)
            if verb in ("write", "append"):
                arguments["data"] = rng.choice((b"", b"x", b"y" * 5_000, b"z" * 9_000))
            if verb in ("move", "copy"):
                arguments["to"] = rng.randrange(10**6)
            if verb in ("fork", "restore", "look_back"):
                arguments["back"] = rng.randrange(8)
            if verb == "delete_snapshot":
                arguments["which"] = rng.randrange(10**6)
            getattr(machine, verb)(**arguments)
    finally:
        machine.teardown()


@pytest.mark.slow
@pytest.mark.spec("VOL-5", "VOL-6", "VOL-8")
@pytest.mark.parametrize("seed", range(12))
def test_long_histories_are_what_dicts_remember(seed):
    run_seed(seed, 120)
