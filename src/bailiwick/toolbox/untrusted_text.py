"""Marking what came out of a file, so that a model can tell it from what it was told.

A file may hold anything, also text that looks like the end of the mark. The mark carries a nonce
that is new for each answer and does not occur in what is wrapped: who wrote the file cannot have
known it. This tells a model where untrusted text begins and ends; whether it then obeys such text
is up to the model. What it can do at all is up to grants and policy.
"""

from __future__ import annotations

from collections.abc import Callable

from bailiwick.errors import escape_for_display

TAG = "workspace_tool_result"

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})


class Wrapper:
    """Wraps the contents of one answer; all of them have the same nonce."""

    def __init__(self, workspace: str, op: str, new_nonce: Callable[[], str]) -> None:
        self._workspace = workspace
        self._op = op
        self._new_nonce = new_nonce
        self._nonce: str | None = None

    def begin(self, *contents: str) -> None:
        """Choose a nonce that none of the contents holds."""
        nonce = self._new_nonce()
        while any(nonce in content for content in contents):
            nonce = self._new_nonce()
        self._nonce = nonce

    @property
    def nonce(self) -> str:
        assert self._nonce is not None, "a nonce is chosen when all contents are known"
        return self._nonce

    def wrap(self, content: str, ref: str, *, inline: bool = False) -> str:
        """``content`` of the file ``ref`` between its tags; `begin` has seen it."""
        nonce = self.nonce
        between = "" if inline else "\n"
        return (
            f'<{TAG} untrusted="true" workspace="{attribute(self._workspace)}" op="{self._op}"'
            f' ref="{attribute(ref)}" nonce="{nonce}">{between}{content}{between}'
            f'</{TAG} nonce="{nonce}">'
        )

    def cost(self, ref: str) -> int:
        """How much longer a content becomes by being wrapped, as JSON, where quotes are escaped."""
        if self._nonce is None:
            self.begin()
        tags = self.wrap("", ref, inline=True)
        return len(tags.encode()) + tags.count('"')


def attribute(text: str) -> str:
    """Text as it may stand in an attribute: one line, no quote, nothing invisible."""
    return escape_for_display(text).translate(_ENTITIES)


def cut_note(omitted_bytes: int, what_to_do: str = "refine your search/path") -> str:
    """What follows a text that was cut, outside its tags."""
    return f"\n[... truncated, {omitted_bytes} bytes omitted; {what_to_do}]"
