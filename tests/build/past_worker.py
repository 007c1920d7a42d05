"""Several fronts at work in one directory, killed at any instant: what is left is one past.

``python -m tests.build.past_worker DIRECTORY ROUNDS SEED``. Prints what was seen, as JSON.
"""

import asyncio
import json
import os
import random
import signal
import sys

# Loaded here, once for all who are forked off.
import bailiwick.build.governed
import bailiwick.stores.disk
import bailiwick.stores.history
import bailiwick.stores.volume  # noqa: F401
from bailiwick.build.served import named_places, open_served, state_for
from bailiwick.fronts.cli.directories import open_directory
from bailiwick.grant import AgentRun, User
from bailiwick.operations import FILE_ACCESS
from tests.waiting import let_pass_blocking


async def served(directory, number, told):
    """As `bailiwick mcp` and `bailiwick serve` have it: an agent by way of a person."""
    places = named_places([directory])
    async with open_served(places, None, state_for(places), history="on") as authority:
        [root] = places
        mine = await authority.request_root(User("local"), root, FILE_ACCESS, "work", front="mcp")
        agent = await mine.delegate(AgentRun("mcp", str(number)), reason="work")
        await write(agent, number, told)


async def typed(directory, number, told):
    """As a command has it."""
    async with open_directory(directory, "versions") as scope:
        await write(scope, number, told)


async def write(scope, number, told):
    count = 0
    while True:
        count += 1
        path, text = f"{number}-{count % 3}", f"{number} {count}\n"
        done = await scope.write_text(path, text)
        os.write(told, f"{path} {done.request_id}\n".encode())


def begin(front, directory, number):
    reading, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        asyncio.run(front(directory, number, told))
        os._exit(1)
    os.close(told)
    return child, os.fdopen(reading, "rb")


def round_of(dice, directory, number):
    """Two fronts at work, until each has done something and a while longer."""
    spelled = (directory, directory + "/", os.path.join(os.path.dirname(directory), "link"))
    fronts = [served, dice.choice((served, typed))]
    working = [
        begin(front, dice.choice(spelled), number * 2 + each) for each, front in enumerate(fronts)
    ]
    said = [pipe.readline() for _, pipe in working]
    let_pass_blocking(dice.random() * 0.05)
    for child, _ in working:
        os.kill(child, signal.SIGKILL)
    requests = []
    for (child, pipe), first in zip(working, said, strict=True):
        requests += [line.split()[1].decode() for line in [first, *pipe] if line.endswith(b"\n")]
        pipe.close()
        os.waitpid(child, 0)
    return requests


async def looked_at(directory, requests):
    """Whether the ledger and the history know of all that was done, and of it all as one."""
    places = named_places([directory])
    async with open_served(places, None, state_for(places), history="on") as authority:
        verified = await authority.ledger.verify()
        [root] = places
        scope = await authority.request_root(User("local"), root, FILE_ACCESS, "look", front="cli")
        kept, recorded = set(), set()
        for entry in (await scope.list(".")).entries:
            cursor = None
            while True:
                found = await scope.history(entry.path, cursor=cursor)
                kept |= {each.request_id for each in found.versions}
                cursor = found.next_cursor
                if cursor is None:
                    break
        cursor = None
        while True:
            page = await authority.ledger.query(cursor=cursor)
            recorded |= {each.request_id for each in page.records}
            cursor = page.next_cursor
            if cursor is None:
                break
        await scope.aclose()
    return {
        "verified": verified.ok,
        "done": len(requests),
        "not kept": sorted(set(requests) - kept),
        "not recorded": sorted(set(requests) - recorded),
    }


def main():
    directory, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dice, requests = random.Random(seed), []
    for number in range(rounds):
        requests += round_of(dice, directory, number)
    print(json.dumps(asyncio.run(looked_at(directory, requests))))


if __name__ == "__main__":
    main()
