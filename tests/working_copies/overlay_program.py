"""Changes much in an overlay and applies it, over and over, and says each time what was done."""

import asyncio
import sys

import bailiwick

FILES = [f"f{number}" for number in range(8)] + [f"d{number}/x" for number in range(8)]


async def main(place, state):
    options = {} if place.startswith("sqlite:") else {"durability": "rename"}
    async with bailiwick.open(f"overlay:{place}", state_dir=state, **options) as fs:
        for count in range(1, 1000):
            for name in FILES:
                await fs.write_text(name, f"{count}\n", parents=True)
            await fs.move("moved", "between")
            await fs.write_text("between/inner", f"{count}\n")
            await fs.move("between", "moved")
            result = await fs.apply()
            assert not result.conflicts, result
            assert not result.withheld, result
            print(count, flush=True)


asyncio.run(main(*sys.argv[1:]))
