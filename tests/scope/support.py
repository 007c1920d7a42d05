"""Scopes to test on: every kind of store, with a policy, a grant and hooks of one's own.

`opening` is the fixture to ask for: it opens scopes of one kind of store, and a test that uses it
runs once for each kind.
"""

import itertools
from contextlib import asynccontextmanager

import msgspec
import pytest

from bailiwick.audit import AuditRing
from bailiwick.build.options import read_options
from bailiwick.build.own import join
from bailiwick.build.stores import disk_store, memory_store
from bailiwick.grant import Grant
from bailiwick.grant_status import OwnStanding
from bailiwick.hook import Hooks
from bailiwick.paths import ScopedPath
from bailiwick.pipeline import Pipeline
from bailiwick.policy import Allow, AllowAll, Ask, Deny, Hide
from bailiwick.scope import Lent, Scope
from tests.feeds import memory_feed

KINDS = ("memory", "kernel", "walk")

WALK = pytest.param("walk", marks=pytest.mark.slow)
"""A verb does not know how its directory is confined: `make unit` goes without the second way."""

_count = itertools.count(1)


class Opener:
    """Opens scopes of one kind: ``async with opening(policy=…) as fs``."""

    def __init__(self, kind, tmp_path):
        self.kind = kind
        self._tmp_path = tmp_path

    @property
    def on_disk(self):
        return self.kind != "memory"

    def place(self):
        """A fresh place to open: a directory of its own, or memory."""
        if not self.on_disk:
            return "memory:"
        directory = self._tmp_path / f"{self.kind}-{next(_count)}" / "root"
        directory.mkdir(parents=True)
        directory.chmod(0o700)  # as every directory made through a scope
        return str(directory)

    def options(self, given):
        """The options of `bailiwick.open` for this kind."""
        if not self.on_disk:
            return given
        state = self._tmp_path / "state"
        state.mkdir(exist_ok=True)
        containment = "walk" if self.kind == "walk" else "auto"
        return {
            "durability": "rename", "containment": containment, "state_dir": str(state), **given,
        }  # fmt: skip

    @asynccontextmanager
    async def __call__(self, *, place=None, policy=None, path=".", hooks=(), **options):
        place = place or self.place()
        wanted = read_options(self.options(options))
        store = (disk_store if self.on_disk else _memory_store)(place, wanted)
        mount_point = place if self.on_disk else "/"
        whole = join(store, wanted, "test", mount_point, policy=policy)
        for hook in hooks:
            whole._pipeline.hooks.register(hook)
        try:
            yield granted(whole, path=ScopedPath(path))
        finally:
            await whole.aclose()


@pytest.fixture(params=["memory", "kernel", WALK])
def opening(request, tmp_path):
    return Opener(request.param, tmp_path)


@pytest.fixture(params=KINDS[:2])
def either(request, tmp_path):
    """`opening` for long tables of verbs, in which how a directory is confined plays no part."""
    return Opener(request.param, tmp_path)


@pytest.fixture(params=["kernel", WALK])
def disk(request, tmp_path):
    """`opening` for what only a real directory can hold."""
    return Opener(request.param, tmp_path)


def _memory_store(_place, options):
    return memory_store(options)


def granted(scope, **changes):
    """The same scope under another grant: another path, access, time or root."""
    grant = msgspec.structs.replace(scope.grant, **changes)
    return Scope(msgspec.structs.replace(scope._lent, grant=grant))


def unruled(scope):
    """The whole tree beneath a scope, without its policy, hooks and grant: to plant and to look."""
    machine = scope._pipeline.machine
    pipeline = Pipeline(
        store=scope._pipeline.store, policy=AllowAll(), hooks=Hooks(seconds_max=1),
        ledger=AuditRing(1), changes=memory_feed(), machine=machine,
        standing=OwnStanding(machine.time_ns),
    )  # fmt: skip
    root = msgspec.structs.replace(scope.root, trusted=True)
    grant = Grant(id="unruled", subject=scope.subject, root=root)
    return Scope(Lent(pipeline=pipeline, grant=grant, ignores=scope._ignores))


def records(scope):
    """What is on record so far, oldest first."""
    return scope._pipeline.ledger.records()


def place_of(scope):
    """The directory of the host that a disk scope stands on."""
    return scope.root.mount_point


class Rules:
    """A small policy: the first rule whose paths hold the path, and whose access is wanted, wins.

    ``seen`` keeps every context it was shown.
    """

    always = None

    def __init__(self, *rules):
        self._rules = rules
        self.seen = []

    def decide(self, context):
        self.seen.append(context)
        for decision, paths, access in self._rules:
            if access is not None and not access & context.access:
                continue
            if any(context.path.lies_in(ScopedPath(path)) for path in paths):
                return decision
        return Allow("default")

    def may_refuse_below(self, grant, access, directory):
        return True


def hide(*paths):
    return Hide("hide-rule"), paths, None


def deny(*paths, access=None):
    return Deny("deny-rule", "kept by a rule"), paths, access and frozenset(access)


def ask(*paths, default="deny", access=None):
    return Ask("ask-rule", "may it?", default), paths, access and frozenset(access)


async def plant(fs, tree):
    """Write a tree given as ``{path: content}``; None makes a directory, ``-> x`` a link."""
    for path, content in tree.items():
        if content is None:
            await fs.make_dir(path, parents=True)
        elif isinstance(content, str) and content.startswith("-> "):
            await fs.symlink(path, content[3:])
        elif isinstance(content, bytes):
            await fs.write_bytes(path, content, parents=True)
        else:
            await fs.write_text(path, content, parents=True)


async def snapshot(fs):
    """The whole tree as ``{path: content}``: directories None, links as in `plant`."""
    tree = {}
    for entry in (await fs.find(include_ignored=True, limit=50_000)).matches:
        if entry.type == "directory":
            tree[entry.path] = None
        elif entry.type == "symlink":
            tree[entry.path] = "-> " + await fs.readlink(entry.path)
        else:
            tree[entry.path] = (await fs.read_bytes(entry.path)).data
    return tree
