"""A process that takes back what an agent did, and is killed at an instant that it is told.

``python -m tests.scope.killed_review PLACE KIND ACT INSTANT``. What reaches a disk is counted: each
write of a file, each name that comes or goes, each transaction of a database.
"""

import asyncio
import itertools
import os
import pathlib
import signal
import sys

from bailiwick.sqlite.writer import WriterThread
from bailiwick.stores.disk import syscalls
from tests.scope.test_out_of_room import reject, undo
from tests.scope.test_runs import rooted

ACTS = {"reject": reject, "undo": undo}
CALLS = ("write", "mkdir", "rename_over", "rename_new", "exchange", "unlink", "flush")


def count(instant):
    """Be killed before the so manieth of what is counted."""
    seen = itertools.count(1)

    def counted(real):
        def call(*arguments, **options):
            if next(seen) == instant:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in CALLS:
        setattr(syscalls, name, counted(getattr(syscalls, name)))
    WriterThread._commit = counted(WriterThread._commit)


async def main(place, kind, act, instant):
    async with rooted(pathlib.Path(place), kind) as (person, _):
        count(instant)
        done = await ACTS[act](person)
        assert done.conflicts == []


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
