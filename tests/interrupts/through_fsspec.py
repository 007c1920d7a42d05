"""A blocking call of fsspec that is interrupted: nothing of it happens afterwards."""

import asyncio

import pytest

import bailiwick
from tests.interrupts.alarms import Interrupter

fsspec = pytest.importorskip("fsspec")

pytestmark = [
    pytest.mark.spec("LINE-5"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
]

A, B = b"a" * 300_000, b"b" * 300_000


async def _others():
    return asyncio.all_tasks() - {asyncio.current_task()}


def test_an_interrupted_write_does_not_land_later(tmp_path):
    from bailiwick.fronts.fsspec.filesystem import BailiwickFileSystem

    interrupted = 0
    with bailiwick.open_sync(tmp_path) as scope, Interrupter("fsspec").installed() as alarms:
        fs = BailiwickFileSystem(scope, skip_instance_cache=True)
        alarms.measure(lambda: fs.pipe_file("f", A))
        for _ in range(40):
            fs.pipe_file("f", B)
            if alarms.interrupted(lambda: fs.pipe_file("f", A), again_s=0.000_5):
                interrupted += 1
                assert not scope._portal.run(_others())
            assert fs.cat_file("f") in (A, B)
    assert interrupted
