"""A process that changes a directory with a history until it is killed. Run as a module."""

import asyncio
import itertools
import random
import sys
from pathlib import Path

from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Undoing
from tests.stores.history.places import by, open_place


async def work(place, seed):
    """Changes of every kind, each told on stdout before it is made and after it was."""
    fs = StoreDriver(open_place(place))
    dice = random.Random(seed)
    for number in itertools.count():
        request = f"{seed}-{number}"
        agent = by(fs, "agent:run", request)
        name = f"f{dice.randrange(4)}"
        verb = dice.choice(["write", "large", "append", "remove", "move", "tree", "undo"])
        print("begin", request, verb, flush=True)
        try:
            changed = await one(agent, verb, name, dice)
        except Exception as error:
            print("refused", request, type(error).__name__, flush=True)
        else:
            print("done" if changed else "unchanged", request, flush=True)


async def one(agent, verb, name, dice):
    """Whether it changed anything."""
    if verb == "write":
        await agent.write(name, stamped(dice.randrange(10**6), 200))
    elif verb == "large":
        await agent.write(name, stamped(dice.randrange(10**6), 60_000))
    elif verb == "append":
        await agent.append(name, stamped(dice.randrange(10**6), 10))
    elif verb == "remove":
        await agent.remove(name, recursive=True)
    elif verb == "move":
        return await agent.move(name, f"f{dice.randrange(4)}", replace=True)
    elif verb == "tree":
        await agent.make_dir(name)
        for inside in range(3):
            await agent.write(f"{name}/{inside}", stamped(inside, 50))
    else:
        newest = agent.store.versions
        last = agent.store._core.ledger.last()
        undone = await newest.undo(Undoing(first=str(last), last=str(last)))
        return undone.version is not None
    return True


def stamped(number, lines):
    """Content that says by itself whether it is whole: every line is the same number."""
    return f"{number}\n".encode() * lines


def is_whole(data):
    """Whether content is made of whole blocks, as they were written or appended."""
    return data.endswith(b"\n") and all(line.isdigit() for line in data.split()) if data else True


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
