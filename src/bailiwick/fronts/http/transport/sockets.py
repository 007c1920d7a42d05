"""The sockets a server listens on."""

from __future__ import annotations

import errno
import socket

from bailiwick.errors import BailiwickError, IoError, ParseError, PermissionDenied, from_os_error

_BACKLOG = 1_024


def bind(host: str, port: int) -> socket.socket:
    """A socket at an address; with port 0 on one that is free. What stands in the way is said in
    the words of who typed the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once (TCP_NODELAY); else every answer
    # of two pieces waits 40 ms for the other side.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.set_inheritable(True)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _cannot_listen(error, host, port) from None
    return listener


def listen(listener: socket.socket) -> None:
    """Let connections come, which wait until they are answered: not before there is somebody to do
    so, since who is refused asks elsewhere."""
    try:
        listener.listen(_BACKLOG)
    except OSError as error:  # another was bound to it at the same time, and was quicker
        raise _cannot_listen(error, *listener.getsockname()[:2]) from None


def inherited(descriptor: int) -> socket.socket:
    """A socket that the parent listens on, for a worker.

    Whether it blocks is known to the socket object and to the system, which all workers share. One
    that thinks it blocks says so to the system whenever it is duplicated: a worker that looks for a
    connection at that instant, and finds that another was quicker, would stand still.
    """
    listener = socket.socket(fileno=descriptor)
    listener.setblocking(False)
    return listener


def _cannot_listen(error: OSError, host: str, port: int) -> BailiwickError:
    if isinstance(error, socket.gaierror):
        return ParseError(
            f"there is no address {host!r} to listen on", hint="--host 127.0.0.1 is this machine"
        )
    if error.errno == errno.EADDRINUSE:
        return IoError(
            f"something listens on port {port} already", errno=error.errno,
            hint="end it, or take another port: --port 0 takes one that is free",
        )  # fmt: skip
    if error.errno == errno.EADDRNOTAVAIL:
        return ParseError(
            f"{host} is not an address of this machine",
            hint="--host 127.0.0.1 is this machine alone, 0.0.0.0 all of its addresses",
        )
    if error.errno == errno.EACCES:
        return PermissionDenied(
            f"port {port} is reserved for the system", hint="take one above 1023: --port 4180"
        )
    return from_os_error(error)


def address_of(listener: socket.socket, scheme: str) -> str:
    """What a person types to reach it."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}"
