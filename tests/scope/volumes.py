"""Scopes over volumes, for what only a store with versions has."""

from contextlib import asynccontextmanager

import msgspec

from bailiwick.build.options import read_options
from bailiwick.build.own import OwnApprovals, join
from bailiwick.grant import AgentRun
from bailiwick.stores.volume import VolumeStore

AGENT = AgentRun("c1", "r7")
OTHER = AgentRun("c1", "r8")


@asynccontextmanager
async def volume(path, *, policy=None, **options):
    """The scope of a person on a fresh volume in a directory, or on the one that is there."""
    store = VolumeStore.open(str(path / "v.db"))
    fs = join(store, read_options(options), "test", "/", policy=policy)
    try:
        yield fs
    finally:
        await fs.aclose()


async def ruled(fs, subject=AGENT, **narrower):
    """An agent on the same tree, held to the policy of the scope itself and not to others."""
    heir, pipeline = await fs.delegate(subject, **narrower), fs._pipeline
    if not isinstance(pipeline.approvals, OwnApprovals):
        pipeline.approvals = OwnApprovals(pipeline.machine, 5.0)
    return type(fs)(msgspec.structs.replace(heir._lent, pipeline=pipeline))


async def text(fs, path, **options):
    return (await fs.read_text(path, **options)).text


async def tree(fs):
    """Every file with its text."""
    found = {}
    for path in (await fs.files(include_ignored=True)).paths:
        found[str(path)] = (await fs.read_bytes(path)).data.decode(errors="replace")
    return found


def told(result):
    """The conflicts of a result, as plain texts."""
    return {str(each.path) for each in result.conflicts}
