"""Runs commands that change much, brings back, applies and undoes, over and over. It says before
each step to what it leads, and after it that it was acknowledged."""

import asyncio
import sys

import bailiwick

SCRIPT = """
for n in $(seq 8); do echo {value} > f$n; mkdir -p d$n; echo {value} > d$n/x; done
rm -rf many; mkdir many; for n in $(seq 20); do echo {value} > many/m$n; done
"""


async def main(place, state, token):
    options = {} if place.startswith("sqlite:") else {"history": "on"}
    async with bailiwick.open(place, state_dir=state, **options) as fs:
        value = 0

        async def run(**more):
            script = SCRIPT.format(value=value)
            result = await fs.exec(["sh", "-c", script, token], **more).result()
            assert not result.conflicts, result
            assert not result.withheld, result
            return result

        while True:
            value += 1
            print("begin", value, flush=True)
            result = await run()
            print("done", value, flush=True)

            if not place.startswith("overlay:"):  # which keeps no past
                print(f"undo:{result.request_id}", value - 1, flush=True)
                await fs.undo(result.request_id)
                print("done", value - 1, flush=True)

            value += 1
            print("begin", value, flush=True)
            left = await run(publish="manual")
            async with await fs.open_work(left.work_id) as work:
                published = await work.apply()
            assert not published.conflicts, published
            assert not published.withheld, published
            print("done", value, flush=True)


asyncio.run(main(*sys.argv[1:]))
