"""Results from the wire: the same values that a scope returns, and paths on their way there.

What is missing, of another type, or no path of a root, is no answer.
"""

from __future__ import annotations

from bailiwick import wire
from bailiwick.client.failures import no_answer
from bailiwick.errors import ParseError
from bailiwick.paths import PathText
from bailiwick.wire.forms import Value


def rebuilt(cls: type[Value], document: object) -> Value:
    """The value that a document stands for."""
    try:
        return wire.read(cls, document)
    except wire.Unreadable as error:
        raise no_answer(str(error)) from None


def rebuilt_all(cls: type[Value], documents: object) -> list[Value]:
    if not isinstance(documents, list):
        raise no_answer("a list is missing")
    return [rebuilt(cls, each) for each in documents]


def path_text(path: PathText) -> str:
    """What a caller gave for a path, as text for the wire. What is wrong with it the server says,
    as it does for everybody."""
    text = path if isinstance(path, str) else getattr(path, "__fspath__", lambda: None)()
    if not isinstance(text, str):
        raise ParseError(
            f"a path is text, not {type(path).__name__}", hint="decode bytes before passing them"
        )
    return str(text)
