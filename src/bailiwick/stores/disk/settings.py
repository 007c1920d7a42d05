"""What an operator chose for one disk root, checked once when it is opened."""

from __future__ import annotations

import os

import msgspec

from bailiwick.errors import ParseError, Unsupported
from bailiwick.limits import Limits
from bailiwick.model import Durability, Hardlinks, KiB, NewFileMode, Symlinks
from bailiwick.stores.disk import syscalls

INLINE_BYTES_MAX = 256 * KiB
"""Up to here a copy to or from the page cache (30 to 60 µs) costs less than a hop to a thread."""

KERNEL_LINK_HOPS = 40
"""MAXSYMLINKS of Linux. The kernel counts for us, so the number cannot be another."""

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


class DiskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one root, as given."""

    symlinks: Symlinks
    hardlinks: Hardlinks
    cross_mounts: bool
    durability: Durability
    new_file_mode: NewFileMode
    limits: Limits

    @property
    def durable(self) -> bool:
        return self.durability == "full"

    def narrowed(self, symlinks: Symlinks | None, hardlinks: Hardlinks | None) -> DiskSettings:
        """These settings, stricter where that is asked for: what is rejected stays rejected."""
        for name, value in (("symlinks", symlinks), ("hardlinks", hardlinks)):
            _one_of(name, value, (None, "reject", "in-root" if name == "symlinks" else "allow"))
        return msgspec.structs.replace(
            self,
            symlinks="reject" if symlinks == "reject" else self.symlinks,
            hardlinks="reject" if hardlinks == "reject" else self.hardlinks,
        )

    def check(self, containment: str) -> None:
        """Refuse what would not be enforced."""
        _one_of("symlinks", self.symlinks, ("reject", "in-root"))
        _one_of("hardlinks", self.hardlinks, ("reject", "allow"))
        _one_of("durability", self.durability, ("full", "rename"))
        _one_of("containment", containment, ("auto", "require-kernel", "walk"))
        mode = self.new_file_mode
        if isinstance(mode, int):
            if not 0 <= mode <= 0o777:
                raise ParseError("new_file_mode is permission bits between 0 and 0o777")
        else:
            _one_of("new_file_mode", mode, ("private", "umask"))
        if self.limits.link_hops_max != KERNEL_LINK_HOPS:
            raise Unsupported(
                f"a disk root follows at most {KERNEL_LINK_HOPS} links, as the kernel does",
                hint="leave link_hops_max alone",
            )


def _one_of(setting: str, value: object, allowed: tuple[str | None, ...]) -> None:
    if value not in allowed:
        raise ParseError(f"{setting} is one of {', '.join(filter(None, allowed))}")


class DiskRoot:
    """The one descriptor everything starts from, and what is known of it."""

    __slots__ = ("dev", "fd", "mount", "status")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.status = os.fstat(fd)
        self.dev = self.status.st_dev
        self.mount = syscalls.mount_of(fd)

    def close(self) -> None:
        """Let go. Later uses then fail instead of meeting a descriptor of the same number."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
