"""Those who use the servers of a drive, and what each was told: in the end that is what is there.

Whoever changes something does so under a key, at any server, and asks again until it is answered;
`ClientWriter` leaves that to the client, which does so by itself.
"""

import collections
import contextlib
import hashlib
import itertools
import json
import random
import time

from bailiwick.client import connect_sync
from bailiwick.errors import BailiwickError
from tests.scale.cluster import TOKEN
from tests.waiting import let_pass_blocking, until_blocking

LARGE = 900_000
"""More than is kept in a row: it goes to the object store."""

TRIES_S_MAX = 600.0
"""Where PostgreSQL is killed again and again on a busy machine, somebody waits for minutes."""
DONE = (200, 201)


class Driver:
    """One of those who ask. `go_on` is what it does until it is over, `wrong` says in the end what
    is not as it was told."""

    TO_THE_LAST = False
    """Whether it goes on until all others have come to an end."""

    def __init__(self, cluster, number, over):
        self.number = number
        self.kinds = collections.Counter()
        self.slowest = (0.0, "", "")
        self.done = 0
        self._cluster = cluster
        self._over = over
        self._chance = random.Random(number)

    def go_on(self):
        for step in itertools.count(1):
            if self._over.is_set():
                return
            self._step(step)

    def _ask(self, method, path, body=None, *, token=TOKEN, **headers):
        """One try, at some server: status and answer, or None."""
        begun = time.monotonic()
        told = self._cluster.ask(method, path, body, token=token, **headers)
        kind = "no answer" if told is None else str(told[0])
        if told is not None and told[0] >= 400:
            kind = told[1]["errorKind"]
        if kind not in ("200", "201"):
            self.kinds[kind] += 1
        self.slowest = max(self.slowest, (time.monotonic() - begun, kind, path))
        return told

    def _do(self, route, body, *, unless=(), token=TOKEN, method="POST"):
        """Have something done once, however often it is asked for: what was answered, or None where
        it was refused for one of the reasons ``unless``."""
        key, begun, tries = f"{self.number}-{random.getrandbits(64):x}", time.monotonic(), []

        def answer():
            told = self._ask(method, route, body, token=token, **{"idempotency-key": key})
            said = told[1]["error"] if told and told[0] >= 400 else repr(told)[:200]
            if not tries or tries[-1][1] != said:
                tries.append((round(time.monotonic() - begun, 1), said))
            if told is None or told[0] == 202:
                return None
            if told[0] in DONE or told[1]["errorKind"] in unless:
                return told
            assert told[1]["retryable"], (route, told)
            return None

        try:
            status, told = until_blocking(answer, TRIES_S_MAX)
        except AssertionError as error:
            error.add_note(f"{route}: {tries[-200:]}, {self.kinds}")
            raise
        if status in DONE:
            self.done += 1
            return told
        return None

    def _read(self, path):
        """What a file holds, once it is told."""

        def found():
            told = self._ask("GET", f"/file/raw?path={path}")
            assert told is None or told[0] == 200 or told[1]["retryable"], (path, told)
            return told and told[0] == 200 and (told[1],)

        return until_blocking(found, TRIES_S_MAX)[0]

    def _lines(self, path):
        return self._read(path).decode().split()


def differences(what, found, told):
    if found != told:
        lost, more = set(told) - set(found), set(found) - set(told)
        twice = [each for each, times in collections.Counter(found).items() if times > 1]
        yield (
            f"{what}: {len(lost)} lost {sorted(lost)[:3]}, {len(more)} that nobody was told of"
            f" {sorted(more)[:3]}, {len(twice)} twice {twice[:3]}, or in another order"
        )


class Writer(Driver):
    """Appends lines to a log of its own, and writes files, small and large."""

    def __init__(self, *given):
        super().__init__(*given)
        self.log, self.lines, self.files = f"log{self.number}", [], {}

    def _step(self, step):
        if step % 5:
            line = f"{self.number}-{step}"
            self._do("/file/append", {"path": self.log, "content": line + "\n"})
            self.lines.append(line)
        else:
            path, size = f"file{self.number}-{step % 4}", self._chance.choice((20, LARGE))
            text = self._chance.randbytes(size // 2).hex()
            self._do("/file/write", {"path": path, "content": text})
            self.files[path] = hashlib.sha256(text.encode()).hexdigest()

    def wrong(self):
        yield from differences(self.log, self._lines(self.log), self.lines)
        for path, digest in self.files.items():
            if hashlib.sha256(self._read(path)).hexdigest() != digest:
                yield f"{path} is not what was acknowledged"


class ClientWriter(Driver):
    """Asks once, by the client: it asks again, and says where nobody knows."""

    def __init__(self, *given):
        super().__init__(*given)
        self.log, self.lines, self._unknown = f"log{self.number}", [], set()

    def go_on(self):
        servers = self._cluster.servers
        url = f"http://127.0.0.1:{servers[self.number % len(servers)].port}"
        with connect_sync(url, token=TOKEN, retry=TRIES_S_MAX) as fs:
            self._fs = fs
            until_blocking(lambda: self._is_told(lambda: fs.write_text(self.log, "")), TRIES_S_MAX)
            super().go_on()

    def _step(self, step):
        line = f"{self.number}-{step}"
        if self._is_told(lambda: self._added(step, line + "\n")):
            self.lines.append(line)
            self.done += 1
        else:
            self._unknown.add(line)

    def _added(self, step, line):
        """Every other one in a transaction, which is one request as well."""
        if step % 2:
            return self._fs.append(self.log, line)
        with self._fs.transaction() as inside:
            return inside.append(self.log, line)

    def _is_told(self, call):
        try:
            call()
        except BailiwickError as error:
            self.kinds[f"client: {error.kind}"] += 1
            if not (error.retryable or "interrupted" in error.details):
                raise
            return False
        return True

    def wrong(self):
        found = [each for each in self._lines(self.log) if each not in self._unknown]
        yield from differences(self.log, found, self.lines)


class Counting(Driver):
    """Counts on by compare and swap in a file that several share: no count is lost, none counts
    twice."""

    PATH = "counter"

    def _step(self, step):
        told = self._ask("GET", f"/file?path={self.PATH}")
        if told is None or told[0] not in DONE:
            return
        body = {
            "path": self.PATH, "content": str(int(told[1]["content"]) + 1),
            "expectedVersion": told[1]["version"],
        }  # fmt: skip
        self._do("/file/write", body, unless=("hash_mismatch",))

    def prepare(self):
        self._do("/file/write", {"path": self.PATH, "content": "0"})
        self.done = 0

    @classmethod
    def wrong_of_all(cls, counting):
        count, told = int(counting[0]._read(cls.PATH)), sum(each.done for each in counting)
        if count != told:
            yield f"the counter is at {count}, and {told} were told that they have counted"


class Claiming(Driver):
    """Makes files that another makes as well: each is made once, by who was told so."""

    def __init__(self, *given):
        super().__init__(*given)
        self.claims = set()

    def _step(self, step):
        path = f"claims/{step // 100}/{step}"
        body = {"path": path, "content": str(self.number), "mode": "create", "parents": True}
        if self._do("/file/write", body, unless=("file_already_exists",)):
            self.claims.add(path)

    def wrong(self):
        for path in self.claims:
            if self._read(path) != str(self.number).encode():
                yield f"{path} was made by somebody else too"


class Pairing(Driver):
    """Adds a line to two files in one batch: they are the same at every moment."""

    def __init__(self, *given):
        super().__init__(*given)
        self.lines = []

    def _step(self, step):
        line = f"{self.number}-{step}"
        operations = [
            {"op": "append", "path": path, "content": line + "\n"} for path in self._paths
        ]
        self._do("/batch", {"operations": operations})
        self.lines.append(line)

    @property
    def _paths(self):
        return [f"pair{self.number}-{side}" for side in ("left", "right")]

    def wrong(self):
        for path in self._paths:
            yield from differences(path, self._lines(path), self.lines)


class Leasing(Driver):
    """Holds a lease that others want too, and says in a file when it begins and ends: nobody comes
    in between."""

    PATH = "leased"
    TTL_S = 600.0

    def _step(self, step):
        lock = self._do("/lock", {"path": self.PATH, "ttl": self.TTL_S}, unless=("lock_held",))
        if lock is None:
            return
        for what in ("begins", "ends"):
            line = f"{lock['token']}-{self.number}-{what}\n"
            self._do(
                "/file/append", {"path": self.PATH, "content": line, "lockToken": lock["token"]}
            )
        self._do(f"/lock/{lock['id']}/release", None)

    def prepare(self):
        self._do("/file/write", {"path": self.PATH, "content": ""})

    @classmethod
    def wrong_of_all(cls, leasing):
        lines = [each.split("-") for each in leasing[0]._lines(cls.PATH)]
        pairs = list(zip(lines[::2], lines[1::2], strict=False))
        if len(lines) % 2 or any(
            one[:2] != other[:2] or (one[2], other[2]) != ("begins", "ends") for one, other in pairs
        ):
            yield "two held the lease at the same time"
        tokens = [int(one[0]) for one, _ in pairs]
        if tokens != sorted(set(tokens)):
            yield "a later lease has no greater token"


class Asking(Driver):
    """An agent whose every change is put to a person."""

    def __init__(self, *given):
        super().__init__(*given)
        self.lines = []

    def _step(self, step):
        line = f"{self.number}-{step}"
        path = "asked/no" if step % 4 == 0 else "asked/log"
        done = self._do(
            "/file/append", {"path": path, "content": line + "\n", "parents": True},
            unless=("approval_denied",), token=self._cluster.agent_token,
        )  # fmt: skip
        if path == "asked/no":
            assert done is None, "what a person has refused was done"
        elif done:
            self.lines.append(line)

    def wrong(self):
        yield from differences("asked/log", self._lines("asked/log"), self.lines)
        found = until_blocking(
            lambda: (told := self._ask("GET", "/list?path=asked")) and told[0] == 200 and told[1],
            TRIES_S_MAX,
        )
        if [each["name"] for each in found["entries"]] != ["log"]:
            yield "what a person has refused is there"


class Answering(Driver):
    """The person: looks at any server what waits, and answers at any."""

    TO_THE_LAST = True

    def _step(self, step):
        told = self._ask("GET", "/approvals")
        for each in told[1]["approvals"] if told is not None and told[0] == 200 else ():
            answer = "no" if each["target"] == "asked/no" else "once"
            # It may be too late by then, or answered, under another key.
            late = ("approval_timeout", "approval_denied", "path_not_found")
            self._do(f"/approvals/{each['id']}", {"answer": answer}, unless=late)
        let_pass_blocking(0.1)


class Following(Driver):
    """Follows all changes, at one server after the other, each time from the last that it saw."""

    TO_THE_LAST = True

    def __init__(self, *given, since=None):
        super().__init__(*given)
        self.seen, self.first, self._last = [], since, since

    def go_on(self):
        self.follow(self._over.is_set)

    def prepare(self):
        """Stand where the tree is now: whatever anybody changes afterwards is to be told."""
        self.follow(lambda: self.first is not None)

    def follow(self, is_over):
        while not is_over():
            headers = {} if self._last is None else {"last-event-id": self._last}
            with contextlib.closing(self._cluster.events(**headers)) as events:
                for event in events:
                    self._hear(event)
                    if is_over():
                        return

    def _hear(self, event):
        self._last = event.get("id", self._last)
        self.first = self.first or self._last
        if event.get("event") == "change":
            self.seen.append((event["id"], json.loads(event["data"])["path"]))

    def wrong(self, logs):
        """Compared with what is told now of all that was since, and with what is in ``logs``."""
        body, end = {"path": f"end{self.number}", "content": ""}, f"end{self.number}"
        self._do("/file/write", body)
        again = Following(self._cluster, self.number, self._over, since=self.first)
        for each in (self, again):
            each.follow(lambda each=each: each.seen and each.seen[-1][1].strip("/") == end)
        yield from differences("a stream", self.seen, again.seen)
        told = collections.Counter(path.strip("/") for _, path in self.seen)
        for log, lines in logs.items():
            if told[log] != len(lines):
                yield f"{told[log]} changes of {log} were told, which has {len(lines)}"
