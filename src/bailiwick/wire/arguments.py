"""What the arguments of verbs are called on the wire. A name means the same in every verb."""

from __future__ import annotations

_OTHERS = {
    "atime_ns": "accessed_ns",
    "base": "path",
    "max_results": "limit",
    "mtime_ns": "modified_ns",
    "new": "new_text",
    "old": "old_text",
    "prefix": "path",
    "text": "content",
    "to": "destination",
}
"""What does not follow from the rule: a hash is one, all else is called what it is called."""


def argument_name(name: str) -> str:
    """What an argument is called on the wire, still in snake case."""
    return _OTHERS.get(name) or name.replace("sha256", "hash")
