"""A process that writes to a volume through an authority until it ends, or is killed.

    python -m tests.build.note_worker CONFIG STATE NAME COUNT [die-at-settle]

It says ``ready``, then the name of each file once its write was acknowledged.
"""

import asyncio
import os
import sys

import bailiwick
from bailiwick.state.ledger.queue import RecordQueue

ACCESS = ("read", "write", "delete", "list", "move", "metadata", "watch")


async def main(config, state, name, count, *how):
    async with bailiwick.Authority.from_config(config, state_dir=state) as authority:
        fs = await authority.request_root("agent_run:c/r", "workspace:demo", ACCESS, "a test")
        await fs.make_dir("d", parents=True)
        await authority.ledger.flush()
        if "die-at-settle" in how:
            # The change is committed, and nothing more is heard of this process.
            RecordQueue.settle = lambda *_, **__: os._exit(9)
        print("ready", flush=True)
        for number in range(int(count)):
            file = f"{name}-{number}"
            await fs.with_request(file).write_text(f"d/{file}", file)
            print(file, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
