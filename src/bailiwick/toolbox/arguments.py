"""What each tool takes: one struct a tool, from which its JSON Schema is made.

Names are those a model sees (`oldText`); what is not named here is refused, and so is a value of
another type. A null stands for a field that was left out: some providers send every field.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from bailiwick.errors import ParseError
from bailiwick.toolbox.hints import ARGUMENTS
from bailiwick.toolbox.schemas import input_schema
from bailiwick.wire.arguments import WireEdit

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class Arguments(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The base of what tools take."""


def described(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


Cursor = Annotated[str | None, described("nextCursor of the answer before")]


PATHS_MAX = 50
"""Files in one read: more than a model asks for at once, and each may take as much as one answer
holds while they are weighed against each other."""

_Paths = Annotated[list[str], msgspec.Meta(min_length=1, max_length=PATHS_MAX)]


class ReadFile(Arguments, frozen=True, kw_only=True):
    path: str | None = None
    paths: Annotated[_Paths | None, described("several, instead of path")] = None
    line: Annotated[Count | None, described("first line, from 1")] = None
    limit: Annotated[Count | None, described("lines")] = None
    cursor: Cursor = None
    line_numbers: bool = False
    encoding: Annotated[str | None, described("if not UTF-8")] = None


class WriteFile(Arguments, frozen=True, kw_only=True):
    path: str
    content: str
    expected_sha256: Annotated[str | None, described("refuse if the file is not this any more")] = (
        None
    )


class EditFile(Arguments, frozen=True, kw_only=True):
    path: str
    old_text: str | None = None
    new_text: str | None = None
    replace_all: bool = False
    edits: Annotated[
        list[WireEdit] | None, described("several at once, instead of oldText and newText")
    ] = None


class Ls(Arguments, frozen=True, kw_only=True):
    path: str = "."


class TreeArguments(Arguments, frozen=True, kw_only=True):
    path: str = "."
    depth: Annotated[int, msgspec.Meta(ge=1, le=256, description="levels; 3")] = 3


class GlobArguments(Arguments, frozen=True, kw_only=True):
    pattern: str
    path: str = "."


class Grep(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[str, described("RE2 regular expression")]
    path: str = "."
    literal: bool = False
    ignore_case: bool = False
    include_glob: str | None = None
    context: Annotated[int, msgspec.Meta(ge=0, le=10)] = 0
    max_results: Count | None = None
    max_grep_file_size_mb: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None


class StatArguments(Arguments, frozen=True, kw_only=True):
    path: str


class Mkdir(Arguments, frozen=True, kw_only=True):
    path: str
    recursive: bool = False


class Rm(Arguments, frozen=True, kw_only=True):
    path: str
    recursive: bool = False


class MoveArguments(Arguments, frozen=True, kw_only=True):
    source: str = msgspec.field(name="from")
    to: str


class HistoryArguments(Arguments, frozen=True, kw_only=True):
    path: str = "."
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    cursor: Cursor = None


class UndoArguments(Arguments, frozen=True, kw_only=True):
    request: Annotated[str | None, described("requestId of a change")] = None
    version: str | None = None
    preview: Annotated[bool, described("only say what would be undone")] = False


class DiffArguments(Arguments, frozen=True, kw_only=True):
    path: str
    version: Annotated[str | None, described("from this version to now")] = None


class CommandArguments(Arguments, frozen=True, kw_only=True):
    command: Annotated[str, described("text for /bin/sh")]
    cwd: str = "."
    timeout: Annotated[float, msgspec.Meta(gt=0, description="seconds")] | None = None


class CodeArguments(Arguments, frozen=True, kw_only=True):
    source: Annotated[str, described("Python; its last expression is the value")]
    timeout: Annotated[float, msgspec.Meta(gt=0, description="seconds")] | None = None
    transactional: Annotated[bool, described("all changes or none")] = False


class BashArguments(Arguments, frozen=True, kw_only=True):
    """What the bash tool of Anthropic's models takes."""

    command: str | None = None
    restart: bool = False


def read(kind: type[Arguments], given: Any) -> Arguments:
    """What a model gave, checked. `ParseError` says in a line what is wrong with it.

    ``given`` is an object, or the JSON text of one; no text at all stands for no arguments.
    """
    if isinstance(given, (str, bytes, bytearray)):
        try:
            given = msgspec.json.decode(given) if given.strip() else {}
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise ParseError("the arguments are not JSON") from None
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise ParseError("the arguments must be a JSON object")
    try:
        return msgspec.convert({k: v for k, v in given.items() if v is not None}, kind)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        hint = ARGUMENTS.told(lambda _: None, names=_names(kind))
        raise ParseError(_short(str(error)), hint=hint) from None


def _names(kind: type[Arguments]) -> str:
    """Of all that a tool takes, and of what is in the lists among it."""
    names = []
    for name, schema in input_schema(kind)["properties"].items():
        each = ", ".join(schema.get("items", {}).get("properties", ()))
        names.append(f"{name} (each {each})" if each else name)
    return ", ".join(names)


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."
