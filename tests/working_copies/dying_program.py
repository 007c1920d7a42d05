"""Brings changes back, and dies after so many steps of that."""

import asyncio
import os
import sys

import bailiwick
from bailiwick.stores.disk import DiskStore


async def main(place, state, id, after):
    left = int(after)

    def counted(change):
        async def changed(*args, **how):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)
            return await change(*args, **how)

        return changed

    steps = ("write_stream", "remove", "make_dir", "move", "symlink", "set_mode", "stage_swap")
    for name in steps:
        setattr(DiskStore, name, counted(getattr(DiskStore, name)))
    async with bailiwick.open(place, state_dir=state) as fs, await fs.open_work(id) as work:
        await work.apply()


asyncio.run(main(*sys.argv[1:]))
