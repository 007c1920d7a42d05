"""A process that commits transactions on a volume through an authority until it is killed.

    python -m tests.build.transaction_worker CONFIG STATE NAME

It says ``ready``, then the name of each transaction once it was acknowledged.
"""

import asyncio
import sys

import bailiwick

ACCESS = ("read", "write", "delete", "list", "move", "metadata", "watch")
FILES = 4


async def main(config, state, name):
    async with bailiwick.Authority.from_config(config, state_dir=state) as authority:
        fs = await authority.request_root("agent_run:c/r", "workspace:demo", ACCESS, "a test")
        print("ready", flush=True)
        number = 0
        while True:
            number += 1
            this = f"{name}-{number}"
            async with fs.with_request(this).transaction() as inside:
                for file in range(FILES):
                    await inside.write_text(f"set/{file}", this, parents=True)
                there = [entry.name for entry in (await inside.list("set")).entries]
                for before in [each for each in there if each.startswith("only-")]:
                    await inside.remove(f"set/{before}")
                await inside.write_text(f"set/only-{this}", "x" * 2_000_000)
            print(this, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
