"""Random sequences of verbs: memory against a dict, disk against memory, step by step."""

import asyncio
import itertools

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from bailiwick.errors import BailiwickError, SymlinkEscape
from bailiwick.paths import ScopedPath, from_parts
from bailiwick.testing.model import DictModel, ModelDirectory, ModelFile, Refused
from tests.stores.trees import disk_store, litter, make_disk, make_memory

# Few names, and the first of them often: a sequence must meet its own traces again.
NAMES = ("a", "a", "a", "b", "b", "l", "l", "ab", "A")
DEPTH_MAX = 3

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=DEPTH_MAX).map(tuple)
places = st.one_of(paths, paths, paths, st.just(()))
contents = st.sampled_from((b"", b"x", b"hello", b"\0\xff"))
modes = st.sampled_from((0o600, 0o644, 0o755))
inner_links = ("a", "b", "ab", "A", "l", ".", "./a", "a/b", "a/../b", "b/", "l/a", "a/.")
climbing_links = ("..", "../a", "../b", "../../a", "a/../../b")
absolute_links = ("/", "/a", "/a/b", "/l")


def text(parts):
    return "/".join(parts) or "."


def leads_out(place, target):
    """Whether a link's text climbs above the root, read as text from where the link stands."""
    depth = len(place.parts) - 1
    for part in target.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return True
    return target.startswith("/")


async def snapshot(fs):
    """Everything in a tree: type, and content or link text, and mode."""
    found, waiting = {}, ["."]
    while waiting:
        directory = waiting.pop()
        for entry in await fs.entries(directory):
            path = entry.name if directory == "." else f"{directory}/{entry.name}"
            if entry.type == "symlink":
                found[path] = ("symlink", await readlink_or_outside(fs, path))
                continue
            mode = (await fs.stat(path)).mode
            if entry.type == "directory":
                found[path] = ("directory", mode)
                waiting.append(path)
            else:
                found[path] = ("file", await fs.read(path), mode)
    return found


async def readlink_or_outside(fs, path):
    """A link that was moved to where it leads out is not shown by a disk."""
    try:
        return await fs.readlink(path)
    except SymlinkEscape:
        return "outside"


async def canonical(fs, path):
    """The place that a path names, or None where the way there is not sound."""
    try:
        handle = await fs.store.resolve(from_parts(path), "entry")
    except BailiwickError:
        return None
    handle.close()
    return handle.path


async def makes_a_link_that_leads_out(memory, verb, arguments):
    """What memory does and a disk refuses: the one declared difference that verbs can meet."""
    if verb == "symlink":
        place = await canonical(memory, arguments[0])
        return place is not None and leads_out(place, arguments[1])
    if verb != "copy":
        return False
    source, place = [await canonical(memory, path) for path in arguments]
    if source is None or place is None:
        return False
    return any(
        leads_out(ScopedPath(path).relative_to(source).beneath(place), seen[1])
        for path, seen in (await snapshot(memory)).items()
        if seen[0] == "symlink" and ScopedPath(path).lies_in(source)
    )


async def outcome(call):
    try:
        return "done", await call
    except BailiwickError as error:
        return "refused", error.kind


class Operations(RuleBasedStateMachine):
    """The verbs, each by one rule; `perform` carries them out and compares."""

    link_texts = inner_links + climbing_links + absolute_links

    def perform(self, verb, *arguments, **options):
        raise NotImplementedError

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()

    def teardown(self):
        self.runner.close()

    @rule(path=places, data=contents, mode=st.sampled_from(("overwrite", "create", "replace")),
          parents=st.booleans(), file_mode=st.none() | modes)  # fmt: skip
    def write(self, path, data, mode, parents, file_mode):
        self.perform("write", path, data, mode=mode, parents=parents, file_mode=file_mode)

    @rule(path=places, data=contents)
    def append(self, path, data):
        self.perform("append", path, data)

    @rule(path=places, size=st.integers(0, 6))
    def truncate(self, path, size):
        self.perform("truncate", path, size)

    @rule(path=places, parents=st.booleans())
    def make_dir(self, path, parents):
        self.perform("make_dir", path, parents=parents)

    @rule(path=places, recursive=st.booleans())
    def remove(self, path, recursive):
        self.perform("remove", path, recursive=recursive)

    @rule(path=places, to=places, replace=st.booleans())
    def move(self, path, to, replace):
        self.perform("move", path, to, replace=replace)

    @rule(path=places, to=places, recursive=st.booleans())
    def copy(self, path, to, recursive):
        self.perform("copy", path, to, recursive=recursive)

    @rule(path=paths, data=st.data())
    def symlink(self, path, data):
        self.perform("symlink", path, data.draw(st.sampled_from(self.link_texts)))

    @rule(path=places, file_mode=modes)
    def set_mode(self, path, file_mode):
        self.perform("set_mode", path, file_mode)

    @rule(path=places, verb=st.sampled_from(("read", "entries", "lstat", "stat", "readlink")))
    def look(self, path, verb):
        self.perform(verb, path)


def plain(verb, result):
    """A driver's result in the model's words."""
    if verb in ("write", "append", "truncate"):
        return result.created
    if verb == "entries":
        return [entry.name for entry in result]
    if verb == "lstat":
        return result.type
    return (result.path, result.type) if verb == "stat" else result


class MemoryAgainstDict(Operations):
    def __init__(self):
        super().__init__()
        self.model = DictModel()
        self.fs = self.runner.run(make_memory()())

    def perform(self, verb, *arguments, **options):
        spelled = [text(a) if isinstance(a, tuple) else a for a in arguments]
        call = getattr(self.fs, verb)(*spelled, **options)
        said, result = self.runner.run(outcome(call))
        try:
            expected = ("done", getattr(self.model, verb)(*arguments, **options))
        except Refused as refusal:
            expected = ("refused", refusal.kind)
        assert (said, plain(verb, result) if said == "done" else result) == expected
        assert self.runner.run(snapshot(self.fs)) == self.model_snapshot()

    def model_snapshot(self):
        found = {}
        for parts, node in self.model.nodes.items():
            if not parts:
                continue
            if isinstance(node, ModelDirectory):
                found[text(parts)] = ("directory", node.mode)
            elif isinstance(node, ModelFile):
                found[text(parts)] = ("file", node.data, node.mode)
            else:
                found[text(parts)] = ("symlink", node.text)
        return found


@pytest.mark.spec("VOL-12", "TREE-3", "LINK-2")
@pytest.mark.slow
def test_memory_does_what_a_dict_predicts():
    settings = hypothesis.settings(max_examples=150, stateful_step_count=30)
    run_state_machine_as_test(MemoryAgainstDict, settings=settings)


def disk_against_memory(tmp_path, containment):
    numbers = itertools.count()

    class DiskAgainstMemory(Operations):
        link_texts = inner_links + climbing_links

        def __init__(self):
            super().__init__()
            self.place = tmp_path / f"example{next(numbers)}"
            self.disk = self.runner.run(make_disk(self.place, containment)())
            self.memory = self.runner.run(make_memory()())

        def perform(self, verb, *arguments, **options):
            if self.runner.run(makes_a_link_that_leads_out(self.memory, verb, arguments)):
                return
            spelled = [text(a) if isinstance(a, tuple) else a for a in arguments]
            here = self.runner.run(outcome(getattr(self.disk, verb)(*spelled, **options)))
            there = self.runner.run(outcome(getattr(self.memory, verb)(*spelled, **options)))
            if verb == "readlink" and (here[1], there[0]) == ("symlink_escape", "done"):
                return  # declared as different: a disk does not show where such a link leads
            shown = [(said, plain(verb, r) if said == "done" else r) for said, r in (here, there)]
            assert shown[0] == shown[1], (verb, spelled, options)
            self.compare_trees()

        def compare_trees(self):
            disk, memory = (self.runner.run(snapshot(fs)) for fs in (self.disk, self.memory))
            for path, seen in disk.items():
                if seen == ("symlink", "outside"):
                    disk[path] = memory[path]
            assert disk == memory
            assert litter(self.place) == []

        def teardown(self):
            self.runner.run(self.disk.aclose())
            super().teardown()

    return DiskAgainstMemory


@pytest.mark.slow
@pytest.mark.spec("VOL-12", "TREE-3", "LINK-2")
@pytest.mark.parametrize("containment", ["auto", "walk"])
def test_disk_does_what_memory_does(tmp_path, containment):
    machine = disk_against_memory(tmp_path, containment)
    disk_store()  # skips here, with its reason, where there is none
    settings = hypothesis.settings(max_examples=60, stateful_step_count=30)
    run_state_machine_as_test(machine, settings=settings)
