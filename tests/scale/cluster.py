"""A real PostgreSQL, a real S3 server and three servers of ours, each of which can be killed."""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys

import httpx

from tests.fronts.http.serving import fleet_config
from tests.postgres import TestPostgres
from tests.postgres_proxy import ProxyThread
from tests.s3 import KEY, SECRET, S3Server, free_ports

SERVERS = 3
TOKEN = "a-token-that-all-servers-know"


class Server:
    """One of ours, at a port of its own, with a directory of its own."""

    def __init__(self, place, config, key=None):
        (place / "beside").mkdir(0o700, parents=True)
        (place / "bailiwick.toml").write_text(config)
        if key is not None:
            (place / "beside/ledger.key").touch(0o600)
            (place / "beside/ledger.key").write_bytes(key)
        self.place = place
        self._log = (place / "log").open("ab")
        (self.port,) = free_ports(1)
        self.process = None
        self.tokens = {}
        assert self.start(), "a server did not start"

    @property
    def key(self):
        return (self.place / "beside/ledger.key").read_bytes()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bailiwick", "serve", "--config", "bailiwick.toml", "--port",
             str(self.port), "--token", TOKEN, "--json"],
            cwd=self.place, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.place), "AWS_ACCESS_KEY_ID": KEY,
                 "AWS_SECRET_ACCESS_KEY": SECRET},
        )  # fmt: skip
        line = self.process.stdout.readline()
        self.process.stdout.close()
        if not line:
            return False
        self.tokens |= json.loads(line).get("tokens") or {}
        return True

    def memory_mib(self):
        """What it holds of the machine's memory."""
        pages = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def faults(self):
        """What it wrote down of faults of its own."""
        log = (self.place / "log").read_text(errors="replace")
        return log[log.find("Traceback") :][:20_000] if "Traceback" in log else ""

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.kill()
        self._log.close()


_LIMITS = "limits = {idempotency_keys_max = 1_000_000}\n"
"""Hundreds of faults take long, and every change of the drive has a key of its own."""


class Cluster:
    """To be used as a context. Requests go to any server, as a load balancer without memory would
    send them. What the servers say to PostgreSQL goes through ``proxy``."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._stack = contextlib.ExitStack()
        self.servers = []

    def __enter__(self):
        with self._stack:
            self.postgres = TestPostgres()
            self._stack.callback(self.postgres.end)
            self.proxy = self._stack.enter_context(ProxyThread(self.postgres))
            self._client = self._stack.enter_context(httpx.Client(timeout=60))
            (self._folder / "s3").mkdir()
            self.s3 = S3Server(self._folder / "s3")
            self._stack.callback(self.s3.end)
            self.s3.make_bucket("fleet")
            blobs = self.s3.url("fleet", "blobs").replace("?", "%3F").replace("&", "%26")
            dsn = self.proxy.through(self.postgres.dsn)
            config = fleet_config(dsn, blobs, more_of_root=_LIMITS)
            for number in range(SERVERS):
                key = self.servers[0].key if self.servers else None
                server = Server(self._folder / f"server{number}", config, key)
                self._stack.callback(server.end)
                self.servers.append(server)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    @property
    def agent_token(self):
        """Told once, by the server that made it."""
        return self.servers[0].tokens["agent"]

    def _any_url(self):
        return f"http://127.0.0.1:{random.choice(self.servers).port}"

    def ask(self, method, path, body=None, *, token=TOKEN, **headers):
        """One try, at some server: status and answer, which is JSON or bytes; or None where none
        came."""
        headers["authorization"] = f"Bearer {token}"
        with contextlib.suppress(httpx.HTTPError, ValueError):
            answer = self._client.request(
                method, self._any_url() + path, json=body, headers=headers
            )
            is_json = "json" in answer.headers["content-type"]
            return answer.status_code, answer.json() if is_json else answer.content
        return None

    def events(self, **headers):
        """Events of one stream, at some server, for as long as it lasts, by the names of their
        fields."""
        headers["authorization"] = f"Bearer {TOKEN}"
        with (
            contextlib.suppress(httpx.HTTPError),
            self._client.stream("GET", self._any_url() + "/events", headers=headers) as answer,
        ):
            event = {}
            for line in answer.iter_lines() if answer.status_code == 200 else ():
                if line:
                    name, _, value = line.partition(": ")
                    event[name] = value
                else:
                    yield event
                    event = {}
