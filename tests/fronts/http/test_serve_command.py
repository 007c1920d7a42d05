"""`bailiwick serve` as a process of its own: how it starts, what it says, how it ends."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
import uvloop

from bailiwick.errors import IoError
from bailiwick.fronts.http.transport import sockets
from tests.fronts.http.serving import check_error, serving
from tests.fronts.trust import trusted
from tests.processes import children_of, in_a_group
from tests.waiting import PATIENCE_S, until_blocking

TOKEN = "a-token-of-the-test"


@contextlib.contextmanager
def process(tmp_path, *arguments, code=0, before=None, command=None, **env):
    """A server; ``code`` is what it must end with after SIGTERM, ``before`` what is done in its
    process before it begins, ``command`` what it runs if not the usual."""
    log = tmp_path / "server.log"  # a pipe that nobody reads would hold it up
    with (
        log.open("wb") as told,
        in_a_group(
            [sys.executable, *(command or ("-m", "bailiwick", "serve")), "--port", "0", "--json",
             *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=told,
            cwd=tmp_path,
            preexec_fn=before,
            env={
                "PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path / "state"),
                "XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path), **env,
            },
        ) as server,
    ):  # fmt: skip
        line = server.stdout.readline()
        assert line, log.read_text()
        yield server, json.loads(line)
        if server.poll() is None:
            server.terminate()
            assert server.wait(PATIENCE_S) == code, log.read_text()


def client(told, token=None):
    shown = {"authorization": f"Bearer {token or told['token']}"}
    return httpx.Client(base_url=told["url"], headers=shown, timeout=120, verify=trusted())


def run(tmp_path, *arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "bailiwick", "serve", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False,
        env={"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path / "state"), **env},
    )  # fmt: skip


KNOCKING = """
import errno, socket, sys
from bailiwick.fronts.http import serve_command

announced = serve_command._announcement

async def knocked(plan, authority, listener, token):
    with socket.socket() as knocking, open("knocked", "w") as told:
        told.write(errno.errorcode.get(knocking.connect_ex(listener.getsockname()), "let in"))
    return await announced(plan, authority, listener, token)

serve_command._announcement = knocked
sys.exit(serve_command.main(sys.argv[1:]))
"""


@pytest.mark.spec("HTTP-1", "SCALE-6")
@pytest.mark.parametrize("workers", [1, 2])
def test_nobody_waits_at_a_server_that_has_not_begun(tmp_path, workers):
    """It writes its tokens first, and a database may take its time for that: who is refused asks
    another server, and who was let in could only wait."""
    (tmp_path / "tree").mkdir()
    arguments = ("tree", "--workers", workers)
    with process(tmp_path, *arguments, command=("-c", KNOCKING)) as (_, told):
        assert (tmp_path / "knocked").read_text() == "ECONNREFUSED"
        with client(told) as person:
            assert person.get("/ready").status_code == 200


@pytest.mark.spec("HTTP-1", "AUTH-7")
def test_a_directory_is_served_with_a_token_and_a_link(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one/a").write_text("1")
    (tmp_path / "two/a").write_text("2")
    with process(tmp_path, "one", "docs=two") as (_, told):
        assert told["roots"] == ["workspace:docs", "workspace:one"]
        with client(told) as person:
            assert person.get("/file?path=a").json()["content"] == "1"
            assert person.get("/roots/workspace/docs/file?path=a").json()["content"] == "2"
            # What its owner named on the command line is trusted.
            assert person.put("/file/raw?path=b", content=b"b").status_code == 201
        with httpx.Client(verify=trusted()) as browser:
            opened = browser.get(told["console"])
            assert opened.status_code == 303
            key = opened.headers["location"].removeprefix("/#session=")
            shown = {"x-bailiwick-session": key}
            assert browser.get(told["url"] + "/list", headers=shown).status_code == 200
            got = httpx.get(told["url"] + "/list")
            check_error(got.status_code, got.json(), "unauthenticated")


@pytest.mark.spec("HTTP-1", "VOL-1")
def test_without_an_argument_it_is_a_workspace_that_lasts(tmp_path):
    for content in (None, "kept"):
        with process(tmp_path) as (_, told), client(told) as person:
            assert told["roots"] == ["workspace:main"]
            if content is None:
                body = {"path": "notes/a.md", "content": "kept", "parents": True}
                assert person.post("/file/write", json=body).status_code == 201
            assert person.get("/file?path=notes/a.md").json()["content"] == "kept"
            assert person.get("/history?path=notes/a.md").json()["versions"]


@pytest.mark.spec("HTTP-1", "HTTP-2")
@pytest.mark.parametrize("way", ["argument", "file", "environment"])
def test_a_token_of_ones_own(tmp_path, way):
    (tmp_path / "tree").mkdir()
    (tmp_path / "token").write_text(TOKEN + "\n")
    arguments, env = {
        "argument": (["--token", TOKEN], {}),
        "file": (["--token-file", tmp_path / "token"], {}),
        "environment": ([], {"BAILIWICK_TOKEN": TOKEN}),
    }[way]
    with process(tmp_path, "tree", *arguments, **env) as (_, told):
        assert "token" not in told
        with client(told, TOKEN) as person:
            assert person.get("/list").status_code == 200


@pytest.mark.spec("HTTP-1")
def test_others_are_not_served_without_a_token(tmp_path):
    (tmp_path / "tree").mkdir()
    done = run(tmp_path, "tree", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1
    assert done.stderr.startswith("unauthenticated: 0.0.0.0")
    for arguments, kind in (
        (["tree", "--token", "short"], "parse_error"),
        (["nosuch"], "root_not_found"),
        (["tree", "--config", "nosuch.toml"], "path_not_found"),
        (["memory:", "--workers", "2"], "unsupported"),
        (["tree", "--certfile", "c.pem"], "parse_error"),
    ):
        failed = run(tmp_path, *arguments, "--port", "0")
        assert (failed.returncode, failed.stderr.split(":")[0]) == (1, kind), failed.stderr
    assert run(tmp_path, "--port", "99999").returncode == 2
    assert run(tmp_path, "--nosuch").returncode == 2


@pytest.mark.spec("HTTP-1", "ERR-4")
def test_of_two_that_are_started_at_once_on_one_port_the_second_is_told():
    with sockets.bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with sockets.bind("127.0.0.1", port) as second:
            sockets.listen(first)
            with pytest.raises(IoError, match=f"something listens on port {port} already"):
                sockets.listen(second)


@pytest.mark.spec("HTTP-1", "ERR-4")
def test_what_is_wrong_is_one_line_and_a_next_step(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "file").write_bytes(b"\xff\xfe")
    (tmp_path / "bad.toml").write_text("[[root]\n")
    token = ["--token", TOKEN]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, line, env in (
            (["tree", "--port", port], f"io_error: something listens on port {port} already", {}),
            (["tree", "--host", "192.0.2.1", *token], "parse_error: 192.0.2.1 is not", {}),
            (["nosuch"], "root_not_found: workspace:nosuch: the directory", {}),
            (["tree", "file"], "not_a_directory: workspace:file: ", {}),
            (["a=tree", "a=two"], "parse_error: two roots are to be called 'a'", {}),
            (["sqlite:file"], "io_error: workspace:sqlite-file: the volume database is no", {}),
            (["tree", "--token-file", "nosuch"], "path_not_found: the token file", {}),
            (["tree", "--token-file", "file"], "parse_error: the token file holds no text", {}),
            (["--config", "tree"], "is_a_directory: the configuration tree cannot be read", {}),
            (["--config", "bad.toml"], "parse_error: bad.toml:1:7: this is not TOML", {}),
            (["tree", "--certfile", "nosuch", "--keyfile", "nosuch"], "path_not_found: the ce", {}),
            (
                ["tree", "--certfile", "file", "--keyfile", "file"],
                "parse_error: the certificate or its key",
                {},
            ),
            (["tree", "--state", "file/state"], "not_a_directory: there is no place for the", {}),
            ([], "not_a_directory: workspace:main: ", {"XDG_DATA_HOME": str(tmp_path / "file")}),
        ):
            done = run(tmp_path, "--port", "0", *arguments, **env)
            assert (done.returncode, done.stdout) == (1, ""), arguments
            first, hint = done.stderr.splitlines()
            assert first.startswith(line)
            assert hint.startswith("hint: ")
    told = run(tmp_path, "nosuch", "--port", "0", "--json")
    assert json.loads(told.stderr)["errorKind"] == "root_not_found"


@pytest.mark.spec("HTTP-1", "HTTP-2")
def test_a_configuration_is_served_as_it_says(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "bailiwick.toml").write_text(
        '[server]\nrates = {reads_per_minute = 3}\n[state]\npath = "kept"\n'
        '[[root]]\nid = "demo"\nkind = "workspace"\npath = "tree"\ntrusted = true\n'
        '[[grant]]\nsubject = "agent_run:*"\nroot = "workspace:demo"\naccess = ["list"]\n'
        '[[token]]\nname = "ci"\nsubject = "agent_run:ci/main"\n'
    )
    with process(tmp_path, "--config", "bailiwick.toml") as (_, told):
        assert told["roots"] == ["workspace:demo"]
        with client(told, told["tokens"]["ci"]) as agent:
            assert [agent.get("/list").status_code for _ in range(4)] == [200, 200, 200, 429]
    kept = told["tokens"]["ci"]
    # It is shown when it is made, and holds as long as it is listed.
    with process(tmp_path, "--config", "bailiwick.toml") as (_, told):
        assert "tokens" not in told
        with client(told, kept) as agent:
            assert agent.get("/list").status_code == 200


@pytest.mark.spec("HTTP-1")
def test_tls(tmp_path):
    (tmp_path / "tree").mkdir()
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", tmp_path / "k.pem", "-out", tmp_path / "c.pem", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    files = ["--certfile", tmp_path / "c.pem", "--keyfile", tmp_path / "k.pem"]
    with process(tmp_path, "tree", *files) as (_, told):
        assert told["url"].startswith("https://")
        import ssl

        context = ssl.create_default_context(cafile=str(tmp_path / "c.pem"))
        shown = {"authorization": f"Bearer {told['token']}"}
        with httpx.Client(verify=context, headers=shown, base_url=told["url"]) as person:
            assert person.get("/list").status_code == 200
            link = person.get(told["console"])
            assert "Secure" in link.headers["set-cookie"]
    # The key of another certificate is told from a file that is none.
    subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-out", tmp_path / "other.pem"],
        capture_output=True, check=True,
    )  # fmt: skip
    failed = run(tmp_path, "tree", *files[:3], tmp_path / "other.pem", "--port", "0")
    assert failed.returncode == 1
    assert failed.stderr.startswith("parse_error: the key is not that of the certificate\nhint: ")


class Writer(threading.Thread):
    """Writes one file after the other, and keeps what was acknowledged."""

    def __init__(self, told, number):
        super().__init__()
        self._told, self._number = told, number
        self.acknowledged = []
        self.stop = False

    def run(self):
        with client(self._told) as person:
            for count in range(100_000):
                if self.stop:
                    return
                path = f"w{self._number}-{count}"
                try:
                    got = person.put(f"/file/raw?path={path}", content=path.encode() * 50)
                except httpx.HTTPError:
                    return
                if got.status_code == 201:
                    self.acknowledged.append(path)
                elif got.status_code == 503:
                    return


@pytest.mark.slow
@pytest.mark.spec("HTTP-7", "DISK-4")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
@pytest.mark.parametrize("place", ["directory", "volume"])
def test_what_was_acknowledged_is_there_afterwards(tmp_path, how, place):
    (tmp_path / "tree").mkdir()
    root = "tree" if place == "directory" else "sqlite:v.db?volume=main"
    for _ in range(2):
        with process(tmp_path, root) as (server, told):
            writers = [Writer(told, f"{time.time_ns()}-{number}") for number in range(3)]
            for writer in writers:
                writer.start()
            until_blocking(lambda all_of=writers: sum(len(w.acknowledged) for w in all_of) >= 20)
            server.send_signal(how)
            code = server.wait(PATIENCE_S)
            for writer in writers:
                writer.join()
        assert code == (0 if how == signal.SIGTERM else -signal.SIGKILL)
        acknowledged = [path for writer in writers for path in writer.acknowledged]
        with process(tmp_path, root) as (_, told), client(told) as person:
            for path in acknowledged:
                assert person.get(f"/file/raw?path={path}").content == path.encode() * 50
            assert person.get("/audit/verify").json()["ok"]


GIVES_UP = "timeout graceful shutdown exceeded"
"""What the log says where somebody was waited for in vain, for as long as is waited at all."""


@pytest.mark.spec("HTTP-7")
@pytest.mark.parametrize(
    ("workers", "place"),
    [
        (1, "tree"),
        pytest.param(4, "tree", marks=pytest.mark.slow),
        pytest.param(4, "sqlite:v.db?volume=main", marks=pytest.mark.slow),
    ],
)
def test_a_server_stops_though_clients_hold_on(tmp_path, workers, place):
    """Streams, silence, downloads that nobody takes and uploads that do not go on: none of them is
    waited for until the end."""
    (tmp_path / "tree").mkdir()
    with process(tmp_path, place, "--workers", workers) as (server, told):
        with client(told) as person:
            assert person.put("/file/raw?path=big", content=b"x" * 20_000_000).status_code == 201
        with holding_on(told, times=workers):
            server.terminate()
            assert server.wait(PATIENCE_S) == 0
        # A worker that a busy machine does not let end in time is killed: that is no giving up.
        assert GIVES_UP not in (tmp_path / "server.log").read_text()
    with process(tmp_path, place) as (_, told), client(told) as person:
        names = [each["name"] for each in person.get("/list").json()["entries"]]
        assert names == ["big"]


@pytest.mark.spec("HTTP-7")
def test_who_stalls_would_be_waited_for_otherwise(tmp_path):
    """The control: the same clients, and nothing that ends them."""
    (tmp_path / "tree").mkdir()
    code = (
        "import sys; from bailiwick.fronts.http import serve_command;"
        "from bailiwick.fronts.http.transport import protocol;"
        "protocol.SHUTDOWN_STALL_SECONDS_MAX = 1e9; sys.exit(serve_command.main(sys.argv[1:]))"
    )
    with process(tmp_path, "tree", command=("-c", code)) as (server, told):
        with client(told) as person:
            assert person.put("/file/raw?path=big", content=b"x" * 20_000_000).status_code == 201
        with holding_on(told, times=1):
            server.terminate()
            assert server.wait(PATIENCE_S) == 0
        assert GIVES_UP in (tmp_path / "server.log").read_text()


@contextlib.contextmanager
def holding_on(told, times):
    """Clients that have begun something each, and do not go on."""
    port = int(told["url"].rpartition(":")[2])
    shown = f"Host: localhost\r\nAuthorization: Bearer {told['token']}\r\n"
    half = '--b\r\nContent-Disposition: form-data; name="file"; filename="u"\r\n\r\nhalf'
    form = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 999"
    chunk = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    with contextlib.ExitStack() as held:
        for asked, answer in (
            ("", None),
            ("GET /list HTTP/1.1\r\n", None),
            (f"GET /events HTTP/1.1\r\n{shown}\r\n", b"retry"),
            (f"GET /file/raw?path=big HTTP/1.1\r\n{shown}\r\n", b"HTTP/1.1 200"),
            (f"PUT /file/raw?path=p HTTP/1.1\r\n{shown}Content-Length: 99\r\n\r\nx", None),
            (f"PUT /file/raw?path=q HTTP/1.1\r\n{shown}Content-Length: 9999999\r\n\r\n"
             + "y" * 300_000, None),
            (f"PUT /file/raw?path=r HTTP/1.1\r\n{shown}{chunk}", None),
            (f"POST /file/upload?path=. HTTP/1.1\r\n{shown}{form}\r\n\r\n{half}", None),
        ) * times:  # fmt: skip
            connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            held.callback(connection.close)
            connection.sendall(asked.encode())
            seen = b""
            while answer is not None and answer not in seen:
                seen += connection.recv(1_000)
        # Whoever came later than these was answered: so all of them were taken up.
        for _ in range(4 * times):
            assert httpx.get(f"{told['url']}/health", timeout=PATIENCE_S).status_code == 200
        yield


def _is_well(person):
    with contextlib.suppress(httpx.HTTPError):
        return person.get("/health").status_code == 200
    return False


@pytest.mark.slow
@pytest.mark.spec("HTTP-1", "HTTP-2")
def test_workers_share_one_truth(tmp_path):
    (tmp_path / "tree").mkdir()
    with process(tmp_path, "tree", "--workers", "2") as (server, told):
        with client(told) as person:
            until_blocking(lambda: _is_well(person))
        for number in range(8):
            with client(told) as person:  # a new connection each, which any of them takes
                made = person.put(f"/file/raw?path=f{number}", content=b"x")
                assert made.status_code == 201, made.text
                assert person.get(f"/file/raw?path=f{number}").content == b"x"
        answers = [httpx.get(told["console"]).status_code for _ in range(4)]
        assert sorted(answers) == [303, 401, 401, 401]
        # A worker that dies is started again.
        children = children_of(server.pid)
        assert len(children) == 2
        killed = children.pop()
        os.kill(killed, signal.SIGKILL)
        until_blocking(lambda: len({*children_of(server.pid)} - {killed}) == 2)
        with client(told) as person:
            assert person.get("/file/raw?path=f0").content == b"x"


@pytest.mark.spec("PY-3")
def test_without_the_extra_it_says_what_is_missing(tmp_path):
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from bailiwick.fronts.http.serve_command import main; sys.exit(main(['memory:']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("unsupported: the server needs a package")
    assert "pip install 'bailiwick[server]'" in done.stderr


@pytest.mark.spec("HTTP-1", "HTTP-2")
@pytest.mark.leaks_ok("uvloop keeps a pipe for signals as long as the process lives")
def test_newcomers_are_taken_in_a_few_turns_of_the_loop(tmp_path):
    """uvloop takes one connection in a turn for each listening socket; a turn of a busy server is
    long, and who gives up and comes back stands behind those who are gone already."""
    count = 64

    async def turns_until(taken):
        turns = 0
        while taken() < count and turns < 1_000:
            await asyncio.sleep(0)
            turns += 1
        return turns

    async def with_one_socket():
        met = []

        class Met(asyncio.Protocol):
            def connection_made(self, transport):
                met.append(transport)
                transport.close()

        with socket.create_server(("127.0.0.1", 0), backlog=count) as listener:
            port = listener.getsockname()[1]
            plain = await asyncio.get_running_loop().create_server(Met, sock=listener)
            with crowd(port, count):
                turns = await turns_until(lambda: len(met))
            plain.close()
        return turns

    async def measure():
        async with serving(tmp_path) as house:
            with crowd(house.port, count):
                turns = await turns_until(house.app_connections)
        return turns, await with_one_socket()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ours, plain = runner.run(measure())
    assert ours < count // 2
    assert plain >= count


@contextlib.contextmanager
def crowd(port, count):
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield
