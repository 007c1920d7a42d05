"""Editors that read more leniently than the protocol asks: what they would find in a line."""

import io
import json


def universal_lines(text):
    """The lines of a stream that was opened as text: a carriage return ends one too."""
    return io.StringIO(text, newline=None).read().split("\n")


def take_last(pairs):
    return dict(pairs)


def take_first(pairs):
    return dict(reversed(pairs))


def without_case(take):
    return lambda pairs: take([(name.casefold(), value) for name, value in pairs])


def without_halves(take):
    """Drops what it cannot keep, from names and values."""
    return lambda pairs: take([(_whole(name), _whole(value)) for name, value in pairs])


def _whole(value):
    return value.encode(errors="ignore").decode() if isinstance(value, str) else value


TAKES = [
    also(take)
    for take in (take_last, take_first)
    for also in (lambda take: take, without_case, without_halves)
]


def messages_in(line):
    """The messages that one or another of them would find: `NaN` and halves of characters taken,
    batches too, and whatever ends a line somewhere."""
    text = line.decode(errors="replace")
    for piece in {text, *text.splitlines(), *universal_lines(text)}:
        for take in TAKES:
            try:
                value = json.loads(piece.lstrip("\ufeff"), object_pairs_hook=take)
            except (ValueError, RecursionError):
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    yield each


def methods_in(line):
    found = (message.get("method") for message in messages_in(line))
    return {method for method in found if isinstance(method, str)}
