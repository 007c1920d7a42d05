"""`python -m tests.scale --faults 60`: drive, kill, verify.

Clients of many sorts (`clients`) use three servers. Meanwhile a server, PostgreSQL or the object
store is killed, or stands still, or a connection is lost with the answer to a commit. In the end
all that anybody was told is there, once and in its order, streams of events have left nothing out,
the ledger is proved, and no server holds more memory than servers did early on.
"""

import argparse
import collections
import concurrent.futures
import json
import random
import statistics
import sys
import tempfile
import threading
import time

from tests.scale.clients import (
    TRIES_S_MAX,
    Answering,
    Asking,
    Claiming,
    ClientWriter,
    Counting,
    Following,
    Leasing,
    Pairing,
    Writer,
)
from tests.scale.cluster import Cluster
from tests.waiting import let_pass_blocking, until_blocking

CROWD = (
    *[Writer] * 3, *[ClientWriter] * 2, *[Counting] * 2, *[Claiming] * 2, Pairing, *[Leasing] * 2,
    Asking, Answering, *[Following] * 2,
)  # fmt: skip

GROWTH_MIB_MAX = 24.0
"""What a server may hold more for: caches that fill, and what the allocator keeps."""

FAULTS = (
    *["server killed"] * 3, "PostgreSQL killed", "PostgreSQL silent", "object store killed",
    "object store silent", *["commits unanswered"] * 2,
)  # fmt: skip


def inflict(cluster, fault, chance):
    """One fault, over by the time this returns."""
    down_s = chance.uniform(0.2, 2.0)
    if fault == "server killed":
        server = chance.choice(cluster.servers[1:])  # the first is to grow old
        server.kill()
        until_blocking(server.start, TRIES_S_MAX)
    elif fault == "commits unanswered":
        cluster.proxy.lose_commits(chance.randint(1, 4))
        until_blocking(lambda: cluster.proxy.loses_no_more, TRIES_S_MAX)
    else:
        place = cluster.s3 if fault.startswith("object store") else cluster.postgres
        if fault == "PostgreSQL silent":
            how = cluster.proxy.stalled()
        else:
            how = place.killed() if fault.endswith("killed") else place.stopped()
        with how:
            let_pass_blocking(down_s)


def drive(cluster, crowd, over, settled, options):
    """Faults, one after the other, while everybody goes on: how many of each there were, and what
    each server held of memory after each."""
    chance, faults, held = random.Random(options.seed), collections.Counter(), []
    ends = time.monotonic() + options.minutes * 60
    with concurrent.futures.ThreadPoolExecutor(len(crowd)) as pool:
        going = [pool.submit(each.go_on) for each in crowd]
        try:
            while faults.total() < options.faults and time.monotonic() < ends:
                let_pass_blocking(chance.uniform(0.2, 1.5))
                fault, begun = chance.choice(FAULTS), time.monotonic()
                inflict(cluster, fault, chance)
                faults[fault] += 1
                held.append([round(each.memory_mib(), 1) for each in cluster.servers])
                print(
                    f"{faults.total()}: {fault}, {time.monotonic() - begun:.1f} s,"
                    f" {held[-1]} MiB, {sum(each.done for each in crowd)} done",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
                for each in going:
                    if each.done():
                        each.result()
        except BaseException:
            print(*(each.faults() for each in cluster.servers), sep="\n", file=sys.stderr)
            raise
        finally:
            over.set()
            concurrent.futures.wait(
                [each for each, one in zip(going, crowd, strict=True) if not one.TO_THE_LAST]
            )
            settled.set()
        for each in going:
            each.result()
    return faults, held


def memory(held):
    """What each server held in the second quarter of the time, when all had been asked for, in the
    last, and at most."""
    quarter = max(1, len(held) // 4)
    for of_one in zip(*held, strict=True):
        early, late = of_one[quarter : 2 * quarter] or of_one, of_one[-quarter:]
        yield statistics.median(early), statistics.median(late), max(of_one)


def longest(crowd):
    """What took longest, and who asked: some are answered once a person has been."""
    each_one = ((*each.slowest, type(each).__name__) for each in crowd)
    return sorted(each_one, reverse=True)[:6]


def verify(cluster, crowd):
    """What is wrong, in words."""

    def all_of(sort):
        return [each for each in crowd if isinstance(each, sort)]

    for sort in (Writer, ClientWriter, Claiming, Pairing, Asking):
        for each in all_of(sort):
            yield from each.wrong()
    for sort in (Counting, Leasing):
        yield from sort.wrong_of_all(all_of(sort))
    logs = {each.log: each.lines for each in all_of(Writer)}
    for each in all_of(Following):
        yield from each.wrong(logs)
    proved = until_blocking(
        lambda: (told := cluster.ask("GET", "/audit/verify")) and told[0] == 200 and told[1],
        TRIES_S_MAX,
    )
    if not proved["ok"]:
        yield f"the ledger is not proved: {proved}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=24 * 60, help="fewer faults, if need be")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    over, settled = threading.Event(), threading.Event()
    with tempfile.TemporaryDirectory() as folder, Cluster(folder) as cluster:
        crowd = [
            sort(cluster, number, settled if sort.TO_THE_LAST else over)
            for number, sort in enumerate(CROWD)
        ]
        for sort in (Counting, Leasing):
            next(each for each in crowd if isinstance(each, sort)).prepare()
        for each in crowd:
            if isinstance(each, Following):
                each.prepare()
        faults, held = drive(cluster, crowd, over, settled, options)
        wrong = list(verify(cluster, crowd))
        for early, late, _ in memory(held):
            if late - early > GROWTH_MIB_MAX:
                wrong.append(f"a server held {early:.0f} MiB, and then {late:.0f}")
        done = collections.Counter()
        for each in crowd:
            done[type(each).__name__] += each.done
        print(json.dumps({
            "faults": faults, "done": done,
            "told": sum((each.kinds for each in crowd), collections.Counter()),
            "slowest": longest(crowd),
            "memory_mib": list(memory(held)), "wrong": wrong,
        }, indent=1))  # fmt: skip
    sys.exit(bool(wrong))


main()
