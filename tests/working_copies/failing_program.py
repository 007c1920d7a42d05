"""Brings changes back of which the last one fails, and dies while it takes the others back."""

import asyncio
import os
import sys

import bailiwick
from bailiwick.errors import IoError
from bailiwick.stores.disk import DiskStore

write_stream, remove, move = DiskStore.write_stream, DiskStore.remove, DiskStore.move


async def main(place, state, id, steps):
    taking_back = 0

    def step():
        nonlocal taking_back
        if failed:
            taking_back += 1
            if taking_back > int(steps):
                os._exit(9)

    failed = False

    async def failing(store, entry, chunks, plan):
        nonlocal failed
        step()
        if entry.path == "zz":
            failed = True
            raise IoError("planted")
        return await write_stream(store, entry, chunks, plan)

    async def counted(store, entry, **how):
        step()
        return await remove(store, entry, **how)

    async def moved(store, *ends, **how):
        step()
        return await move(store, *ends, **how)

    DiskStore.write_stream, DiskStore.remove, DiskStore.move = failing, counted, moved
    async with bailiwick.open(place, state_dir=state) as fs, await fs.open_work(id) as work:
        await work.apply()


asyncio.run(main(*sys.argv[1:]))
