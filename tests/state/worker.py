"""Another process that shares a state: run as ``python -m tests.state.worker JOB DIRECTORY …``.

It says ``ready``, waits for a line, does its job, and prints what came of it.
"""

import asyncio
import sys

from bailiwick.errors import BailiwickError
from bailiwick.grant import Quota, Root
from bailiwick.operations import READ
from tests.state.rooms import WORKSPACE, held, opened, real_clock


def wait_for_go():
    print("ready", flush=True)
    sys.stdin.readline()


async def charge(rooms, root_bytes, grant_id, times):
    """Add one byte and one file at a time, as often as it is let; prints how often it was."""
    root = Root(kind="workspace", id="demo", trusted=True, quota=Quota(bytes=int(root_bytes)))
    grant = held(grant_id, root=root)
    wait_for_go()
    let = 0
    for _ in range(int(times)):
        try:
            await rooms.meter.charge(grant, 1, 1)
        except BailiwickError as error:
            if error.kind != "quota_exceeded":
                raise
        else:
            let += 1
    print(let)


async def answer(rooms, approval_id, said, by):
    wait_for_go()
    try:
        await rooms.desk.answer(approval_id, said, by=by, front="cli")
    except BailiwickError as error:
        print(error.kind)
    else:
        print("won")


async def revoke(rooms, grant_id):
    wait_for_go()
    print(await rooms.grants.revoke(grant_id, by="user:other", front="cli"))


async def check(rooms, grant_id, rounds):
    """Check a grant, print what came of it, and wait for the next line, so many times."""
    grant = held(grant_id, root=WORKSPACE)
    for _ in range(int(rounds)):
        wait_for_go()
        try:
            rooms.standing.check(grant, READ)
        except BailiwickError as error:
            print(error.kind, flush=True)
        else:
            print("holds", flush=True)


async def main(job, directory, *arguments):
    async with opened(directory, real_clock) as rooms:
        await {"charge": charge, "answer": answer, "revoke": revoke, "check": check}[job](
            rooms, *arguments
        )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
