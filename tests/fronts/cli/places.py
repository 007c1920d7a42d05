"""A place to type commands in: a directory or a volume, with the command bound to it."""

import asyncio
import json

import bailiwick
from tests.fronts.cli.command import within


class Typed:
    """A place, and the commands that a person types there."""

    def __init__(self, place):
        self.place = str(place)

    def __call__(self, *arguments):
        return within("-p", self.place, *arguments)

    def ok(self, *arguments):
        """What it prints."""
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def json(self, *arguments):
        return json.loads(self.ok(*arguments, "--json"))

    def refused(self, *arguments):
        """The kind of the refusal: the same on stderr as text and as JSON, each with a hint."""
        told = self(*arguments, "--json")
        assert (told.returncode, told.stdout) == (1, ""), told
        error = json.loads(told.stderr.splitlines()[-1])
        assert error["hint"]
        done = self(*arguments)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert f"{error['errorKind']}: " in done.stderr
        assert "\nhint: " in done.stderr
        return error["errorKind"]

    def fill(self, files):
        """Write files without the command."""

        async def write():
            async with bailiwick.open(self.place) as fs:
                for path, content in files.items():
                    await fs.write_bytes(path, content, parents=True)

        asyncio.run(write())
