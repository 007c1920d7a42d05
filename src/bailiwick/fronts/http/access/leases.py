"""What a lock is called, so that a later request can renew it or give it back.

The lease itself is in the store. Its name here says all that it takes to find it again, sealed with
a key that the processes of one server share: whichever of them is asked knows the lock, and nobody
can make up a name. A name is good for as long as the server runs; a lease ends by itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

import msgspec

from bailiwick.errors import PathNotFound

_SEAL_BYTES = 16


class HeldLease(msgspec.Struct, frozen=True, array_like=True):
    """A lease, who holds it, and on which root or fork.

    ``holder`` is who may renew it and give it back, ``subject`` whom the store knows it by.
    ``text`` is the path as the holder wrote it, ``path`` where that is in the root.
    """

    holder: str
    subject: str
    root: str
    fork: str | None
    text: str
    path: str
    token: int
    expires_ns: int


class LeaseNames:
    """Gives leases their names, and finds them by these."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def name(self, held: HeldLease) -> str:
        body = msgspec.msgpack.encode(held)
        return base64.urlsafe_b64encode(self._seal(body) + body).decode().rstrip("=")

    def find(self, name: str, holder: str | None) -> HeldLease:
        """The lease of a name, for its holder; for anybody where none is given. Raises
        `PathNotFound`."""
        try:
            sealed = base64.b64decode(name + "=" * (-len(name) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _unknown() from None
        body = sealed[_SEAL_BYTES:]
        if not hmac.compare_digest(self._seal(body), sealed[:_SEAL_BYTES]):
            raise _unknown()
        held = msgspec.msgpack.decode(body, type=HeldLease)
        if holder is not None and held.holder != holder:
            raise _unknown()
        return held

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)[:_SEAL_BYTES]


def _unknown() -> PathNotFound:
    return PathNotFound("there is no such lock")
