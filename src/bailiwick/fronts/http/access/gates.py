"""What is looked at before anybody is asked who they are: host, origin, and how often.

A browser is everyone's tool: a page from anywhere can make it call this machine. So a request must
name this server by a name it has (else a name could be pointed here, and a page of that name could
read the answers), and a page must be one of this server's own.
"""

from __future__ import annotations

import re
import time
from ipaddress import ip_address

from bailiwick.errors import ForbiddenOrigin, RateLimited

_HOST = re.compile(rb"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?").fullmatch

_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))

_HOSTS_KEPT = 256


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine alone."""
    if address == "localhost":
        return True
    try:
        return ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


class HostGate:
    """Lets pass what names this server and comes from no foreign page."""

    def __init__(self, allowed: frozenset[str] | None) -> None:
        names = _LOOPBACK_NAMES if allowed is None else allowed
        self._any = "*" in names
        self._names = frozenset(name.lower() for name in names)
        self._known: set[bytes] = set()

    def check(self, headers: dict[bytes, bytes], scheme: str) -> None:
        """Raises `ForbiddenOrigin`."""
        host = headers.get(b"host")
        if host not in self._known:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is not None:
            self._check_origin(origin, host or b"", scheme)

    def _check_host(self, host: bytes | None) -> None:
        found = None if host is None else _HOST(host)
        if found is None or host is None:
            raise ForbiddenOrigin("the request does not say which host it is for")
        name = found[1].decode("ascii").lower()
        if not self._any and name not in self._names:
            raise ForbiddenOrigin(
                "this server is not known by that host name",
                hint="use the address that the server printed",
            )
        if len(self._known) < _HOSTS_KEPT:
            self._known.add(host)

    def _check_origin(self, origin: bytes, host: bytes, scheme: str) -> None:
        # TLS may end before us: then the page came by https from the same host.
        own = [b"https://" + host] if scheme == "https" else [b"http://" + host, b"https://" + host]
        if origin not in own:
            raise ForbiddenOrigin("a page from elsewhere may not call this server")


def same_origin(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser says that a page of this server made the request. The gate has compared
    the origin already, where there is one."""
    site = headers.get(b"sec-fetch-site")
    return b"origin" in headers if site is None else site == b"same-origin"


class Pace:
    """How often one subject may call: so many a minute, which it may use all at once.

    A bound is kept as the moment at which everything done so far would be paid for at an even
    pace: one number for each, and nothing to clear away.
    """

    __slots__ = ("_paid", "_price")

    def __init__(self, per_minute: int) -> None:
        self._price = 60.0 / per_minute
        self._paid = 0.0

    @property
    def is_paid(self) -> bool:
        """Whether all that was done is paid for."""
        return self._paid <= time.monotonic()

    def take(self, calls: int = 1) -> None:
        """Count one call, or several at once. Raises `RateLimited`."""
        now = time.monotonic()
        price = self._price * calls
        paid = max(self._paid, now) + price
        ahead = paid - now - 60.0
        if ahead > 0:
            wait_s = round(ahead, 3)
            never = calls > 1 and price + self._price > 60.0
            raise RateLimited(
                "too many requests in a minute",
                hint="send smaller batches" if never else f"try again in {wait_s:g} s",
                details={"retry_after_s": wait_s},
            )
        self._paid = paid
