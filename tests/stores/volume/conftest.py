"""One S3 server for all tests of a worker that want it."""

import contextlib
import gc
import os

import pytest

from tests.s3 import KEY, SECRET, S3Server
from tests.waiting import until_blocking


@pytest.fixture(scope="session")
def running_s3(tmp_path_factory):
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.end()


@pytest.fixture
def s3(running_s3, monkeypatch, settling):
    """The server, with its credentials where the service's own tools look for them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return running_s3


@pytest.fixture
def settling():
    """Connections are closed by threads of the library's own, a moment after they were let go of:
    that is waited for."""
    before = sockets()
    yield
    gc.collect()
    until_blocking(lambda: not sockets() - before)


def sockets():
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{number}")
            if target.startswith("socket:"):
                found.add(target)
    return found
