"""A process that changes a tree through an authority until it is killed.

    python -m tests.authority.writer CONFIGURATION STATE NAME

Each line it prints names a change that was acknowledged. Every file it makes has the name of the
request that made it, and ``shared`` holds the id of the request that wrote it last.
"""

import asyncio
import os
import sys

import bailiwick
from tests.authority.support import AGENT, EVERYTHING


async def main(configuration, state, name):
    async with bailiwick.Authority.from_config(configuration, state_dir=state) as authority:
        fs = await authority.request_root(AGENT, "workspace:demo", EVERYTHING, "until killed")
        print("ready", flush=True)

        async def change(number, act):
            request = f"{name}-{number}"
            await act(fs.with_request(request), request)
            os.write(1, f"{request}\n".encode())

        async def work(lane):
            for number in range(lane, 1_000_000, 30):
                await change(number, lambda fs, request: fs.write_text(request, request))
                await change(number + 3, lambda fs, request: fs.write_text("shared", request))
                await change(
                    number + 6, lambda fs, request: fs.write_stream(request, [request.encode()])
                )
                made = f"{name}-{number}"
                await change(number + 9, lambda fs, request, made=made: fs.copy(made, request))
                await change(number + 12, lambda fs, request, made=made: fs.move(made, request))
                await change(
                    number + 15,
                    lambda fs, request: fs.make_dir(f"{request}/sub", parents=True),
                )
                gone = f"{name}-{number + 6}"
                await change(number + 18, lambda fs, request, gone=gone: fs.remove(gone))

        await asyncio.gather(*(work(lane) for lane in range(3)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
