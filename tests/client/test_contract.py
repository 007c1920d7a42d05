"""A scope on a server keeps the contract of the store beneath, save what a network takes away.

Who hangs up does not wait for what the server has begun. The contract looks at what was cancelled
right away, so here a cancelled call ends only when the server has let go of it: what it then finds
is whole or not at all. That the server goes on without its caller is shown by itself.
"""

import asyncio
import itertools

import pytest

import bailiwick
from bailiwick.client import connect
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing.scope_driver import ScopeDriver
from bailiwick.testing.store_contract import DIFFERENCES, PATH_CASES, run_contract
from tests.fronts.http.serving import serving

pytestmark = pytest.mark.spec("PY-5", "VOL-12", "HTTP-4")

OVER_HTTP = {
    "a stream that cannot be published is refused unread": (
        "a body is on its way before the server can refuse it; nothing of it is kept"
    ),
    "a link's text is neither empty nor blank nor over long": (
        "under rules it is looked at where a link leads, which has an end; so in any governed root"
    ),
    "the root itself stays": "it does; the wire has no number of the error beside its kind",
}
"""What a remote scope does not keep, each with the reason."""


class PatientDriver(ScopeDriver):
    """A scope on a server whose calls, when they are cancelled, end with what they have begun."""

    def __init__(self, house, root):
        self._house = house
        self._root = root

    async def open(self):
        opening = connect(self._house.url, token=self._house.token, root=self._root)
        self.scope = await opening.__aenter__()
        return self

    async def _patiently(self, call):
        try:
            return await call
        except asyncio.CancelledError:
            # Without this scope's connections the server has none: all that was sent is read.
            await self.scope.aclose()
            await self._house.settled()
            await self.open()
            raise

    async def write(self, path, data, **how):
        return await self._patiently(super().write(path, data, **how))

    async def append(self, path, data, **how):
        return await self._patiently(super().append(path, data, **how))

    async def copy(self, path, to, **how):
        return await self._patiently(super().copy(path, to, **how))

    async def move(self, path, to, **how):
        return await self._patiently(super().move(path, to, **how))


def maker(house, kind, tmp_path):
    numbers = itertools.count()

    async def make(*, symlinks, plant):
        name = f"case{next(numbers)}"
        place, options = "memory:", {}
        if kind == "disk":
            place = str(tmp_path / name)
            (tmp_path / name).mkdir()
            options = {"durability": "rename", "state_dir": str(tmp_path / "journals")}
        if plant is not None and kind == "disk":
            async with bailiwick.open(place, **options) as planting:
                await plant(ScopeDriver(planting))
        options.pop("state_dir", None)
        await house.authority.add_root(
            f"workspace:{name}", place, trusted=True, mount_point="/", symlinks=symlinks, **options
        )
        return await PatientDriver(house, f"workspace:{name}").open()

    return make


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_a_remote_scope_keeps_the_contract(kind, tmp_path):
    (tmp_path / "journals").mkdir()
    cases = [case for case in PATH_CASES if case.plant is None or kind == "disk"]
    differences = {**DIFFERENCES[kind], **OVER_HTTP}
    async with serving(tmp_path, lasting=False) as house:
        make = maker(house, kind, tmp_path)
        await run_contract(make, cases=cases, differences=differences)


@pytest.mark.spec("LINE-5")
async def test_a_caller_that_gives_up_waits_for_what_its_server_has_begun(tmp_path, monkeypatch):
    reached, goes_on = asyncio.Event(), asyncio.Event()
    write = MemoryStore.write

    async def held(*args):
        reached.set()
        await goes_on.wait()
        return await write(*args)

    monkeypatch.setattr(MemoryStore, "write", held)
    async with (
        serving(tmp_path, lasting=False, place="memory:") as house,
        connect(house.url, token=house.token) as fs,
    ):
        writing = asyncio.ensure_future(fs.write_text("f", "whole"))
        await reached.wait()
        writing.cancel()
        assert not await fs.exists("f")
        assert not writing.done()
        goes_on.set()
        await asyncio.wait([writing])
        assert (await fs.read_text("f")).text == "whole"
