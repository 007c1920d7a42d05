"""`python -m tests.stores.volume.pace`: what small writes in PostgreSQL take, a trip at a time.

A real server behind a proxy that adds to each trip what a network would. Prints figures, and judges
none; `--json bench/postgres.json` keeps them for the report. A trip passes four times from one
process to another, and on a busy machine each of them waits for its turn: so what a bare
trip takes by the clock at that moment is told as well, and a write in such trips. What counts is
that it takes hardly more of them than it makes, and that many writers at the same time take hardly
more than one.
"""

import argparse
import asyncio
import json
import pathlib
import tempfile
import time

import asyncpg

from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.testing.driver import StoreDriver
from tests.postgres import TestPostgres
from tests.postgres_proxy import ProxyProcess


async def rate(fs, proxy, writers, writes):
    """Writes a second and trips a write, of so many writers at a time."""
    before, began = proxy.trips, time.perf_counter()

    async def write(name):
        for number in range(writes):
            await fs.write(f"d/{name}", str(number).encode())

    await asyncio.gather(*(write(name) for name in range(writers)))
    took, count = time.perf_counter() - began, writers * writes
    return count / took, (proxy.trips - before) / count


async def bare(connection, trips):
    """What a trip takes that asks for nothing."""
    began = time.perf_counter()
    for _ in range(trips):
        await connection.fetchval("SELECT 1")
    return (time.perf_counter() - began) / trips


async def one_writer(fs, proxy, rounds=10, writes=10):
    """Seconds a write takes, a trip takes that is made right beside it, the trips of a write, and
    how long this process was busy with it."""
    connection = await asyncpg.connect(proxy.dsn)
    try:
        await bare(connection, 2)
        wrote = idle = trips = busy = 0.0
        for _ in range(rounds):
            idle += await bare(connection, writes) / rounds
            began = time.process_time()
            per_second, each = await rate(fs, proxy, 1, writes)
            busy += (time.process_time() - began) / rounds / writes
            wrote, trips = wrote + 1 / per_second / rounds, trips + each / rounds
        return wrote, idle, trips, busy
    finally:
        await connection.close()


async def measure(proxy, folder):
    """How long a write takes in bare trips, and how many times one writer's rate 64 have."""
    fs = StoreDriver(VolumeStore.open(proxy.dsn, blobs=FolderBlobs(folder)))
    try:
        await fs.write("d/0", b"", parents=True)
        await rate(fs, proxy, 64, 2)
        wrote, idle, trips, busy = await one_writer(fs, proxy)
        print(
            f"one writer: {1000 * wrote:.1f} ms and {trips:.2f} trips a write, which is"
            f" {wrote / idle:.1f} times a bare trip ({1000 * idle:.1f} ms); {1000 * busy:.1f} ms of"
            " it are computing"
        )
        began = time.process_time()
        many, trips = await rate(fs, proxy, 64, 20)
        busy = (time.process_time() - began) / 64 / 20
        print(
            f"64 writers: {many * wrote:.1f} times as many writes, {trips:.2f} trips each;"
            f" {100 * busy * many:.0f} % of a processor, {1000 * busy:.2f} ms a write:"
            f" that alone would allow {wrote / busy:.0f} times as many"
        )
        return {
            "write_ms": round(1000 * wrote, 1),
            "bare_trip_ms": round(1000 * idle, 1),
            "write_in_trips": round(wrote / idle, 1),
            "rate_of_64_writers": round(many * wrote, 1),
        }
    finally:
        await fs.aclose()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=2.0)
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    asked = parser.parse_args()
    latency_s = asked.latency_ms / 1000
    postgres = TestPostgres()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            ProxyProcess(postgres, latency_s) as proxy,
        ):
            found = asyncio.run(measure(proxy, folder))
    finally:
        postgres.end()
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
