"""A scope on a server keeps the contract of the store beneath, save what a network takes away."""

import contextlib
import itertools

import pytest

import bailiwick
from bailiwick.client import connect
from bailiwick.testing.scope_driver import ScopeDriver
from bailiwick.testing.store_contract import DIFFERENCES, PATH_CASES, run_contract
from tests.fronts.http.serving import serving

pytestmark = pytest.mark.spec("PY-5", "VOL-12", "HTTP-4")

OVER_HTTP = {
    "a stream that cannot be published is refused unread": (
        "a body is on its way before the server can refuse it; nothing of it is kept"
    ),
    "a call that is cancelled under way is whole or not at all": (
        "it is, and later: who hangs up does not wait for what the server has begun"
    ),
    "a link's text is neither empty nor blank nor over long": (
        "under rules it is looked at where a link leads, which has an end; so in any governed root"
    ),
    "the root itself stays": "it does; the wire has no number of the error beside its kind",
}
"""What a remote scope does not keep, each with the reason."""


def maker(house, kind, tmp_path, stack):
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
        scope = await stack.enter_async_context(
            connect(house.url, token=house.token, root=f"workspace:{name}")
        )
        return ScopeDriver(scope)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_a_remote_scope_keeps_the_contract(kind, tmp_path):
    (tmp_path / "journals").mkdir()
    cases = [case for case in PATH_CASES if case.plant is None or kind == "disk"]
    differences = {**DIFFERENCES[kind], **OVER_HTTP}
    async with serving(tmp_path, lasting=False) as house, contextlib.AsyncExitStack() as stack:
        make = maker(house, kind, tmp_path, stack)
        await run_contract(make, cases=cases, differences=differences)
