"""Two who had one shut directory open at once: what each did is taken back by itself."""

import asyncio
import os

import pytest

import bailiwick
from bailiwick.stores.disk import DiskStore
from tests.working_copies.support import CopyByHand


def waiting(copy, begun, going):
    """A copy whose content is begun, and goes on later."""
    plain = copy.content

    async def content(path):
        begun.set()
        await going.wait()
        async for chunk in plain(path):
            yield chunk

    copy.content = content
    return copy


@pytest.mark.spec("EXEC-8", "DISK-8")
@pytest.mark.parametrize("first_out", ["a", "b"])
@pytest.mark.parametrize("undone", ["ab", "ba"])
async def test_to_undo_what_one_did_leaves_it_shut(tmp_path, monkeypatch, first_out, undone):
    monkeypatch.setattr(DiskStore, "heeds_modes", staticmethod(lambda: True))
    directory = tmp_path / "root" / "d"
    directory.mkdir(parents=True)
    directory.chmod(0o555)
    begun = {name: asyncio.Event() for name in "ab"}
    going = {name: asyncio.Event() for name in "ab"}
    state = str(tmp_path / "state")
    async with bailiwick.open(tmp_path / "root", state_dir=state, history="on") as fs:
        tasks = {}
        for name in "ab":
            copy = waiting(CopyByHand(fs), begun[name], going[name])
            copy.id = name
            await copy.write(f"d/{name}", b"new")
            tasks[name] = asyncio.create_task(fs._bring_back(copy, "atomic"))
            await begun[name].wait()
        done = {}
        for name in sorted("ab", key=lambda each: each != first_out):
            going[name].set()
            done[name] = await tasks[name]
            assert not done[name].withheld
        left = {"a", "b"}
        for name in undone:
            told = await fs.undo(done[name].request_id)
            assert ([str(each) for each in told.undone], told.conflicts) == ([f"d/{name}"], [])
            left.remove(name)
            assert set(os.listdir(directory)) == left
            assert directory.stat().st_mode & 0o777 == 0o555
