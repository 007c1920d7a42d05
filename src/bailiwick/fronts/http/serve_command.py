"""`bailiwick serve`: trees over HTTP, with a console."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import msgspec

from bailiwick.build.shared_grants import SharedGrants
from bailiwick.ending_signals import ending_signals
from bailiwick.errors import (
    BailiwickError,
    FileAlreadyExists,
    ParseError,
    PathNotFound,
    Unauthenticated,
    Unsupported,
    escape_for_display,
)
from bailiwick.fronts.http.access.gates import is_loopback
from bailiwick.fronts.http.plans import ServerPlan, make_plan, opened
from bailiwick.fronts.http.transport.descriptors import raise_limit
from bailiwick.fronts.http.transport.event_loop import new_event_loop
from bailiwick.fronts.http.transport.sockets import address_of, bind, inherited, listen
from bailiwick.grant import User

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.fronts.http.transport.server import Server

_log = logging.getLogger("bailiwick.http")

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2

TOKEN_VARIABLE = "BAILIWICK_TOKEN"
PERSON = User("local")
"""Whose token the server prints: the person who started it."""

TOKEN_NAME = "serve"
"""What that token is called: there is one for a state, which every start replaces."""

_TOKEN_FILE_BYTES_MAX = 4_096
_TOKEN_HINT = "name a file with a token in it, or leave --token-file out and one is drawn"
_STOP_SECONDS_MAX = 4.0
"""How long all workers together are waited for, before those that are left are killed: a second is
left for what they had together."""

_RESTARTS_MAX = 10
_RESTARTS_SECONDS = 60.0
"""Workers that die more often than this in such a time do not stay up, and others would not either.
One that dies now and then, for want of memory say, is replaced however long the server runs."""


class Announcement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the person who starts a server is told."""

    url: str
    roots: list[str]
    console: str
    token: str | None = None
    tokens: dict[str, str] = {}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop; the answer is the exit code."""
    options = _options(sys.argv[1:] if argv is None else list(argv))
    _log_to_stderr()
    try:
        _require_server()
        plan = make_plan(options)
        token = _token(options)
        _note_config(options)
        if plan.workers > 1:
            return _serve_with_workers(plan, token, as_json=options.json)
        return _run(_serve(plan, token, as_json=options.json))
    except BailiwickError as error:
        _complain(error, as_json=options.json)
        return EXIT_FAILED


class _OneLine(logging.Formatter):
    """What a log says may come from callers: it cannot begin a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (as logging calls it)
        return escape_for_display(super().formatMessage(record))


def _log_to_stderr() -> None:
    """Warnings and faults go to stderr, unless the program around has its own log."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _complain(error: BailiwickError, *, as_json: bool) -> None:
    """Say why nothing is served, and what to do about it."""
    error.hint = error.hint or "bailiwick serve --help says what it takes, with an example"
    if as_json:
        from bailiwick.fronts.http.messages.errors import encode

        sys.stderr.write(encode(error).decode() + "\n")
        return
    sys.stderr.write(f"{error.kind}: {escape_for_display(error.message)}\n")
    sys.stderr.write(f"hint: {escape_for_display(error.hint)}\n")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = _ServeParser(
        prog="bailiwick serve",
        description="Serve trees over HTTP, with a console. Without a ROOT it is a workspace in"
        " the user's data directory.",
        epilog="example: bailiwick serve ./project --port 4180",
        allow_abbrev=False,
    )
    parser.add_argument(
        "roots", nargs="*", metavar="ROOT",
        help="a directory, sqlite:FILE?volume=NAME, or memory:; NAME=ROOT to name it",
    )  # fmt: skip
    parser.add_argument("--host", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=_port, help="the port to listen on (4180; 0: any)")
    parser.add_argument("--token", help=f"a token for the person at it (or ${TOKEN_VARIABLE})")
    parser.add_argument("--token-file", metavar="FILE", help="the same, from a file")
    parser.add_argument("--config", metavar="FILE", help="a bailiwick.toml, for all of it")
    parser.add_argument("--state", metavar="DIR", help="where the authority keeps its state")
    parser.add_argument("--read-only", action="store_true", help="change nothing")
    parser.add_argument("--workers", type=_count, metavar="N", help="how many processes serve")
    parser.add_argument("--certfile", metavar="FILE", help="the certificate, for https")
    parser.add_argument("--keyfile", metavar="FILE", help="its key")
    parser.add_argument("--json", action="store_true", help="say where it serves as JSON")
    return parser.parse_args(arguments)


class _ServeParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Wrong usage: exit code 2. What was typed is shown without what could repaint a screen."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {escape_for_display(message)}\n")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1_024):
        raise argparse.ArgumentTypeError("a number from 1 to 1024")
    return int(text)


def _require_server() -> None:
    try:
        import httptools  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise Unsupported(
            f"the server needs a package that is missing: {error.name}",
            hint="pip install 'bailiwick[server]'",
        ) from None


def _token(options: argparse.Namespace) -> str | None:
    """The token that was given, by whichever way."""
    if options.token is not None and options.token_file is not None:
        raise ParseError("a token is given by --token or by --token-file, not by both")
    if options.token_file is not None:
        try:
            with open(options.token_file, encoding="utf-8") as file:
                return file.read(_TOKEN_FILE_BYTES_MAX).strip()
        except UnicodeDecodeError:
            raise ParseError("the token file holds no text", hint=_TOKEN_HINT) from None
        except OSError:
            raise PathNotFound("the token file cannot be read", hint=_TOKEN_HINT) from None
    return options.token or os.environ.get(TOKEN_VARIABLE) or None


def _note_config(options: argparse.Namespace) -> None:
    if options.config is None and not options.json and os.path.exists("bailiwick.toml"):
        sys.stderr.write("note: bailiwick.toml is not used; --config bailiwick.toml serves it\n")


# --- one process -------------------------------------------------------------------------------


def _run(work: Any) -> int:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        code: int = runner.run(work)
    return code


async def _serve(plan: ServerPlan, token: str | None, *, as_json: bool) -> int:
    async with opened(plan, first=True) as authority:
        _refuse_open_network(plan, authority, token)
        listener = bind(plan.host, plan.port)
        try:
            told = await _announcement(plan, authority, listener, token)
            try:
                listen(listener)
                await _serve_on(plan, authority, listener, lambda _: _tell(told, as_json=as_json))
            finally:
                await _end_token(authority, told)
        finally:
            listener.close()
    return EXIT_OK


async def _serve_on(
    plan: ServerPlan,
    authority: Authority,
    listener: socket.socket,
    ready: Callable[[Server], None],
) -> None:
    from bailiwick.fronts.http.application import Application
    from bailiwick.fronts.http.mounted import mounts_of
    from bailiwick.fronts.http.transport.server import Server, configure

    raise_limit()
    settings = plan.settings
    if authority.is_shared:
        settings = msgspec.structs.replace(settings, lock_key=authority.shared_key)
    processes = max(plan.workers, 2 if settings.several else 1)
    shared = SharedGrants(settings.lock_key) if settings.several else None
    app = Application(authority, settings, mounts_of(authority, workers=processes, shared=shared))
    server = Server(configure(app, plan.certfile, plan.keyfile), app, is_last=True)
    server.on_start(lambda: ready(server))
    try:
        await server.serve([listener])
    finally:
        await app.aclose()


def _refuse_open_network(plan: ServerPlan, authority: Authority, token: str | None) -> None:
    others = [
        each for each in authority.tokens.tokens() if each.name.partition(".")[0] != TOKEN_NAME
    ]
    if not is_loopback(plan.host) and token is None and not others:
        raise Unauthenticated(
            f"{plan.host} can be reached by others, and there is no token",
            hint="give --token or --token-file, or make one: bailiwick grant token",
        )


async def _announcement(
    plan: ServerPlan, authority: Authority, listener: socket.socket, token: str | None
) -> Announcement:
    """Make the tokens that are missing, and the link to log in with."""
    url = address_of(listener, plan.scheme)
    book, listed = authority.tokens, authority.configured
    name = TOKEN_NAME
    if authority.is_shared and token is None:
        name = f"{TOKEN_NAME}.{os.urandom(4).hex()}"  # other servers have theirs
    shown = await book.issue(name, str(PERSON), by=PERSON, front="http", secret=token)
    there = {each.name for each in book.tokens()}
    made: dict[str, str] = {}
    for each, subject in listed.tokens.items():
        if each not in there:
            with suppress(FileAlreadyExists):  # another server was quicker
                made[each] = await book.issue(
                    each, subject, by=PERSON, front="http", origin=listed.origin, only_new=True
                )
    link = await book.new_link(PERSON)
    return Announcement(
        url=url, roots=[str(root) for root in authority.roots()],
        console=f"{url}/login?link={link}", token=shown if token is None else None, tokens=made,
    )  # fmt: skip


async def _end_token(authority: Authority, told: Announcement) -> None:
    """The token that was drawn for this server ends with it, unless another server has replaced
    it. One that somebody chose is theirs to give again, and ends when a start is told none."""
    drawn = None if told.token is None else authority.tokens.find(told.token.encode())
    if drawn is not None:
        await authority.tokens.revoke(drawn.name, by=PERSON, front="http")


def _tell(told: Announcement, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    else:
        lines = [f"bailiwick serves {', '.join(told.roots)} at {told.url}"]
        if told.token is not None:
            lines.append(f"  token    {told.token}")
        lines += [f"  token    {secret} for {name}" for name, secret in told.tokens.items()]
        lines.append(f"  console  {told.console} (once, within ten minutes)")
        sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


# --- several processes -------------------------------------------------------------------------


def _serve_with_workers(plan: ServerPlan, token: str | None, *, as_json: bool) -> int:
    """Listen here, and have worker processes answer. One that dies is started again."""
    listener, told = _run_first(plan, token)
    stopping, endings = False, ending_signals()

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True

    for each in endings:
        signal.signal(each, stop)
    workers: list[subprocess.Popen[bytes]] = []
    deaths: list[float] = []
    try:
        workers.extend(_start(plan, listener) for _ in range(plan.workers))
        _tell(told, as_json=as_json)
        while not stopping:
            signal.sigtimedwait((signal.SIGCHLD,), 0.2)
            for number, worker in enumerate(workers):
                if worker.poll() is not None and not stopping:
                    now = time.monotonic()
                    deaths = [each for each in deaths if now - each < _RESTARTS_SECONDS] + [now]
                    if len(deaths) > _RESTARTS_MAX:
                        sys.stderr.write("internal_error: the workers do not stay up\n")
                        return EXIT_FAILED
                    _log.warning("worker %d %s, and is replaced", worker.pid, _ending_of(worker))
                    _hang_up(worker)
                    workers[number] = _start(plan, listener)
    finally:
        # Nothing is left to be told: the end is under way, and has a bound.
        for each in endings:
            signal.signal(each, signal.SIG_IGN)
        _end(workers)
        listener.close()
        asyncio.run(_end_later(plan, told))
    return EXIT_OK


def _end(workers: list[subprocess.Popen[bytes]]) -> None:
    """Have all of them finish; who does not is killed."""
    for worker in workers:
        _hang_up(worker)
    until = time.monotonic() + _STOP_SECONDS_MAX
    for worker in workers:
        try:
            worker.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            _log.warning("a worker did not stop in time, and was killed")
            worker.kill()
            worker.wait()


def _ending_of(worker: subprocess.Popen[bytes]) -> str:
    if worker.returncode < 0:
        return f"was ended by {signal.Signals(-worker.returncode).name}"
    return f"ended with exit code {worker.returncode}"


async def _end_later(plan: ServerPlan, told: Announcement) -> None:
    """Let go of what the workers had together, once they are gone."""
    async with opened(plan, first=False) as authority:
        if not authority.is_shared:  # other servers may act under them
            await authority.end_sharing(SharedGrants(plan.settings.lock_key).front)
        await _end_token(authority, told)


def _run_first(plan: ServerPlan, token: str | None) -> tuple[socket.socket, Announcement]:
    """Bring the state up to date, once, before any worker opens it."""

    async def prepare() -> tuple[socket.socket, Announcement]:
        async with opened(plan, first=True) as authority:
            _refuse_open_network(plan, authority, token)
            listener = bind(plan.host, plan.port)
            try:
                told = await _announcement(plan, authority, listener, token)
                listen(listener)
            except BaseException:
                listener.close()
                raise
            return listener, told

    return asyncio.run(prepare())


def _start(plan: ServerPlan, listener: socket.socket) -> subprocess.Popen[bytes]:
    """A worker, which has the plan from its parent and ends when nothing more can come from there.

    That tells it to stop, and that its parent is gone, however that went: no other process has the
    end of the pipe that is written to. Ctrl-C is for the parent alone, though a terminal sends it
    to all: a worker would be told at an instant at which it cannot hear it yet.
    """
    number = listener.fileno()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        worker = subprocess.Popen(
            [sys.executable, "-m", "bailiwick.fronts.http.worker", str(number)],
            stdin=subprocess.PIPE,
            pass_fds=(number,),
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert worker.stdin is not None
    with suppress(BrokenPipeError):  # it has died already, which is noticed like any other death
        worker.stdin.write(msgspec.json.encode(plan) + b"\n")
        worker.stdin.flush()
    return worker


def _hang_up(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdin is not None
    with suppress(BrokenPipeError):
        worker.stdin.close()


def work(descriptor: int, parent: BinaryIO) -> int:
    """What a worker does: open the state that its parent has prepared, and answer until the parent
    hangs up."""
    _log_to_stderr()
    told = parent.readline()
    if not told.endswith(b"\n"):
        return EXIT_OK
    plan = msgspec.json.decode(told, type=ServerPlan)

    def stop_with_parent(server: Server) -> None:
        loop = asyncio.get_running_loop()

        def hung_up() -> None:
            loop.remove_reader(parent)
            server.finish()

        # Nothing more is ever said: what can be read is the end.
        loop.add_reader(parent, hung_up)

    async def answer() -> int:
        listener = inherited(descriptor)
        try:
            async with opened(plan, first=False) as authority:
                await _serve_on(plan, authority, listener, stop_with_parent)
        finally:
            listener.close()
        return EXIT_OK

    return _run(answer())
