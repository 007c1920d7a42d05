"""Paths as models write them to tools that know nothing but absolute ones."""

from __future__ import annotations


def from_top(path: str, mount_point: str = "/") -> str:
    """A path of the workspace: ``/src/a.py`` is ``src/a.py``, whatever the machine has at ``/src``.

    One beneath the mount point is left as it is: the scope knows it. Nothing is resolved here, and
    what climbs above the top is for the scope to refuse.
    """
    mount = mount_point.rstrip("/")
    if mount and (path == mount or path.startswith(f"{mount}/")):
        return path
    return path.lstrip("/") or "." if path.startswith("/") else path


def to_absolute(path: str) -> str:
    """A path of the workspace as those tools show it."""
    return "/" if path in ("", ".") else f"/{path}"
