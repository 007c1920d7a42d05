"""Which start of the machine this is: what was not flushed is lost, or torn, with the next one."""

from __future__ import annotations

from functools import cache


@cache
def boot_id() -> bytes:
    """The name of this start; empty on a system that does not name them."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read().strip()
    except OSError:
        return b""
