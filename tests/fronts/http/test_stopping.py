"""How a server of several processes ends, and how it goes on: nobody is left behind, whoever dies
first and however often it is told to stop."""

import itertools
import os
import signal
import socket

import pytest

from tests.fronts.http.serving import serving
from tests.fronts.http.test_serve_command import Writer, client, process
from tests.fronts.http.test_workers import workers_of
from tests.processes import is_gone
from tests.waiting import PATIENCE_S, until_blocking

IMPATIENT = (
    "import sys; from bailiwick.fronts.http import serve_command;"
    "serve_command._RESTARTS_SECONDS = {seconds};"
    " sys.exit(serve_command.main(sys.argv[1:]))"
)


def said(tmp_path):
    return (tmp_path / "server.log").read_text()


@pytest.fixture(autouse=True)
def tree(tmp_path):
    (tmp_path / "tree").mkdir()


@pytest.mark.slow
@pytest.mark.spec("HTTP-7", "DISK-4")
def test_workers_end_in_order_when_their_parent_is_killed(tmp_path):
    with process(tmp_path, "tree", "--workers", 2) as (server, told):
        port = int(told["url"].rpartition(":")[2])
        writers = [Writer(told, number) for number in range(3)]
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as stream:
            shown = f"Host: localhost\r\nAuthorization: Bearer {told['token']}\r\n"
            stream.sendall(f"GET /events HTTP/1.1\r\n{shown}\r\n".encode())
            answer = stream.recv(1_000)
            for writer in writers:
                writer.start()
            until_blocking(lambda: sum(len(each.acknowledged) for each in writers) >= 20)
            workers = workers_of(server)
            server.kill()
            try:
                until_blocking(lambda: all(is_gone(pid) for pid in workers))
            finally:
                for writer in writers:
                    writer.stop = True
                    writer.join()
            while more := stream.recv(100_000):
                answer += more
        # What is ended in order has an end.
        assert answer.endswith(b"\r\n0\r\n\r\n"), answer[-200:]
        assert "Traceback" not in said(tmp_path)
    with process(tmp_path, "tree", "--port", port) as (_, told), client(told) as person:
        for path in (path for each in writers for path in each.acknowledged):
            assert person.get(f"/file/raw?path={path}").content == path.encode() * 50
        assert person.get("/audit/verify").json()["ok"]


@pytest.mark.slow
@pytest.mark.spec("HTTP-7")
def test_workers_that_have_only_begun_end_with_their_parent(tmp_path):
    with process(tmp_path, "tree", "--workers", 2) as (server, _):
        workers = workers_of(server)
        server.kill()
        until_blocking(lambda: all(is_gone(pid) for pid in workers))
        assert "Traceback" not in said(tmp_path)


@pytest.mark.slow
@pytest.mark.spec("HTTP-7")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "signals",
    [[signal.SIGTERM], [signal.SIGINT], [signal.SIGHUP], [signal.SIGTERM, signal.SIGINT]],
    ids=["term", "interrupt", "hangup", "both"],
)
def test_it_may_be_told_to_stop_at_any_instant_while_it_does(tmp_path, workers, signals):
    with process(tmp_path, "tree", "--workers", workers) as (server, told):
        with client(told) as person:
            assert person.put("/file/raw?path=a", content=b"a").status_code == 201
        started = workers_of(server) if workers > 1 else []
        often = itertools.cycle(signals)

        def told_again():
            server.send_signal(next(often))
            return server.poll() is not None

        until_blocking(told_again)
        assert server.returncode == 0, said(tmp_path)
        assert all(is_gone(pid) for pid in started)
        assert said(tmp_path) == ""


@pytest.mark.slow
@pytest.mark.spec("HTTP-7")
@pytest.mark.parametrize("up", [True, False], ids=["up", "starting"])
@pytest.mark.parametrize(
    "how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["term", "interrupt", "hangup"]
)
def test_a_signal_to_all_processes_stops_them_in_order(tmp_path, how, up):
    """As a terminal sends it, or whatever looks after services."""
    with process(tmp_path, "tree", "--workers", 2) as (server, told):
        if up:
            with client(told) as person:
                assert person.get("/list").status_code == 200
        workers = workers_of(server)
        os.killpg(server.pid, how)
        assert server.wait(PATIENCE_S) == 0, said(tmp_path)
        assert all(is_gone(pid) for pid in workers)
        lines = said(tmp_path).splitlines()
        if not up:  # one that has no ears yet, on a machine that is busy, is not waited for
            lines = [each for each in lines if "a worker did not stop in time" not in each]
        assert lines == []


@pytest.mark.spec("HTTP-7")
async def test_only_who_tells_it_twice_is_in_a_hurry(tmp_path):
    """A worker is told by its parent, and may get the signal that its parent got."""
    async with serving(tmp_path, lasting=False) as house:
        house.server.finish()
        house.server.stop()
        house.server.finish()
        assert house.server.should_exit
        assert not house.server.force_exit
        house.server.stop()
        assert house.server.force_exit


@pytest.mark.slow
@pytest.mark.spec("HTTP-1")
@pytest.mark.parametrize("seconds", [0, 1e9], ids=["now and then", "at once"])
def test_workers_are_replaced_unless_they_do_not_stay_up(tmp_path, seconds):
    command = ("-c", IMPATIENT.format(seconds=seconds))
    with process(tmp_path, "tree", "--workers", 2, command=command) as (server, told):
        for _ in range(12):
            workers = workers_of(server)
            os.kill(workers[0], signal.SIGKILL)
            until_blocking(
                lambda old=workers[0]: (
                    server.poll() is not None or len(set(workers_of(server)) - {old}) == 2
                )
            )
            if server.poll() is not None:
                break
        if seconds:
            assert server.wait(PATIENCE_S) == 1
            assert "internal_error: the workers do not stay up\n" in said(tmp_path)
            assert is_gone(workers[1])
        else:
            with client(told) as person:
                assert person.get("/list").status_code == 200
            assert said(tmp_path).count(" was ended by SIGKILL, and is replaced\n") == 12
            assert f"worker {workers[0]} was ended by SIGKILL" in said(tmp_path)
