"""The key of the ledger: 32 bytes in a file of its own, and what is derived from it.

Whoever can write the database but not read the key can destroy the ledger, not rewrite it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat

from bailiwick.errors import BailiwickError, IoError, PermissionDenied, from_os_error

FILE = "ledger.key"
KEY_BYTES = 32

_SHA256_BLOCK_BYTES = 64


class KeyedHash:
    """HMAC-SHA256 under one key, with the key's own two blocks hashed in advance.

    The same as ``hmac.digest``, at a third of its cost: every record of every read is hashed.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = key.ljust(_SHA256_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def __call__(self, message: bytes) -> bytes:
        inner = self._inner.copy()
        inner.update(message)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()


class Keys:
    """One key for each use, so that what is made for one use is worth nothing in another."""

    __slots__ = ("chain", "checkpoint", "intent", "mark", "path", "shared")

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise IoError(f"a ledger key has {KEY_BYTES} bytes, this one has {len(key)}")
        self.chain = KeyedHash(_derived(key, b"chain"))
        self.checkpoint = KeyedHash(_derived(key, b"checkpoint"))
        self.intent = KeyedHash(_derived(key, b"intent"))
        self.path = KeyedHash(_derived(key, b"path"))
        self.shared = _derived(key, b"shared")
        """What servers that share a state seal with, what they hand out for each other."""
        self.mark = _derived(key, b"mark")
        """Kept with the ledger: says whether a key is the one it was written with."""

    def hidden_path(self, path: str) -> str:
        """What stands for a path in a ledger that keeps no names."""
        return f"hmac-sha256:{self.path(_utf8(path)).hex()}"


def _derived(key: bytes, use: bytes) -> bytes:
    return hmac.digest(key, b"bailiwick ledger 1 " + use, "sha256")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def load_key(directory: str) -> bytes | None:
    """The key kept in a state directory, None where there is none. Blocks.

    Raises `PermissionDenied` where others may read it, `IoError` where it is no key.
    """
    try:
        descriptor = os.open(
            os.path.join(directory, FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(error) from error
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            raise PermissionDenied(
                "others may read the key of the ledger",
                hint=f"make {FILE} private (chmod 600); records since then prove nothing",
            )
        key = os.read(descriptor, KEY_BYTES + 1)
    except BailiwickError:
        raise
    except OSError as error:
        raise _unreadable(error) from error
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        raise IoError(f"{FILE} is not a ledger key", hint="restore it from a backup")
    return key


def make_key(directory: str) -> bytes:
    """Make a key in a state directory, or load the one that another process made first. Blocks."""
    key = secrets.token_bytes(KEY_BYTES)
    path = os.path.join(directory, FILE)
    staged = f"{path}.{secrets.token_hex(8)}"
    try:
        descriptor = os.open(
            staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            with open(descriptor, "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(descriptor)
            with contextlib.suppress(FileExistsError):
                os.link(staged, path)  # whole or not at all, and never over another
        finally:
            os.unlink(staged)
        _sync_directory(directory)
    except OSError as error:
        raise from_os_error(error) from error
    kept = load_key(directory)
    if kept is None:
        raise IoError(f"{FILE} went away as soon as it was made")
    return kept


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unreadable(error: OSError) -> IoError:
    return IoError(f"{FILE} cannot be read", errno=error.errno, hint="whose is the file?")
