"""A real S3 server of our own, on this machine only: SeaweedFS in a folder of its own.

It can be stopped, killed and started again, so that a test sees what a store does then.
"""

import atexit
import contextlib
import ctypes
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

from tests.waiting import until_blocking

HOST = "127.0.0.1"
KEY, SECRET = "bailiwick-tests", "not-a-secret-at-all"
PORTS = (
    "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port",
    "filer.port.grpc", "s3.port", "s3.port.grpc",
)  # fmt: skip
READY_S_MAX = 110.0

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Whatever becomes of the tests, the server does not outlive them."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


class Endable:
    """A server that is a process of its own and works in a folder of its own; it has `start`."""

    @contextlib.contextmanager
    def stopped(self):
        """It listens, and answers nobody."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def killed(self):
        """It is gone, without a word; then it is there again."""
        self._process.kill()
        self._process.wait()
        try:
            yield
        finally:
            self.start()

    def end(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            shutil.rmtree(self._folder, ignore_errors=True)


class S3Server(Endable):
    """Started when made; `end` is called in the end."""

    def __init__(self, folder):
        self._folder = folder
        self._ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._process = None
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        # What is not signed at all may use this one bucket: see `tests.gcs`.
        anybody = {
            "name": "anonymous",
            "actions": [f"{action}:google" for action in ("Read", "Write", "List")],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity, anybody]}))
        (folder / "data").mkdir()
        self.start()
        atexit.register(self.end)

    @property
    def endpoint(self):
        return f"http://{HOST}:{self._ports['s3.port']}"

    def url(self, bucket, prefix="", **settings):
        """The address of a place for blobs on this server."""
        given = {"endpoint": self.endpoint, "region": "us-east-1", "allow_http": "true"} | settings
        return f"s3://{bucket}/{prefix}?" + "&".join(f"{name}={given[name]}" for name in given)

    def start(self):
        program = os.path.join(os.path.dirname(sys.executable), "weed")
        options = {
            "dir": self._folder / "data",
            "ip": HOST,
            "ip.bind": HOST,
            "master.telemetry": "false",
            "master.resumeState": "false",
            "master.electionTimeout": "1s",
            "master.heartbeatInterval": "100ms",
            "master.volumeSizeLimitMB": 1024,
            "volume.max": 100,  # every bucket takes seven
            "filer": "true",
            "filer.localSocket": self._folder / "filer.sock",
            "s3": "true",
            "s3.autoCreateBucket": "false",
            "s3.config": self._folder / "s3.json",
            "s3.localSocket": self._folder / "s3.sock",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            **self._ports,
        }
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-logtostderr=true", "server"]
                + [f"-{name}={value}" for name, value in options.items()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"HOME": str(self._folder)},  # it would take credentials from ours
                preexec_fn=die_with_parent,
            )
        self._wait()

    def _wait(self):
        try:
            until_blocking(self._is_ready, READY_S_MAX)
        except BaseException as error:
            error.add_note((self._folder / "log").read_text())
            self.end()
            raise

    def _is_ready(self):
        assert self._process.poll() is None, "the S3 server did not start"
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.make_bucket("ready")
            return self._answers()
        return False

    def _answers(self):
        """Whether it stores and gives back: that takes longer than to listen."""
        import obstore
        from obstore.store import S3Store

        store = S3Store(
            "ready",
            config={
                "endpoint": self.endpoint,
                "region": "us-east-1",
                "access_key_id": KEY,
                "secret_access_key": SECRET,
            },
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        try:
            obstore.put(store, "ready", b"ready")
        except Exception:
            return False
        return True

    def make_bucket(self, name):
        connection = http.client.HTTPConnection(HOST, self._ports["filer.port"], timeout=120)
        with contextlib.closing(connection):
            connection.request("POST", f"/buckets/{name}/")
            answer = connection.getresponse()
            answer.read()
            if answer.status not in (200, 201, 409):  # 409: it is there already
                raise OSError(f"no bucket: {answer.status}")

    def end(self):
        if self._process is not None:
            super().end()
            for port in self._ports.values():  # it puts sockets there whatever it is told
                for left in glob.glob(f"/tmp/seaweedfs-*-{port}.sock"):
                    os.unlink(left)
