"""An agent works on a project that a person is editing, and nothing of theirs is touched.

The agent writes through an overlay. The person changes the same file meanwhile; applying joins both
line by line. Runs in a temporary directory and leaves nothing behind.
"""

import asyncio
import tempfile
from pathlib import Path

import bailiwick

RECIPE = "flour\nsugar\nbutter\neggs\nmilk\n"


async def main() -> None:
    with tempfile.TemporaryDirectory() as top:
        project = Path(top) / "project"
        project.mkdir()
        (project / "recipe.txt").write_text(RECIPE)
        place = f"overlay:{project}"
        async with bailiwick.open(place, state_dir=f"{top}/state") as fs:
            agent = await fs.delegate(bailiwick.AgentRun("chef", "1"), access=fs.access)
            await agent.write_text("recipe.txt", RECIPE.replace("flour", "rye flour"))
            await agent.write_text("todo.txt", "buy rye\n")
            print("the project has", sorted(each.name for each in project.iterdir()))

            (project / "recipe.txt").write_text(RECIPE.replace("milk", "oat milk"))

            for change in (await fs.changes()).changes:
                print("the agent has", change.kind, change.path)
            result = await fs.apply()
            print("applied", sorted(str(each.path) for each in result.changes))
        print((project / "recipe.txt").read_text(), end="")


asyncio.run(main())
