"""An answer in its two forms: an object for programs, and what a model reads.

The object is long for a model: content of files is escaped in it, and every name stands in quotes.
So what a model reads is text, and an operation that has much to say words it itself. All the others
are told as they are: what they hold of a file's content, and the rest as JSON beneath it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from bailiwick.errors import escape_for_display
from bailiwick.reviews import ReviewNote
from bailiwick.toolbox.results import ToolResult

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Image(NamedTuple):
    """A picture, for models that see."""

    mime_type: str
    data: bytes

    @property
    def base64(self) -> str:
        return b64encode(self.data).decode("ascii")

    @property
    def data_url(self) -> str:
        return f"data:{self.mime_type};base64,{self.base64}"


class Answered(NamedTuple):
    """What an operation has to say. ``text`` words it for a model; it is called only where a model
    reads the answer. Pictures stand beside either form."""

    result: ToolResult
    text: Callable[[], str] | None = None
    images: tuple[Image, ...] = ()


class ToolAnswer(dict[str, Any]):
    """The object of an answer, which knows how it is told to a model.

    ``content`` names the field that holds content of files, between its tags. ``review`` is what
    people took back of what the agent did, told beside the result, once.
    """

    def __init__(
        self,
        answered: Answered,
        content: str | None,
        *,
        structured: bool,
        review: Sequence[ReviewNote] = (),
    ) -> None:
        # A name is a `ScopedPath` here and there.
        super().__init__(msgspec.to_builtins(answered.result, enc_hook=str))
        self.review = [
            {"path": str(each.path), "lines": each.lines, "note": each.note} for each in review
        ]
        if review:
            self["review"] = self.review
        self.images = answered.images
        self.is_structured = structured
        self._word = None if structured else answered.text
        self._content = content

    @property
    def is_worded(self) -> bool:
        """Whether what a model reads was worded for it."""
        return self._word is not None

    @property
    def texts(self) -> tuple[str, ...]:
        """What a model reads, block by block."""
        if self._word is not None:
            return (self._word(), *map(_reviewed, self.review))
        if self._content is None:
            return (as_json(self),)
        rest = {key: value for key, value in self.items() if key != self._content}
        content: str = self[self._content]
        return (content, as_json(rest)) if rest else (content,)


def _reviewed(note: dict[str, Any]) -> str:
    path = escape_for_display(note["path"])
    said = f": {note['note']}" if note["note"] else "."
    lines = "".join(f"\n  {each}" for each in note["lines"])
    return f"A person took back what you changed in {path}{said}{lines}"


def text_of(answer: dict[str, Any]) -> str:
    """What a model reads of an answer, as one text; of a failure, and where the configuration wants
    it ``structured``, its object as JSON."""
    if isinstance(answer, ToolAnswer) and not answer.is_structured:
        return "\n".join(answer.texts)
    return as_json(answer)


def images_of(answer: dict[str, Any]) -> tuple[Image, ...]:
    return answer.images if isinstance(answer, ToolAnswer) else ()


def as_json(answer: dict[str, Any]) -> str:
    return _encode(dict(answer)).decode()
