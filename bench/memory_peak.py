"""How much memory a stream of any size takes: run as a process of its own, Linux only.

Prints the bytes by which the resident size rose above idle at its highest, while streaming in and
while streaming out.
"""

import asyncio
import json
import pathlib
import sys

import bailiwick
from bench.scratch import CHUNK

_STATUS = pathlib.Path("/proc/self/status")
_FORGET_PEAK = "5"


async def main(place: str, state: str, chunks: int) -> dict[str, int]:
    async with bailiwick.open(place, durability="rename", state_dir=state) as scope:
        await _in_and_out(scope, 4)  # whatever is made once is there before idle is measured
        idle = _resident("VmRSS")
        rose = {}
        for name, stream in (("in", _write), ("out", _read)):
            pathlib.Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)
            await stream(scope, chunks)
            rose[name] = _resident("VmHWM") - idle
        await scope.remove("peak.bin")
    return rose


async def _in_and_out(scope: bailiwick.Scope, chunks: int) -> None:
    await _write(scope, chunks)
    await _read(scope, chunks)


async def _write(scope: bailiwick.Scope, chunks: int) -> None:
    # A fresh object for each chunk, so that one which is kept is seen.
    await scope.write_stream("peak.bin", (bytes(bytearray(CHUNK)) for _ in range(chunks)))


async def _read(scope: bailiwick.Scope, chunks: int) -> None:
    size = 0
    async for chunk in scope.stream("peak.bin"):
        size += len(chunk)
    assert size == chunks * len(CHUNK)


def _resident(line: str) -> int:
    for text in _STATUS.read_text(encoding="ascii").splitlines():
        name, value = text.split(":", 1)
        if name == line:
            return int(value.split()[0]) * 1024
    raise LookupError(line)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
