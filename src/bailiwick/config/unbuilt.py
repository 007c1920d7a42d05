"""What a configuration may ask for that is not built yet: known, and refused by name.

When a part is built, its line here goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bailiwick.config.places import POSTGRES
from bailiwick.config.toml_positions import KeyPath, Positions
from bailiwick.config.values import Config, Unbuilt
from bailiwick.errors import Unsupported


class _Part(NamedTuple):
    """Where it stands (``*``: any place in a list), and which values of it ask for the part."""

    path: tuple[str, ...]
    what: str
    asked: Callable[[Any], bool] = lambda value: True


UNBUILT: tuple[_Part, ...] = (
    _Part(
        ("root", "*", "volume"),
        "volumes on PostgreSQL",
        lambda value: isinstance(value, str) and value.startswith(POSTGRES),
    ),
)


def unbuilt_in(document: dict[str, Any], positions: Positions) -> tuple[Unbuilt, ...]:
    """Everything a document asks for that is not built yet, in the order of the file."""
    found: list[Unbuilt] = []
    for part in UNBUILT:
        for path, value in _at(document, part.path, ()):
            if part.asked(value):
                line, column = positions.of_key(path)
                key = ".".join(str(each) for each in path if isinstance(each, str))
                found.append(Unbuilt(key=key, what=part.what, line=line, column=column))
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))


def _at(value: Any, path: tuple[str, ...], taken: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if not path:
        yield taken, value
    elif path[0] == "*":
        for number, each in enumerate(value):
            yield from _at(each, path[1:], (*taken, number))
    elif path[0] in value:
        yield from _at(value[path[0]], path[1:], (*taken, path[0]))


def refuse_unbuilt(config: Config) -> None:
    """Raise `Unsupported` that names everything asked for and not built yet."""
    if not config.unbuilt:
        return
    named = [
        f"{config.source}:{each.line}:{each.column}: {each.key} ({each.what})"
        for each in config.unbuilt
    ]
    raise Unsupported(
        f"not built yet: {'; '.join(named)}",
        hint="leave it out",
        details={"keys": [each.key for each in config.unbuilt]},
    )
