"""What a change of many paths tells the feed, where the store keeps no log of its own, and the
names it may not bring."""

import pytest

from bailiwick import FileAlreadyExists
from bailiwick.audit import AuditRing
from bailiwick.grant import Grant, Root
from bailiwick.grant_status import OwnStanding
from bailiwick.hook import Hooks
from bailiwick.pipeline import Pipeline
from bailiwick.policy import AllowAll
from bailiwick.scope import Lent, Scope
from bailiwick.verbs.walks.ignore_files import Ignores
from tests.feeds import memory_feed
from tests.scope.volumes import tree, volume


def _with_memory_feed(fs, **root):
    """The same tree, whose operations have to tell what they change."""
    feed, machine = memory_feed(), fs._pipeline.machine
    pipeline = Pipeline(
        store=fs._pipeline.store, standing=OwnStanding(machine.time_ns), policy=AllowAll(),
        hooks=Hooks(seconds_max=1), ledger=AuditRing(100, feed), changes=feed, machine=machine,
    )  # fmt: skip
    grant = Grant(
        id="told", subject=fs.subject, root=Root(kind="workspace", id="x", trusted=True, **root)
    )
    ignores = Ignores(monotonic_ns=machine.monotonic_ns)
    return Scope(Lent(pipeline=pipeline, grant=grant, ignores=ignores))


def _shown(change):
    return change.kind, change.path, change.origin, tuple(sorted(change.beneath))


@pytest.mark.spec("EVENT-1", "VOL-5", "VOL-6", "VOL-7")
async def test_each_path_is_told_once_and_directories_whole(tmp_path):
    async with volume(tmp_path) as whole:
        fs, heard = _with_memory_feed(whole), []
        await fs.on_change(lambda change: heard.append(_shown(change)))
        await fs.write_text("d/e/f", "1", parents=True)
        await fs.write_text("g", "1")
        await fs.with_request("rm").remove("d", recursive=True)
        await fs.with_request("mv").move("g", "h")
        del heard[:]
        await fs.undo("rm")
        assert heard == [("created", "d", None, ("e/", "e/f"))]
        del heard[:]
        done = await fs.undo("mv")
        assert heard == [("moved", "g", "h", ())]
        del heard[:]
        await fs.undo(done.request_id)
        assert heard == [("moved", "h", "g", ())]
        del heard[:]
        fork = await fs.fork("work")
        await fork.move("d", "k")
        await fork.write_text("h", "2")
        await fork.aclose()
        assert heard == []
        await fs.merge("work")
        assert heard == [("moved", "k", "d", ("e/", "e/f")), ("updated", "h", None, ())]
        del heard[:]
        async with fs.transaction() as inside:
            await inside.remove("h")
            await inside.write_text("n", "1")
            assert heard == []
        assert heard == [("deleted", "h", None, ()), ("created", "n", None, ())]
        assert fs._pipeline.changes.in_flight._places == {}


@pytest.mark.spec("PATH-4")
async def test_no_twin_comes_back_into_a_portable_root(tmp_path):
    async with volume(tmp_path) as whole:
        fs = _with_memory_feed(whole, names="portable")
        version = (await fs.write_text("Name", "1")).version
        await fs.with_request("rm").remove("Name")
        await fs.write_text("name", "2")
        for wrong in (fs.undo("rm"), fs.restore("Name", version)):
            with pytest.raises(FileAlreadyExists):
                await wrong
        assert await tree(fs) == {"name": "2"}
        await fs.restore(".", version)
        assert await tree(fs) == {"Name": "1"}
