"""The socket that workers share."""

import os

import pytest

from bailiwick.fronts.http.transport.sockets import bind, inherited


@pytest.mark.spec("HTTP-1")
def test_a_socket_that_workers_share_blocks_at_no_instant():
    with bind("127.0.0.1", 0) as listener:
        assert not os.get_blocking(listener.fileno())
        with inherited(os.dup(listener.fileno())) as worker, worker.dup() as door:
            assert door.gettimeout() == worker.gettimeout() == 0.0
            assert not os.get_blocking(listener.fileno())
