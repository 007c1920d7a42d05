"""Another process that follows or changes a durable feed: ``python -m tests.state.following …``.

watch STATE SINCE       prints ``request cursor`` for every change, from the cursor on
publish STATE NAME N    adds N changes, and says ``done``
"""

import asyncio
import contextlib
import sys

from bailiwick.state.feed import FEED, DurableFeed
from tests.feeds import change
from tests.state.states import open_state
from tests.waiting import let_pass

ROOT_NAME = "workspace:demo"


async def watch(feed, since):
    async with contextlib.aclosing(feed.follow(since)) as changes:
        async for told in changes:
            print(told.request_id or told.kind, told.cursor, flush=True)


async def publish(feed, name, count):
    for number in range(int(count)):
        feed.publish([change(f"{name}/{number}", request_id=f"{name}-{number}")])
        if number % 7 == 0:
            await let_pass(0.001)


async def main(job, state, *arguments):
    database = open_state(state, (FEED,))
    try:
        feed = await DurableFeed.open(database, ROOT_NAME)
        await {"watch": watch, "publish": publish}[job](feed, *arguments)
        feed.close()
    finally:
        await database.aclose()
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
