"""A door before the S3 server that speaks like Google Cloud Storage, on this machine only.

Google's XML interface is that of S3 in another dress, and it is the one the library uses for blobs:
what the emulators of Google's JSON interface do not answer at all. So the objects are kept by the
same real server as for S3, and this door changes only what differs: a bearer token for credentials,
generations for conditions, and `404` for deleting what is not there.

Run as a program: ``python -m tests.gcs PORT PORT_OF_S3 TOKEN``.
"""

import contextlib
import http.client
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.s3 import HOST, Endable, die_with_parent, free_ports
from tests.waiting import until_blocking

TOKEN, WRONG_TOKEN = "not-a-secret-at-all", "hush-a-wrong-token"
BUCKET = "google"
"""The one bucket that the S3 server lets anybody use."""
XML = {"content-type": "application/xml"}
REFUSED = b"<Error><Code>AuthenticationRequired</Code><Message>Log in.</Message></Error>"
NO_BUCKET = b"<Error><Code>NoSuchBucket</Code><Message>There is no bucket.</Message></Error>"
PASSED_ON = ("content-length", "content-type", "range", "content-md5")
PASSED_BACK = ("content-type", "etag", "last-modified", "content-range", "accept-ranges")


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behind = 0
    token = ""

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("authorization") != f"Bearer {self.token}":
            self._answer(401, XML, REFUSED)
            return
        if self.path.partition("?")[0].split("/")[1] != BUCKET:
            self._answer(404, XML, NO_BUCKET)
            return
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        if self.headers.get("x-goog-if-generation-match") == "0":
            headers["If-None-Match"] = "*"
        if self.command == "DELETE" and self._ask("HEAD", {}, b"")[0] == 404:
            self._answer(404, {}, b"")
            return
        self._answer(*self._ask(self.command, headers, body))

    do_GET = do_PUT = do_HEAD = do_DELETE = handle_any  # noqa: N815 (its own names)

    def _ask(self, method, headers, body):
        with contextlib.closing(
            http.client.HTTPConnection(HOST, self.behind, timeout=120)
        ) as there:
            there.request(method, self.path, body=body or None, headers=headers)
            answer = there.getresponse()
            data = answer.read()
            back = {name: answer.headers[name] for name in PASSED_BACK if answer.headers[name]}
            if method == "HEAD":
                back["content-length"] = answer.headers.get("content-length", "0")
            return answer.status, back, data

    def _answer(self, status, headers, body):
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.send_header("x-goog-generation", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main(port, behind, token):
    Door.behind, Door.token = int(behind), token
    ThreadingHTTPServer((HOST, int(port)), Door).serve_forever()


class GoogleServer(Endable):
    """The door as a process of its own, before a running S3 server; `end` is called in the end."""

    scheme = "gs"

    def __init__(self, s3):
        self._behind = s3.endpoint.rpartition(":")[2]
        s3.make_bucket(BUCKET)
        (self._port,) = free_ports(1)
        self.start()

    def url(self, bucket, prefix="", **settings):
        given = {"endpoint": f"http://{HOST}:{self._port}", "allow_http": "true"} | settings
        return f"gs://{bucket}/{prefix}?" + "&".join(f"{name}={given[name]}" for name in given)

    def start(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.gcs", str(self._port), self._behind, TOKEN],
            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent,
        )  # fmt: skip
        until_blocking(self._is_open)

    def _is_open(self):
        assert self._process.poll() is None, "the door did not open"
        with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), 1):
            return True
        return False

    def end(self):
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
