"""The TypeScript client with the compiler and the frameworks that it is for: `make typescript`.

Its types are checked, and its examples run, each as a stranger would: the package copied to where
they lie, the real frameworks beside it, a scripted model, and a person who answers.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.clients.houses import asking
from tests.clients.test_typescript import PLACE
from tests.fronts.http.serving import PERSON
from tests.fronts.mcp.npm import installed_in
from tests.waiting import until

PACKAGES = {
    "typescript": "7.0.2", "ai": "7.0.169", "zod": "4.6.7", "@mastra/core": "1.71.0",
}  # fmt: skip
EXPECTED = (
    'write_file {"written":true', 'read_file {"error":"path_outside_workspace"',
    'grep ["notes/today.md:1:hello"]', "done",
)  # fmt: skip


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "bailiwick" / "npm-typescript"


def laid_out(place, modules):
    """The examples, with the packages and the client as if they were installed beside them."""
    shutil.copytree(PLACE, place / "client")
    shutil.copytree(PLACE / "examples", place / "project")
    (place / "project" / "node_modules").mkdir()
    for package in [*modules.iterdir(), place / "client"]:
        name = "bailiwick-client" if package.name == "client" else package.name
        (place / "project" / "node_modules" / name).symlink_to(package)
    return place / "project"


async def answered(house):
    desk = house.authority.approvals
    (approval, *_) = await until(desk.pending)
    await desk.answer(approval.id, "once", by=str(PERSON), front="test")


async def example_runs(name, project, place):
    place.mkdir()
    async with asking(place) as (house, variables):
        process = await asyncio.create_subprocess_exec(
            "node", f"{name}.mjs", cwd=project, env=variables,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        person = asyncio.create_task(answered(house))
        said = (await asyncio.wait_for(process.communicate(), 120))[0].decode()
        missing = [each for each in EXPECTED if each not in said]
        if process.returncode or missing or not person.done():
            person.cancel()
            return f"{name}: lacks {missing}\n{said[-3_000:]}"
        await person
        print(f"{name}: wrote, was asked about and let go on, and was kept inside")
        return None


def main():
    modules = installed_in(folder(), PACKAGES)
    if isinstance(modules, str):
        print(modules)
        return 1
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        project = laid_out(place, modules)
        checked = subprocess.run([modules / ".bin" / "tsc", "-p", place / "client"], check=False)
        if checked.returncode:
            return 1
        print("the compiler agrees, and refuses what it should")
        for each in ("ai-sdk", "mastra"):
            if wrong := asyncio.run(example_runs(each, project, place / each)):
                print(wrong)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
