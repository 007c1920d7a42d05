"""The calls of `state` as text: the class that is made of them in the sandbox, and what a model is
told of them. Both are made from one vocabulary."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import cache
from typing import Any, Final, get_args, get_origin

import msgspec

from bailiwick import errors
from bailiwick.code import conveniences
from bailiwick.code.conveniences import Conveniences
from bailiwick.code.vocabulary import CodeVerb, Parameter, Returns, vocabulary
from bailiwick.errors import BailiwickError
from bailiwick.model import (
    BytesRead,
    DiffResult,
    EditResult,
    Found,
    JsonRead,
    Page,
    Stat,
    TextRead,
    WriteResult,
)
from bailiwick.search.results import GrepResult
from bailiwick.versions import History

CONVENIENCES: Final = {
    "search_files": "[{path, matches: [{line, text}]}]",
    "replace_in_files": "[edit result]",
    "plan_edits": "plan; edits: [{path, old, new}]",
    "apply_edits": "[edit result]",
    "summarize_tree": "{files, directories, bytes, endings, tree}",
    "hash_file": "sha256",
    "query_json": "value at a.b[0]",
    "update_json": "write result; changes: {'a.b[0]': value}",
}
"""What is made of calls, and what comes back."""

UNSAID: Final = {
    "as_of", "bom", "cursor", "encoding", "expected_destination_sha256",
    "expected_destination_version", "expected_version", "file_mode", "include_ignored",
    "line_ending", "lock_token", "report_skipped",
}  # fmt: skip
"""Parameters that a model is told of once: they mean the same wherever they are."""


# --- inside --------------------------------------------------------------------------------------


@cache
def state_text() -> str:
    """The class of `state`, in Python."""
    lines = [inspect.getsource(conveniences), "class state_class(Conveniences, State):"]
    for verb in vocabulary().values():
        given = ", ".join(
            f"{each.name!r}: {each.name}" for each in verb.parameters if each.name != verb.streamed
        )
        call = f"self._call({verb.name!r}, {{{given}}})"
        if verb.streamed:
            call = f"self._send({verb.name!r}, {{{given}}}, {verb.streamed})"
        lines += [
            f"    def {verb.name}(self, {signature(verb)}):".replace("(self, )", "(self)"),
            f"        {verb.about!r}",
            f"        return {call}",
        ]
    return "\n".join([*lines, "state_class.__name__ = 'State'", ""])


def signature(verb: CodeVerb) -> str:
    """The parameters of a call, as Python has them."""
    parts: list[str] = []
    for each in verb.parameters:
        if each.is_keyword and "*" not in parts:
            parts.append("*")
        parts.append(each.name if each.is_required else f"{each.name}={each.default!r}")
    return ", ".join(parts)


@cache
def error_table() -> list[list[Any]]:
    """Every error as name, kind and bases: the branch of the tree, and the class of Python."""
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    ours = [each for each in found if issubclass(each, BailiwickError) and each.__name__[0] != "_"]
    rows: list[list[Any]] = []
    for each in sorted(ours, key=lambda cls: len(cls.__mro__)):
        kind = each.__dict__.get("kind")
        above = next((base for base in each.__mro__[1:] if base in ours), None)
        bases = ["Exception"] if above is None else [above.__name__]
        if kind is not None:
            bases += [_builtin_of(each)]
        rows.append([each.__name__, kind, bases])
    return rows


def _builtin_of(cls: type) -> str:
    """The nearest class above that is Python's own."""
    return next(each.__name__ for each in list(cls.__mro__) if each.__module__ == "builtins")


# --- for a model ---------------------------------------------------------------------------------


@cache
def stubs() -> str:
    """The calls of `state` as a model is told them."""
    lines = [_stub(each) for each in vocabulary().values()]
    for name, what in CONVENIENCES.items():
        taken = inspect.signature(getattr(Conveniences, name)).parameters.values()
        parameters = [
            Parameter(each.name, each.default, each.kind is each.KEYWORD_ONLY, None)
            for each in list(taken)[1:]
        ]
        lines.append(f"{name}({_parameters(parameters)}) -> {what}")
    return "\n".join(lines)


def _stub(verb: CodeVerb) -> str:
    said = [each for each in verb.parameters if each.name not in UNSAID or each.is_required]
    return f"{verb.name}({_parameters(said)}){_comes_back(verb)}"


def _parameters(said: Iterable[Parameter]) -> str:
    parts: list[str] = []
    for each in said:
        if each.is_keyword and "*" not in parts:
            parts.append("*")
        parts.append(_parameter(each))
    return ",".join(parts)


_PLAIN: Final = (None, False, -1)
"""Defaults that tell a model nothing."""


def _parameter(each: Parameter) -> str:
    if each.is_required:
        return each.name
    return f"{each.name}={each.default!r}" if each.default not in _PLAIN else f"{each.name}?"


_OPEN: Final[dict[Returns, str]] = {
    "stream": " -> iterator",
    "state": " -> state",
    "transaction": " -> with … as state",
    "lease": " -> with … as lease",
    "sink": "",
}

_TOLD: Final[dict[type, tuple[str, ...]]] = {
    BytesRead: ("data", "sha256", "truncated"),
    TextRead: ("text", "sha256", "truncated", "next_cursor"),
    JsonRead: ("value", "sha256"),
    DiffResult: ("text", "equal"),
    Stat: ("type", "size", "mtime_ns", "version"),
    Page: ("entries", "next_cursor"),
    Found: ("matches", "paths", "next_cursor"),
    GrepResult: ("matches",),
    WriteResult: ("sha256", "created"),
    EditResult: ("diff", "replacements"),
    History: ("versions",),
}
"""What a model is told of what comes back."""


def _comes_back(verb: CodeVerb) -> str:
    if verb.returns != "value":
        return _OPEN[verb.returns]
    hint = verb.result
    if get_origin(hint) is list:
        return f" -> [{get_args(hint)[0].__name__}]"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f" -> .{' .'.join(_TOLD[hint])}" if hint in _TOLD else ""
    return "" if hint is type(None) else f" -> {hint.__name__}"
