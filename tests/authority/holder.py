"""Another process that holds a scope: ``python -m tests.authority.holder CONFIGURATION STATE``.

It says the id of its grant; for each line it is given it acts through a delegated scope, and says
how that ended.
"""

import asyncio
import sys

import bailiwick
from tests.authority.support import AGENT, EVERYTHING


async def main(configuration, state):
    async with bailiwick.Authority.from_config(configuration, state_dir=state) as authority:
        parent = await authority.request_root(AGENT, "workspace:demo", EVERYTHING, "hold on")
        fs = await parent.delegate(bailiwick.AgentRun("c1", "child"))
        print(parent.grant.id, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                if line.strip() == "write":
                    await fs.write_text("f.txt", "x")
                else:
                    await fs.read_text("f.txt")
            except bailiwick.BailiwickError as error:
                print(error.kind, flush=True)
            else:
                print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
