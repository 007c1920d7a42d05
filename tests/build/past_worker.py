"""Several fronts at work in one directory, killed at any instant: what is left is one past.

``python -m tests.build.past_worker [--kills N] [--seed N] [DIRECTORY]``. Prints what was seen, as
JSON, and fails where that is not all of it.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile

# Loaded here, once for all who are forked off.
import bailiwick.build.governed
import bailiwick.stores.disk
import bailiwick.stores.history
import bailiwick.stores.volume  # noqa: F401
from bailiwick.build.served import named_places, open_served, state_for
from bailiwick.errors import Busy, PathNotFound
from bailiwick.fronts.cli.directories import open_directory
from bailiwick.grant import AgentRun, User
from bailiwick.operations import FILE_ACCESS
from tests.waiting import let_pass_blocking

_WRITES_MAX = 100


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


async def reviewing(directory, number, told):
    """A person who looks at what agents do, in a process of their own."""
    dice = random.Random(number)
    places = named_places([directory])
    async with open_served(places, None, state_for(places), history="on") as authority:
        [root] = places
        mine = await authority.request_root(User("local"), root, FILE_ACCESS, "look", front="cli")
        while True:
            files = (await mine.review.queue(limit=5)).files
            if not files:
                await mine.write_text(f"{number}-own", "mine\n")
                os.write(told, b"said nothing\n")
                continue
            file = dice.choice(files)
            name = f"{dice.choice(file.hunks).id}@{file.version}"
            try:
                if dice.random() < 0.7:
                    done = await mine.review.accept(name)
                else:
                    done = await mine.review.reject(name, note="no", insist=True)
            except (Busy, PathNotFound):  # it was changed meanwhile
                os.write(told, b"said nothing\n")
                continue
            os.write(told, f"said {done.request_id}\n".encode())


async def write(scope, number, told):
    # A look at the queue reads every version: who never stops writing is never looked at.
    for count in range(1, _WRITES_MAX + 1):
        path, text = f"{number}-{count % 3}", f"{number} {count}\n"
        done = await scope.write_text(path, text)
        os.write(told, f"{path} {done.request_id}\n".encode())
    await asyncio.Event().wait()


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
    """Two fronts at work, until each has done something and a while longer. What they say that they
    have done: with its request, and whether it was a change."""
    spelled = (directory, directory + "/", os.path.join(os.path.dirname(directory), "link"))
    fronts = [served, dice.choice((served, typed, reviewing))]
    working = [
        begin(front, dice.choice(spelled), number * 2 + each) for each, front in enumerate(fronts)
    ]
    said = [pipe.readline() for _, pipe in working]
    let_pass_blocking(dice.random() * 0.05)
    for child, _ in working:
        os.kill(child, signal.SIGKILL)
    done = []
    for (child, pipe), first in zip(working, said, strict=True):
        whole = [line.decode().split() for line in [first, *pipe] if line.endswith(b"\n")]
        done += [(request, what != "said") for what, request in whole if request != "nothing"]
        pipe.close()
        os.waitpid(child, 0)
    return done


async def looked_at(directory, done):
    """Whether ledger, history and runs know of all that was done, and of it all as one; and whether
    what is left can be reviewed to its end."""
    changed = {request for request, is_change in done if is_change}
    places = named_places([directory])
    async with open_served(places, None, state_for(places), history="on") as authority:
        verified = await authority.ledger.verify()
        [root] = places
        scope = await authority.request_root(User("local"), root, FILE_ACCESS, "look", front="cli")
        kept = await paged(
            lambda cursor: scope.history(".", cursor=cursor, limit=1_000), "versions"
        )
        recorded = await paged(lambda cursor: authority.ledger.query(cursor=cursor), "records")
        runs = scope._pipeline.runs
        told = [each for row in await runs.rows(root) for each in await runs.requests(row)]
        await scope.review.accept(paths=["."])
        left = (await scope.review.queue()).left
        await scope.aclose()
    return {
        "verified": verified.ok,
        "done": len(done),
        "not kept": sorted(changed - {each.request_id for each in kept}),
        "not recorded": sorted(
            {request for request, _ in done} - {each.request_id for each in recorded}
        ),
        "of no run": sorted(changed - set(told)),
        "of several runs": len(told) - len(set(told)),
        "left": left,
    }


async def paged(ask, name):
    found, cursor = [], None
    while True:
        page = await ask(cursor)
        found += getattr(page, name)
        cursor = page.next_cursor
        if cursor is None:
            return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = options.directory
        if directory is None:
            os.environ["XDG_STATE_HOME"] = os.path.join(place, "state")
            directory = os.path.join(place, "project")
            os.mkdir(directory)
            os.symlink(directory, os.path.join(place, "link"))
        dice, done = random.Random(options.seed), []
        for number in range(options.kills // 2):
            done += round_of(dice, directory, number)
        seen = asyncio.run(looked_at(directory, done))
    print(json.dumps(seen))
    wrong = {name for name, each in seen.items() if each and name not in ("verified", "done")}
    sys.exit(0 if seen["verified"] and not wrong else 1)


if __name__ == "__main__":
    main()
