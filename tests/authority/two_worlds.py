"""Two worlds that differ in nothing but what is kept from an agent: whatever it asks for, it is
told the same in both.

`Worlds` opens both, on any kind of store, and `Worlds.same` has both do one thing and holds the
answers against each other: values, errors with their words, hints and details. What may differ is
replaced before, and nothing else:

- Names that are drawn for each call, run, copy or version are numbered in the order in which the
  agent met them: they say nothing but whether two are the same. A volume numbers the changes of
  everybody, and so do the versions of its trees.
- Times are when something was done. Those that somebody set are compared.
- A directory's time and version change with any name in it, also a hidden one: SECURITY.md says so.
- The hash of an archive, which holds times.
"""

import contextlib
import functools
import re

import msgspec

import bailiwick
from tests.authority.support import EVERYTHING, ME, governed, plant, rule

RUNNING = (*EVERYTHING, "execute")
SET_TIME_NS = 10**18

HIDE = rule("hide", "secret", "*.pem", subject="agent_run:*")
MAY_RUN = (
    f'[[grant]]\nsubject = "agent_run:*"\nroot = "workspace:demo"\naccess = {list(RUNNING)!r}\n'
    '[[rule]]\nid = "run"\noperation = ["exec"]\neffect = "allow"\n'
)

_DRAWN = {"current_version", "id", "request_id", "run", "version", "work_id"}
_OF_DIRECTORIES = ("links", "mtime_ns", "size", "version")
_OF_TREES = ("Fork", "Snapshot")
_TIME = re.compile(r".*_(ns|ms)")
_QUOTED = re.compile("'([^']+)'")


class World:
    """One of both: the agent that is told nothing, and a person who changes things."""

    def __init__(self, number, house):
        self.number = number
        self.house = house
        self.work = None
        self._numbers = {}
        self.drawn = {}

    def plain(self, value, name=""):
        """What the agent was told, without what may differ."""
        if isinstance(value, bailiwick.BailiwickError):
            said = {
                each: getattr(value, each) for each in ("path", "hint", "decided_by", "details")
            }
            return self.plain({"kind": value.kind, "message": value.message, **said})
        if isinstance(value, msgspec.Struct):
            return self._fields(value)
        if isinstance(value, dict):
            return {str(key): self.plain(each, str(key)) for key, each in value.items()}
        if hasattr(value, "_asdict"):
            return self.plain(value._asdict())
        if isinstance(value, (list, tuple)):
            return [self.plain(each, name) for each in value]
        if value is None or isinstance(value, (bytes, bool)):
            return value
        if isinstance(value, (int, float)):
            return "time" if _TIME.fullmatch(name) and value != SET_TIME_NS else value
        assert isinstance(value, str), value
        if name in _DRAWN and value:
            self.drawn.setdefault(name, {})[value] = None
            return self._numbered(name, value)
        if name in ("message", "hint"):
            for drawn in self.drawn:
                value = _QUOTED.sub(functools.partial(self._requoted, drawn), value)
        return str(value)

    def _numbered(self, name, value):
        return f"{name} {self._numbers.setdefault(value, len(self._numbers))}"

    def _requoted(self, name, quoted):
        """A name that the agent itself gave, as an error repeats it."""
        value = quoted[1]
        return self._numbered(name, value) if value in self.drawn[name] else quoted[0]

    def _fields(self, value):
        what = type(value).__name__
        told = {each: getattr(value, each) for each in value.__struct_fields__}
        if told.get("type") == "directory":
            told |= dict.fromkeys(each for each in _OF_DIRECTORIES if each in told)
        if what in _OF_TREES:
            told["version"] = None
        if what == "History":
            told["next_cursor"] = told["next_cursor"] is not None
        if what == "ArchiveResult":
            told["sha256"] = None
        return {"": what, **self.plain(told)}

    def met(self, name, number):
        """The name of a version, request or the like that the agent was told of."""
        met = list(self.drawn.get(name, ()))
        return met[number % len(met)] if met else "1"

    async def told(self, act):
        """What an act comes to for the agent: ``act(world)``."""
        try:
            return self.plain(await act(self))
        except bailiwick.BailiwickError as error:
            return self.plain(error)


class Worlds:
    """Both of them."""

    def __init__(self, *both):
        self.both = both

    async def same(self, act):
        """Have both do the same, and be told the same, which is returned."""
        here, there = [await world.told(act) for world in self.both]
        assert here == there
        return here


@contextlib.asynccontextmanager
async def opened(tmp_path, tree, *kept, rules=HIDE, kind="disk", narrowed=None, options=""):
    """Two worlds with the same tree, and each with what is ``kept`` from the agent there."""
    async with contextlib.AsyncExitStack() as stack:
        both = []
        for number, more in enumerate(kept):
            place = tmp_path / f"world-{number}"
            (place / "tree").mkdir(parents=True)
            (place / "tree").chmod(0o700)
            where = {
                "memory": None, "disk": place / "tree", "history": place / "tree",
                "volume": f"sqlite:{place}/v.db", "overlay": f"overlay:{place}/tree",
            }[kind]  # fmt: skip
            more_options = options + ('history = "on"\n' if kind == "history" else "")
            opening = governed(
                place, rules + MAY_RUN, place=where, state_dir=place / "state",
                options=more_options,
            )  # fmt: skip
            world = World(number, await stack.enter_async_context(opening))
            world.person = await world.house.scope(RUNNING, subject=ME)
            await plant(world.person, tree | more)
            world.agent = await world.house.scope(RUNNING)
            if narrowed is not None:
                heir = bailiwick.AgentRun("c1", "heir")
                world.agent = await world.agent.delegate(heir, denied=narrowed)
            both.append(world)
        yield Worlds(*both)
