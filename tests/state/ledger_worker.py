"""A process that works on a ledger until it is killed, saying what was acknowledged.

    python -m tests.state.ledger_worker DIRECTORY NAME COUNT

Each line it prints names a change that was acknowledged to a caller. It stands for the file that a
change would have written: ``DIRECTORY/../tree/NAME-NUMBER``.
"""

import asyncio
import os
import sys
from pathlib import Path

from bailiwick.paths import ScopedPath
from tests.state.ledgers import act, change_of, intent, ledger_at, record


async def work(directory, name, count):
    tree = Path(directory).parent / "tree"
    tree.mkdir(exist_ok=True)
    async with ledger_at(directory) as ledger:
        print("ready", flush=True)

        async def change(number):
            announced = intent(number, request_id=f"{name}-{number}", path=ScopedPath(name))
            kept = await ledger.intend(announced)
            (tree / f"{name}-{number}").touch()
            ledger.settle(change_of(announced), kept, ())
            os.write(1, f"{name}-{number}\n".encode())

        for number in range(0, count, 4):
            ledger.note(record(number))
            await asyncio.gather(*(change(number + index) for index in range(4)))
            if number % 16 == 0:
                await ledger.append_authority(act(number, request_id=f"act-{name}-{number}"))
                os.write(1, f"act-{name}-{number}\n".encode())


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
