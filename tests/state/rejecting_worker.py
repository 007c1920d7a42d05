"""A server on a shared state that takes back what an agent did, and is killed at an instant:
``python -m tests.state.rejecting_worker CONFIG INSTANT``."""

import asyncio
import os
import signal
import sys

from bailiwick import Authority, User
from bailiwick.state.runs.verdicts import VerdictBook
from tests.scope.test_runs import ACCESS


def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


async def main(config, instant):
    async with Authority.from_config(config) as authority:
        person = await authority.request_root(User("ann"), "workspace:demo", ACCESS, "to look")
        if instant == "before it is announced":
            VerdictBook.announce = killed
        elif instant == "before it is done":
            announce = VerdictBook.announce

            async def announced(self, said):
                await announce(self, said)
                killed()

            VerdictBook.announce = announced
        elif instant == "before it is kept":
            VerdictBook.keep = killed
        ids = [each.hunks[0].id for each in (await person.review.queue()).files]
        await person.review.reject(ids, note="no")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
