"""Takes back what a request did, and dies after so many steps of that."""

import asyncio
import os
import sys

import bailiwick
from bailiwick.stores.disk import DiskStore

STEPS = (
    "write", "write_stream", "remove", "make_dir", "move", "symlink", "set_mode", "stage",
    "stage_swap",
)  # fmt: skip


async def main(place, state, request, after):
    left = int(after)

    def counted(change):
        async def changed(*args, **how):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)
            return await change(*args, **how)

        return changed

    for name in STEPS:
        setattr(DiskStore, name, counted(getattr(DiskStore, name)))
    async with bailiwick.open(place, state_dir=state, history="on") as fs:
        await fs.undo(request)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
