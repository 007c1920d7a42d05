"""A server that speaks like Azure's blob storage, on this machine only: Azurite, from npm.

It is installed once, outside the repository, by `make clouds`. It keeps its catalogue in
memory and writes it down now and then, so after a kill it may have forgotten what it had taken.
"""

import atexit
import base64
import contextlib
import email.utils
import fcntl
import functools
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
from pathlib import Path

from tests.s3 import HOST, Endable, die_with_parent, free_ports
from tests.waiting import until_blocking

VERSION = "3.37.0"
FOLDER_VARIABLE = "BAILIWICK_AZURITE"
ACCOUNT, KEY = "bailiwick", base64.b64encode(b"not a secret at all").decode()
WRONG_KEY = base64.b64encode(b"hush, a wrong secret").decode()
READY_S_MAX = 60.0


@functools.cache
def installed():
    """The program's file, or in a line why there is none."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "node and npm are not installed"
    place = Path(os.environ[FOLDER_VARIABLE])
    program = place / "node_modules/azurite/dist/src/blob/main.js"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be at it
        return program if _is_there(place) else _install(place, program)


def _is_there(place):
    try:
        package = (place / "node_modules/azurite/package.json").read_text()
    except OSError:
        return False
    return f'"version": "{VERSION}"' in package


def _install(place, program):
    try:
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--prefix", place, f"azurite@{VERSION}"],
            capture_output=True, text=True, timeout=250, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "npm install took too long"
    if done.returncode != 0:
        return f"npm install failed: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}"
    return program


class AzureServer(Endable):
    """Started when made; `end` is called in the end."""

    scheme = "az"

    def __init__(self, folder, program):
        self._folder = folder
        self._program = program
        (self._port,) = free_ports(1)
        self._process = None
        self.start()
        atexit.register(self.end)

    @property
    def endpoint(self):
        return f"http://{HOST}:{self._port}/{ACCOUNT}"

    def url(self, container, prefix="", **settings):
        given = {"endpoint": self.endpoint, "account": ACCOUNT, "allow_http": "true"} | settings
        return f"az://{container}/{prefix}?" + "&".join(f"{name}={given[name]}" for name in given)

    def start(self):
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["node", self._program, "--blobHost", HOST, "--blobPort", str(self._port),
                 "--location", self._folder, "--silent", "--disableTelemetry",
                 "--skipApiVersionCheck"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder),
                     "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
                preexec_fn=die_with_parent,
            )  # fmt: skip
        try:
            until_blocking(self._is_ready, READY_S_MAX)
        except BaseException as error:
            error.add_note((self._folder / "log").read_text())
            self.end()
            raise

    def _is_ready(self):
        assert self._process.poll() is None, "Azurite did not start"
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.make_bucket("ready")
            return True
        return False

    def make_bucket(self, name):
        """A container. The library makes none, so the request is signed here."""
        date = email.utils.formatdate(usegmt=True)
        signed = (
            f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:2021-12-02\n"
            f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        )
        code = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date, "x-ms-version": "2021-12-02",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(code).decode()}",
        }  # fmt: skip
        connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
        with contextlib.closing(connection):
            connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status not in (201, 409):  # 409: it is there already
                raise OSError(f"no container: {answer.status} {said[:300]!r}")
