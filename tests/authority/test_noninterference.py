"""Whatever an agent does, it is told the same in two worlds that differ in what is kept from it."""

import contextlib
import tempfile
from pathlib import Path

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

import bailiwick
from tests.authority.two_worlds import SET_TIME_NS, opened

pytestmark = pytest.mark.slow

TREE = {
    "pub/a": "one\ntwo\n", "pub/sub/b": "bee\n", "d/e/f": "eff\n", "d/g": "gee\ntwo\n",
    "l": "-> secret", "lk": "-> secret/key", "d/up": "-> ../secret/sub", "pub/pem": "-> x.pem",
    "li": "-> d", "empty": None,
    # A directory that holds something hidden cannot be removed, and that may be known: so each
    # holds something in both worlds.
    "pub/always.pem": "p", "pub/sub/always.pem": "p", "d/always.pem": "p", "d/e/always.pem": "p",
    "secret/always": "p", "empty/always.pem": "p",
}  # fmt: skip
KEPT = [
    {},
    {"secret/key": "AAAA\n", "secret/sub/k2": "KK\n"},
    {"secret/key": "two\n", "pub/x.pem": "PEM\n", "d/h.pem": "H\n", "d/z.pem": "Z" * 50},
    {"secret/key": "one\ntwo\n", "secret/sub/k3": "", "secret/sub/out": "-> ../../d"},
    {"secret/key": "-> ../pub/a", "secret/sub": "-> ../d", "pub/x.pem": "-> a"},
    {"secret/key/deep": "x", "secret/sub": "f", "pub/x.pem/in": "x", "d/.gitignore.pem": "*"},
    {"secret/key": "-> key", "secret/sub/k2": "z", "d/e/c.pem": "-> nowhere"},
]
NAMES = [
    ".", "pub", "d", "d/e", "pub/sub", "pub/a", "d/g", "d/e/f", "l", "lk", "l/key", "l/sub",
    "l/sub/out/g", "l/new", "secret", "secret/key", "secret/sub", "secret/new", "d/up",
    "d/up/k2", "d/up/out/g", "pub/pem", "pub/pem/in", "pub/x.pem", "d/h.pem", "d/H.PEM", "li",
    "li/g", "li/h.pem", "li/up", "Secret", "SECRET/key", "new", "new/e", "new/key", "new/h.pem",
    "new/x.pem", "empty", "lk/x",
]  # fmt: skip
PATHS = st.sampled_from(NAMES)
TEXTS = st.sampled_from(["mine\n", "one\ntwo\n", "AAAA\n", ""])
TARGETS = st.sampled_from(["secret", "secret/key", "../secret/key", "pub", "key", "x.pem"])
PATTERNS = st.sampled_from(["*", "**", "**/*.pem", "*key*", "secret/**", "l/*", "li/*"])
NUMBERS = st.integers(0, 20)
SEEN = st.sampled_from(["pub/a", "d/g", "new", "d", "d/e", "l", "li", "pub/pem", "empty"])
UNSEEN = st.sampled_from(["secret/key", "pub/x.pem", "d/h.pem", "secret/sub", "d/e/c.pem"])


def verb(name, *arguments, **options):
    """One call of the agent."""
    return st.tuples(st.just(name), st.tuples(*arguments), st.fixed_dictionaries(options))


READS = [
    verb("read_text", PATHS), verb("stat", PATHS), verb("lstat", PATHS), verb("exists", PATHS),
    verb("readlink", PATHS), verb("list", PATHS, limit=st.sampled_from([1, 2, 50])),
    verb("find", PATHS, PATTERNS, limit=st.sampled_from([1, 3, 50])), verb("files", PATHS),
    verb("find", PATHS, empty=st.booleans()), verb("glob", PATTERNS, PATHS),
    verb("grep", st.sampled_from(["two", "e", "p"]), PATHS, context=st.just(1)),
    verb("diff", PATHS, PATHS), verb("diff", PATHS, text=TEXTS),
]  # fmt: skip
CHANGES = [
    verb("write_text", PATHS, TEXTS, parents=st.booleans()),
    verb("write_text", PATHS, TEXTS, mode=st.sampled_from(["create", "replace"])),
    verb("append", PATHS, TEXTS), verb("truncate", PATHS), verb("symlink", PATHS, TARGETS),
    verb("make_dir", PATHS, parents=st.booleans()), verb("remove", PATHS, recursive=st.booleans()),
    verb("move", PATHS, PATHS, replace=st.booleans()),
    verb("copy", PATHS, PATHS, recursive=st.just(True)),
    verb("create_archive", PATHS, st.sampled_from(["new.tar", "d/h.pem", "empty/n.tar"])),
    verb("extract_archive", st.sampled_from(["new.tar", "empty/n.tar"]), PATHS),
    verb("set_mode", PATHS, st.just(0o700)), verb("set_times", PATHS, st.just(SET_TIME_NS)),
]  # fmt: skip
PAST = [
    verb("history", PATHS, limit=st.sampled_from([1, 50])),
    st.tuples(st.just("past"), st.sampled_from(["read_text", "stat", "list"]), PATHS, NUMBERS),
    st.tuples(st.just("past"), st.just("restore"), PATHS, NUMBERS),
    st.tuples(st.just("undo"), NUMBERS, st.booleans()),
    st.tuples(st.just("run"), PATHS, st.booleans()),
]
MEANWHILE = [
    st.tuples(st.just("watched"), st.booleans()),
    st.tuples(st.just("seen"), SEEN, TEXTS | st.none() | TARGETS.map("-> {}".format)),
    st.tuples(st.just("moved"), SEEN, st.sampled_from(["new", "moved"])),
    st.tuples(st.just("unseen"), UNSEEN, st.sampled_from(["write", "remove", "dir", "link"])),
]
FORKS = st.sampled_from(["one", "two"])
BRANCHES = [
    verb("snapshot", FORKS), verb("snapshots"), verb("forks"), verb("compare", FORKS),
    verb("merge", FORKS, preview=st.booleans()), st.tuples(st.just("fork"), FORKS),
    st.tuples(st.just("apart"), FORKS, st.one_of(*READS, *CHANGES)),
    st.tuples(st.just("apart"), st.none(), st.one_of(*READS, *CHANGES)),
]  # fmt: skip
STEPS = {
    "memory": [*READS, *CHANGES, *MEANWHILE],
    "disk": [*READS, *CHANGES, *MEANWHILE],
    "history": [*READS, *CHANGES, *MEANWHILE, *PAST],
    "volume": [*READS, *CHANGES, *MEANWHILE, *PAST, *BRANCHES],
    "overlay": [*READS, *CHANGES, *MEANWHILE, verb("changes")],
}


class Step:
    """One thing that happens in a world."""

    def __init__(self, what, *rest):
        self._what = what
        self._rest = rest

    async def __call__(self, world):
        own = getattr(self, f"_{self._what}", None)
        return await (self._verb(world.agent) if own is None else own(world, *self._rest))

    async def _verb(self, fs):
        arguments, options = self._rest
        result = await getattr(fs, self._what)(*arguments, **options)
        if isinstance(result, bailiwick.Scope):
            await result.aclose()
            return None
        return result

    async def _past(self, world, name, path, number):
        version = world.met("version", number)
        if name == "restore":
            return await world.agent.restore(path, version)
        return await getattr(world.agent, name)(path, as_of=version)

    async def _undo(self, world, number, preview):
        return await world.agent.undo(world.met("request_id", number), preview=preview)

    async def _run(self, world, path, brief):
        runs = await world.agent.runs(brief=brief)
        if not runs:
            return None
        told = await world.agent.run_changes(runs[0].id, paths=[path] if brief else ())
        return [[each.info for each in runs], told]

    async def _fork(self, world, name):
        await (await world.agent.fork(name)).aclose()

    async def _apart(self, world, name, step):
        """In a fork, or in a transaction."""
        if name is None:
            async with world.agent.transaction() as draft:
                return await world.told(lambda _: Step(*step)._verb(draft))
        fork = await world.agent.open_fork(name)
        try:
            return await world.told(lambda _: Step(*step)._verb(fork))
        finally:
            await fork.aclose()

    async def _watched(self, world, expand):
        """What the feed has told so far, up to a change that the agent makes itself."""
        world.marks += 1
        mark = f"mark-{world.marks}"
        await world.agent.write_text(mark, "")
        told, changes = [], world.agent.watch(since=world.begun, expand=expand)
        async with contextlib.aclosing(changes):
            async for change in changes:
                # Where it goes on is counted in changes of everybody.
                told.append(msgspec.structs.replace(change, cursor=""))
                if change.path == mark:
                    break
        return told

    async def _seen(self, world, path, content):
        """A person changes what the agent may see, in both worlds the same."""
        person = world.person
        await _quietly(person.remove(path, recursive=True))
        if content is None:
            await _quietly(person.make_dir(path))
        elif content.startswith("-> "):
            await _quietly(person.symlink(path, content[3:]))
        else:
            await _quietly(person.write_text(path, content))

    async def _moved(self, world, path, to):
        await _quietly(world.person.remove(to, recursive=True))
        await _quietly(world.person.move(path, to))

    async def _unseen(self, world, path, how):
        """They change what the agent may not see, in each world in another way."""
        person, number = world.person, world.number
        parents = path.split("/")[:-1]
        for count in range(1, len(parents) + 1):
            place = "/".join(parents[:count])
            if not await person.exists(place) or (await person.lstat(place)).type != "directory":
                return  # what lies there by now may be seen by other names
        if number == 0 or how != "remove":
            await _quietly(person.remove(path, recursive=True))
        if how == "write":
            await _quietly(person.write_text(path, "unseen\n" * (number + 1)))
        elif how == "dir" and number:
            await _quietly(person.make_dir(path))
        elif how == "link":
            await _quietly(person.symlink(path, ["nowhere", "always.pem"][number]))


async def _quietly(work):
    with contextlib.suppress(bailiwick.BailiwickError):
        await work


async def _lived(kind, narrowed, kept, steps):
    with tempfile.TemporaryDirectory() as place:
        rules = {} if narrowed is None else {"rules": "", "narrowed": narrowed}
        async with opened(Path(place), TREE, *kept, kind=kind, **rules) as worlds:
            for world in worlds.both:
                world.begun, world.marks = await world.agent.change_cursor(), 0
            for step in steps:
                await worlds.same(Step(*step))


NARROWED = st.sampled_from([None, ["secret", "secret/**", "**/*.pem"]])
BOTH = st.lists(st.sampled_from(KEPT), min_size=2, max_size=2, unique_by=str)


@pytest.mark.spec("POL-1", "GREP-4", "AUTH-5")
@hypothesis.settings(max_examples=30)
@hypothesis.given(data=st.data(), narrowed=NARROWED, kept=BOTH)
async def test_an_agent_is_told_the_same_whatever_is_kept_from_it(data, narrowed, kept):
    steps = data.draw(st.lists(st.one_of(*STEPS["memory"]), max_size=12))
    await _lived("memory", narrowed, kept, steps)


@pytest.mark.spec("POL-1", "PAST-3", "VOL-5", "OVER-1")
@pytest.mark.parametrize("kind", ["disk", "history", "volume", "overlay"])
@hypothesis.settings(max_examples=30)
@hypothesis.given(data=st.data(), narrowed=NARROWED, kept=BOTH)
async def test_an_agent_is_told_the_same_on_every_store(kind, data, narrowed, kept):
    steps = data.draw(st.lists(st.one_of(*STEPS[kind]), max_size=12))
    await _lived(kind, narrowed, kept, steps)
