"""Runs a command that changes much, over and over, and says each time what was acknowledged."""

import asyncio
import sys

import bailiwick


async def main(place, state):
    async with bailiwick.open(place, state_dir=state) as fs:
        for count in range(1, 1000):
            script = "for n in $(seq 8); do echo %d > f$n; mkdir -p d$n; echo %d > d$n/x; done"
            result = await fs.exec(shell=script % (count, count)).result()
            assert not result.conflicts, result
            assert not result.withheld, result
            print(count, flush=True)


asyncio.run(main(*sys.argv[1:]))
