"""A webhook: an address that is told of each question by a signed POST.

The body names the question and holds nothing of what would be changed. Of the answer only the
status is read. A redirect is not followed: it would send what is signed for one address to another,
which whoever answers chooses. Certificates are checked. Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import ssl
import stat
import time
from collections.abc import Callable
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from bailiwick.approvals import Approval
from bailiwick.errors import IoError, ParseError, PermissionDenied

_log = logging.getLogger("bailiwick.notifiers")

SIGNATURE: Final = "X-Bailiwick-Signature"

TRIES_MAX: Final = 6
"""How often one question is sent at most: over about half a minute, in which a server restarts."""

BACK_OFF_FIRST_S: Final = 1.0
BACK_OFF_MAX_S: Final = 16.0

EXCHANGE_SECONDS_MAX: Final = 10.0
"""From connecting to the status of the answer: whoever takes longer has not got it."""

_STATUS_BYTES_MAX: Final = 8 * 1024
_INTERIM_LINES_MAX: Final = 100
_SECRET_BYTES_MIN, _SECRET_BYTES_MAX = 16, 4096
"""A shorter secret can be guessed from a signature; a longer one is another file, by mistake."""

_AGAIN: Final = frozenset((408, 425, 429))
"""Refusals that mean "later"."""


class HookAddress(msgspec.Struct, frozen=True):
    """Where a webhook listens."""

    secure: bool
    host: str
    port: int
    target: str
    shown: str
    """Only where it is: path and query may hold a secret. For logs."""


def read_address(url: str) -> HookAddress:
    """Raises `ParseError` for whatever is no plain address of a server by http or https."""
    hint = "such as https://example.org/hooks/bailiwick"
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ParseError("the address of a webhook is printable ASCII without spaces", hint=hint)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ParseError("this is no address of a webhook", hint=hint) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ParseError("a webhook is reached by http or https", hint=hint)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ParseError("the address of a webhook has neither user nor fragment", hint=hint)
    secure = parts.scheme == "https"
    path = parts.path or "/"
    return HookAddress(
        secure, parts.hostname, port or (443 if secure else 80),
        path + (f"?{parts.query}" if parts.query else ""),
        f"{parts.scheme}://{parts.netloc}",
    )  # fmt: skip


def read_secret(file: str) -> bytes:
    """What signs, kept in a file of its own that nobody else may read. Blocks.

    Raises `PermissionDenied` where others may read or write it, `IoError` and `ParseError`.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise IoError(f"the secret of the webhook cannot be read: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ParseError("the secret of the webhook is no file")
        if stat.S_IMODE(found.st_mode) & 0o077 or found.st_uid not in (os.geteuid(), 0):
            raise PermissionDenied(
                "others may read the secret of the webhook", hint="make it private (chmod 600)"
            )
        secret = os.read(descriptor, _SECRET_BYTES_MAX + 1).rstrip(b"\r\n")
    finally:
        os.close(descriptor)
    if not _SECRET_BYTES_MIN <= len(secret) <= _SECRET_BYTES_MAX:
        raise ParseError(
            f"the secret of a webhook has {_SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX} bytes",
            hint="openssl rand -hex 32",
        )
    return secret


def body_of(approval: Approval) -> bytes:
    """What is told: names, and no content."""
    question = approval.question
    path = question.target or (question.paths[0] if question.paths else "")
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(approval.expires_ns / 1e9))
    document = {
        "kind": "approval", "id": approval.id, "root": question.root,
        "subject": str(question.subject), "operation": question.operation,
        "path": str(path).encode("utf-8", "backslashreplace").decode(), "expiresAt": ends,
    }  # fmt: skip
    return msgspec.json.encode(document)


class Webhook:
    """Tells one address, and tries again where it did not get it."""

    def __init__(
        self,
        address: HookAddress,
        secret: bytes,
        *,
        time_ns: Callable[[], int],
        trusted: ssl.SSLContext | None = None,
        back_off_s: float = BACK_OFF_FIRST_S,
        exchange_s: float = EXCHANGE_SECONDS_MAX,
    ) -> None:
        self._address = address
        self._secret = secret
        self._time_ns = time_ns
        self._trusted = trusted
        self._back_off_s = back_off_s
        self._exchange_s = exchange_s

    async def __call__(self, approval: Approval) -> None:
        body = body_of(approval)
        delay_s = self._back_off_s
        for number in range(1, TRIES_MAX + 1):
            became = await self._try(body)
            if became == "told":
                return
            is_last = number == TRIES_MAX or self._time_ns() >= approval.expires_ns
            if became == "refused" or is_last:
                break
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, BACK_OFF_MAX_S)
        _log.warning(
            "a webhook was not told of a question", extra={
                "address": self._address.shown, "approval": approval.id, "tries": number,
            },
        )  # fmt: skip

    async def _try(self, body: bytes) -> Literal["told", "later", "refused"]:
        try:
            async with asyncio.timeout(self._exchange_s):
                status = await self._exchange(body)
        except TimeoutError:
            why = "it did not answer in time"
        except (OSError, ValueError, EOFError) as error:
            why = f"{type(error).__name__}: {error}"
        else:
            if 200 <= status < 300:
                return "told"
            why = f"it answered {status}"
            if status < 500 and status not in _AGAIN:
                _log.warning("%s: %s, which is final", self._address.shown, why)
                return "refused"
        _log.info("%s: %s", self._address.shown, why)
        return "later"

    async def _exchange(self, body: bytes) -> int:
        address = self._address
        if address.secure and self._trusted is None:
            self._trusted = ssl.create_default_context()
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=self._trusted, limit=_STATUS_BYTES_MAX
        )
        try:
            writer.write(self._head(body) + body)
            await writer.drain()
            return await _status(reader)
        finally:
            # Whatever else comes is of no interest, and may have no end.
            writer.transport.abort()

    def _head(self, body: bytes) -> bytes:
        address = self._address
        host = f"[{address.host}]" if ":" in address.host else address.host
        if address.port != (443 if address.secure else 80):
            host += f":{address.port}"
        signature = hmac.new(self._secret, body, hashlib.sha256).hexdigest()
        return (
            f"POST {address.target} HTTP/1.1\r\n"
            f"Host: {host}\r\n"
            "User-Agent: bailiwick\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n"
            f"{SIGNATURE}: sha256={signature}\r\n"
            "Connection: close\r\n\r\n"
        ).encode("ascii")


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of an answer; what comes before the last one (1xx) is passed over. Raises
    `ValueError` for what is no answer."""
    for _ in range(_INTERIM_LINES_MAX):
        line = await reader.readline()
        version, _, rest = line.partition(b" ")
        digits = rest[:3]
        if not version.startswith(b"HTTP/1.") or len(digits) != 3 or not digits.isdigit():
            raise ValueError("what answers speaks no HTTP")
        status = int(digits)
        if status >= 200:
            return status
        for _ in range(_INTERIM_LINES_MAX):
            if not (await reader.readline()).strip():
                break
    raise ValueError("its answer does not begin")
