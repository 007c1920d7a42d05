"""`python -m tests.scale --faults 60`: drive, kill, verify.

Writers append lines and write files, each change under a key, and ask again until it is answered;
others leave that to the client, which does so by itself. Meanwhile a server, PostgreSQL or the
object store is killed, or stands still. In the end every line is there once and in its writer's
order, every file is what was last acknowledged, the ledger is proved, and the server that was never
killed holds no more memory than it did after a quarter of the time.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import random
import sys
import tempfile
import threading
import time

from bailiwick.client import connect_sync
from bailiwick.errors import BailiwickError
from tests.scale.cluster import TOKEN, Cluster
from tests.waiting import let_pass_blocking, until_blocking

WRITERS = 6
CLIENTS = 2
GROWTH_MIB_MAX = 48.0
"""What a server may hold more for: caches that fill, and what the allocator keeps."""

LARGE = 900_000
"""More than is kept in a row: it goes to the object store."""

TRIES_S_MAX = 180.0
DONE = (200, 201)


class Writer:
    """One of those who write, and what they were told."""

    def __init__(self, cluster, number, over):
        self.lines, self.files, self.kinds = [], {}, collections.Counter()
        self.slowest_s = 0.0
        self._cluster = cluster
        self._number = number
        self._over = over
        self._chance = random.Random(number)

    def go_on(self):
        step = 0
        while not self._over.is_set():
            step += 1
            if step % 5:
                line = f"{self._number}-{step}"
                self._do("/file/append", {"path": f"log{self._number}", "content": line + "\n"})
                self.lines.append(line)
            else:
                path, size = f"file{self._number}-{step % 4}", self._chance.choice((20, LARGE))
                text = self._chance.randbytes(size // 2).hex()
                self._do("/file/write", {"path": path, "content": text})
                self.files[path] = hashlib.sha256(text.encode()).hexdigest()

    def _do(self, route, body):
        key = f"{self._number}-{random.getrandbits(64):x}"

        def is_done():
            begun = time.monotonic()
            told = self._cluster.ask("POST", route, body, **{"idempotency-key": key})
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
            if told is None:
                self.kinds["no answer"] += 1
                return False
            status, answer = told
            if status in DONE:
                return True
            self.kinds[answer["errorKind"]] += 1
            assert answer["retryable"], answer
            return False

        until_blocking(is_done, TRIES_S_MAX)


class ClientWriter:
    """One of those who ask once, by the client: it asks again, and says where nobody knows."""

    def __init__(self, cluster, number, over):
        self.lines, self.unknown, self.kinds = [], set(), collections.Counter()
        self.files, self.slowest_s = {}, 0.0
        self._server = cluster.servers[number % len(cluster.servers)]
        self.number = number
        self._over = over

    def go_on(self):
        url = f"http://127.0.0.1:{self._server.port}"
        path, step = f"log{self.number}", 0
        with connect_sync(url, token=TOKEN, retry=TRIES_S_MAX) as fs:
            until_blocking(lambda: self._is_told(lambda: fs.write_text(path, "")), TRIES_S_MAX)
            while not self._over.is_set():
                step += 1
                line, begun = f"{self.number}-{step}", time.monotonic()
                if self._is_told(lambda line=line: self._added(fs, path, line + "\n")):
                    self.lines.append(line)
                else:
                    self.unknown.add(line)
                self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

    def _added(self, fs, path, line):
        """Every other one in a transaction, which is one request as well."""
        if line.endswith(("1\n", "3\n", "5\n", "7\n", "9\n")):
            return fs.append(path, line)
        with fs.transaction() as inside:
            return inside.append(path, line)

    def _is_told(self, call):
        try:
            call()
        except BailiwickError as error:
            self.kinds[f"client: {error.kind}"] += 1
            if not (error.retryable or "interrupted" in error.details):
                raise
            return False
        return True


def inflict(cluster, chance, down_s):
    """One fault, over by the time this returns."""
    match chance.randrange(6):
        case 0 | 1 | 2:
            server = chance.choice(cluster.servers[1:])  # the first is watched for its memory
            server.kill()
            until_blocking(server.start, TRIES_S_MAX)
            return "server killed"
        case 3:
            with cluster.postgres.killed():
                let_pass_blocking(down_s)
            return "PostgreSQL killed"
        case 4:
            with cluster.s3.killed():
                let_pass_blocking(down_s)
            return "object store killed"
        case _:
            with cluster.s3.stopped():
                let_pass_blocking(down_s)
            return "object store silent"


def verify(cluster, writers):
    """What is wrong, in words."""

    def answered(path):
        told = until_blocking(
            lambda: (each := cluster.ask("GET", path)) and each[0] == 200 and each, TRIES_S_MAX
        )
        return told[1]

    for writer in writers:
        if writer.lines:
            number = writer.lines[0].partition("-")[0]
            found = answered(f"/file/raw?path=log{number}").decode().split()
            found = [each for each in found if each not in getattr(writer, "unknown", ())]
            if found != writer.lines:
                lost, twice = set(writer.lines) - set(found), len(found) - len(set(found))
                yield f"writer {number}: {len(lost)} lost, {twice} twice, or in another order"
        for path, digest in writer.files.items():
            if hashlib.sha256(answered(f"/file/raw?path={path}")).hexdigest() != digest:
                yield f"{path} is not what was acknowledged"
    proved = answered("/audit/verify")
    if not proved["ok"]:
        yield f"the ledger is not proved: {proved}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance, over, faults = random.Random(options.seed), threading.Event(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder, Cluster(folder) as cluster:
        writers = [Writer(cluster, number, over) for number in range(WRITERS)]
        numbers = range(WRITERS, WRITERS + CLIENTS)
        writers += [ClientWriter(cluster, number, over) for number in numbers]
        held = []
        with concurrent.futures.ThreadPoolExecutor(len(writers)) as pool:
            writing = [pool.submit(each.go_on) for each in writers]
            try:
                for _ in range(options.faults):
                    let_pass_blocking(chance.uniform(0.2, 1.5))
                    faults[inflict(cluster, chance, chance.uniform(0.2, 2.0))] += 1
                    held.append(cluster.servers[0].memory_mib())
                    for each in writing:
                        if each.done():
                            each.result()
            except BaseException:
                print(*(each.faults() for each in cluster.servers), sep="\n", file=sys.stderr)
                raise
            finally:
                over.set()
            for each in writing:
                each.result()
        wrong = list(verify(cluster, writers))
        early, late = held[len(held) // 4], max(held[-3:])
        if late - early > GROWTH_MIB_MAX:
            wrong.append(f"a server held {early:.0f} MiB, and then {late:.0f}")
        told = sum((each.kinds for each in writers), collections.Counter())
        print(json.dumps({
            "faults": faults, "lines": sum(len(each.lines) for each in writers),
            "files": sum(len(each.files) for each in writers), "told": told,
            "slowest_s": round(max(each.slowest_s for each in writers), 1),
            "memory_mib": [round(each, 1) for each in (held[0], early, late)], "wrong": wrong,
        }, indent=1))  # fmt: skip
    sys.exit(bool(wrong))


main()
