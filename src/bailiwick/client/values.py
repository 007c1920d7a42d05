"""From the wire and to it: results as a scope returns them, and the arguments of its verbs.

What is missing in a result, of another type, or no path of a root, is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from bailiwick import wire
from bailiwick.client.failures import no_answer
from bailiwick.errors import ParseError
from bailiwick.model import Edit
from bailiwick.paths import PathText
from bailiwick.wire.arguments import WireEdit, argument_name
from bailiwick.wire.forms import Value
from bailiwick.wire.verbs import Verb


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


def asked(verb: Verb[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a verb by the names of the wire: what is local to its method, as far as its
    row takes it."""
    names = _names(verb)
    return {
        names[key]: _WRITTEN[name](value) if name in _WRITTEN else value
        for name, value in given.items()
        if (key := argument_name(name)) in names
    }


@cache
def _names(verb: Verb[Any]) -> dict[str, str]:
    return {each.name: each.shown for each in verb.takes}


def _edits(edits: Sequence[Edit] | None) -> list[WireEdit] | None:
    if edits is None:
        return None
    return [WireEdit(each.old, each.new, each.replace_all) for each in edits]


def _file_bytes(most: int | None) -> int | None:
    """How the wire says it: nothing for the usual limit, zero for none at all."""
    if most is None:
        return 0
    return None if most == -1 else most


def one_glob(globs: str | Sequence[str] | None) -> str | None:
    """Several globs as one: the wire takes each parameter once."""
    if globs is None or isinstance(globs, str):
        return globs
    if len(globs) == 1:
        return globs[0]
    return "{" + ",".join(_as_alternative(each) for each in globs) + "}"


def _as_alternative(glob: str) -> str:
    """A glob as it is written between the commas of others: its own are escaped, save those that
    stand in braces or brackets of its own."""
    written, depth, escaped, bracket = "", 0, False, False
    for character in glob:
        if character == "," and not (depth or escaped or bracket):
            written += "\\"
        written += character
        if escaped or character == "\\":
            escaped = not escaped
        elif bracket:
            bracket = character != "]"
        else:
            bracket = character == "["
            depth += (character == "{") - (character == "}")
    return written


_WRITTEN: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(("path", "to", "destination", "prefix", "base"), path_text),
    "other": lambda path: None if path is None else path_text(path),
    "paths": lambda paths: [path_text(each) for each in paths],
    "edits": _edits,
    "include": one_glob,
    "exclude": one_glob,
    "max_file_bytes": _file_bytes,
}
"""Arguments that are not written as they are."""
