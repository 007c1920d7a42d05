"""How far a call travels through the house: `python -m tests.laws.journey` prints it.

A write over a file under an authority, without and with a question to a person, by the calls that
it makes and the files of the package that it passes. Fewer are better: whoever follows one has to
open them all.
"""

import asyncio
import pathlib
import sys
import tempfile
from collections import Counter
from unittest.mock import patch

import bailiwick
from bailiwick.state import database
from tests.authority.support import Person, governed, rule

BEHIND_SEAMS = {"the store": ("stores/",), "the state": ("state/", "sqlite/")}
"""What is behind the seams of a store and of what is on record. All else is the line itself, which
whoever changes a verb has to know."""

PACKAGE = str(pathlib.Path(bailiwick.__file__).parent) + "/"


async def followed(act):
    """The files of the package that a call passes, each with how often it is entered."""
    passed = Counter()

    def entered(frame, event, _):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            passed[file.removeprefix(PACKAGE)] += 1

    sys.setprofile(entered)
    try:
        await act()
    finally:
        sys.setprofile(None)
    return passed


def parted(passed):
    """The files that were passed, by whether they are of the line or behind one of its seams."""
    parts = {"the line": [], **{name: [] for name in BEHIND_SEAMS}}
    for file in passed:
        behind = (name for name, begins in BEHIND_SEAMS.items() if file.startswith(begins))
        parts[next(behind, "the line")].append(file)
    return parts


async def journey(directory, *, asked):
    """By the way that is usual: commits are quick, however busy the machine is."""
    rules = rule("ask", "f") if asked else rule("deny", "elsewhere")
    with patch.object(database, "_HERE_S", 1e9):
        return await _followed_write(directory, rules)


async def _followed_write(directory, rules):
    async with governed(directory, rules, on_disk=True) as house:
        await house.plant({"f": "first"})
        fs = await house.scope(asker=Person("once"))
        await fs.write_bytes("f", b"second")  # what is made once is there
        await house.authority.ledger.flush()  # nobody else has the database
        return await followed(lambda: fs.write_bytes("f", b"third"))


def main():
    for asked in (False, True):
        with tempfile.TemporaryDirectory() as directory:
            passed = asyncio.run(journey(pathlib.Path(directory), asked=asked))
        print(f"a governed write{', asked about' if asked else ''}:", end=" ")
        told = ", ".join(f"{len(files)} of {part}" for part, files in parted(passed).items())
        print(f"{passed.total()} calls, {len(passed)} files: {told}")
        for file, count in passed.most_common():
            print(f"{count:6} {file}")


if __name__ == "__main__":
    main()
