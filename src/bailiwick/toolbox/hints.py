"""What a model is told to do next: every hint of every tool, in one table.

The library's own hints speak to Python programmers, by arguments that no tool has; so they are not
passed on, but for what is wrong with a pattern. In a hint `{ls}` is the tool `ls`, by the name it
has here, and a word between backticks is an argument of that tool, or of the one that failed. Tests
hold each of them against the schemas, and follow it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

NameOf = Callable[[str], str | None]
"""The name of an operation's tool; None where it is not offered."""


class Advice(str):
    """A hint of this table, as it is told; or of an editor that has words of its own."""

    __slots__ = ()


class Hint(NamedTuple):
    """``without`` is told where a tool that the text names is not offered."""

    text: str
    without: str = "tell the person"

    def told(self, name_of: NameOf, **values: object) -> Advice:
        """The hint in words; ``values`` fill in what is not the name of a tool."""
        names: dict[str, object] = dict(values)
        for tool in TOOL_IN_HINT.findall(self.text):
            if tool not in names:
                name = name_of(tool)
                if name is None:
                    return Advice(self.without.format(**values))
                names[tool] = name
        return Advice(self.text.format(**names))


TOOL_IN_HINT: Final = re.compile(r"\{(\w+)\}")

_NOT_HERE = Hint("do not try again: this is not allowed here")
_NOT_NOW = Hint("do not try again: what was granted has ended")
_NOT_SERVED = Hint("this workspace cannot do that: tell the person")
_LATER = Hint("try again")
_ONLY_READ = Hint("do not try again: this can only be read")
_READ_AGAIN = Hint(
    "it was changed meanwhile: {read_file} it again, then decide anew", "it was changed meanwhile"
)
IN_PARTS = Hint(
    "{read_file} it in parts, with `line` and `limit`", "it is too large to be shown at once"
)

GENERAL: Final[dict[str, Hint]] = {
    "path_outside_workspace": Hint("give a path inside the workspace, relative to its top"),
    "symlink_escape": Hint("give the path of the file itself, inside the workspace"),
    "hardlink_refused": Hint(
        "this file has another name elsewhere: {write_file} a new one",
        "this file has another name elsewhere: leave it",
    ),
    "too_many_links": Hint("these links lead in a circle: give another path"),
    "parse_error": Hint("check the arguments"),
    "not_a_regular_file": Hint("this is no file that can be read or written"),
    "is_a_directory": Hint("this is a directory: use {ls}", "this is a directory"),
    "not_a_directory": Hint(
        "a part of the path is a file: look with {ls} what there is",
        "a part of the path is a file",
    ),
    "path_not_found": Hint("look with {ls} what there is", "give a path that is there"),
    "root_not_found": Hint("there is no such workspace"),
    "file_already_exists": Hint(
        "choose another name, or {rm} the other one first", "choose another name"
    ),
    "directory_not_empty": Hint("it is not empty: leave it, or empty it first"),
    "hash_mismatch": _READ_AGAIN,
    "lock_held": Hint("someone else works on it: try again later"),
    "file_too_large": Hint("give less at once"),
    "binary_file": Hint("this is no text: {stat} tells its size", "this is no text"),
    "text_not_found": Hint("give the text exactly as it stands there"),
    "ambiguous_text_match": Hint("give more of the text around it"),
    "untrusted_workspace": _ONLY_READ,
    "missing_access": _NOT_HERE,
    "policy_denied": _NOT_HERE,
    "approval_denied": Hint("do not try again unless the person asks for it"),
    "approval_timeout": Hint("nobody answered: go on with something else, or ask the person"),
    "grant_expired": _NOT_NOW,
    "grant_revoked": _NOT_NOW,
    "permission_denied": _NOT_HERE,
    "read_only": _ONLY_READ,
    "quota_exceeded": Hint("{rm} something first", "there is no room: tell the person"),
    "rate_limited": Hint("wait a little, then try again"),
    "busy": _LATER,
    "io_error": _LATER,
    "unsupported": Hint("this workspace cannot do that: tell the person"),
    "closed": Hint("the workspace is closed"),
    "internal_error": Hint("try something else, and tell the person"),
    "unauthenticated": _NOT_HERE,
    "forbidden_origin": _NOT_HERE,
    "route_not_found": _NOT_SERVED,
    "method_not_allowed": _NOT_SERVED,
    "unsupported_media_type": _NOT_SERVED,
    "range_not_satisfiable": Hint("ask for a part that lies in the file"),
}
"""For every kind of error. A workspace may be one on a server, so the kinds of a server are among
them."""

OF_A_TOOL: Final[dict[tuple[str, str], Hint]] = {
    ("read_file", "hash_mismatch"): Hint("it was changed meanwhile: leave `cursor` out"),
    ("read_file", "binary_file"): Hint("leave `encoding` out, or name another, such as latin-1"),
    ("glob", "not_a_directory"): Hint("`path` is the directory to begin in: leave it out"),
    ("write_file", "hash_mismatch"): Hint(
        "it was changed meanwhile: {read_file} it again, and give the sha256 that it tells as"
        " `expectedSha256`",
        "it was changed meanwhile",
    ),
    ("write_file", "file_too_large"): Hint("write it as several files"),
    ("edit_file", "text_not_found"): Hint(
        "{read_file} it, and copy the text exactly, with its spaces, as `oldText`",
        "give `oldText` exactly as it stands there, with its spaces",
    ),
    ("edit_file", "ambiguous_text_match"): Hint(
        "give more of the text around it as `oldText`, or set `replaceAll`"
    ),
    ("edit_file", "path_not_found"): Hint(
        "look with {ls} what there is; a new file is made by {write_file}",
        "there is no such file",
    ),
    ("edit_file", "binary_file"): Hint("this is no text: it cannot be edited"),
    ("edit_file", "file_too_large"): Hint("a file of this size cannot be edited"),
    ("rm", "directory_not_empty"): Hint("set `recursive` to remove what lies in it too"),
    ("mkdir", "path_not_found"): Hint("set `recursive` to make those above it too"),
    ("mkdir", "file_already_exists"): Hint("it is there already: choose another `path`"),
    ("move", "file_already_exists"): Hint(
        "choose another name as `to`, or {rm} the other one first", "choose another name as `to`"
    ),
    ("move", "path_not_found"): Hint(
        "look with {ls} what there is; directories that are missing are made by {mkdir} with"
        " `recursive`",
        "what is moved, or the directory it goes to, is missing",
    ),
    ("diff", "file_too_large"): IN_PARTS,
    ("undo", "path_not_found"): Hint("{history} tells what you changed", "leave it"),
}
"""For what a tool can be told better."""

PASSED_ON: Final = frozenset((("glob", "parse_error"), ("grep", "parse_error")))
"""Where the library's own words are about the pattern, and better than ours."""

STILL_OPEN: Final = Hint("go on with something else; once they agreed, make the same call again")
MAKE_IT_AGAIN: Final = Hint("go on with something else, or wait until they have")
ONE_OF: Final = Hint("`root` is one of {names}")
ARGUMENTS: Final = Hint("its arguments are {names}")
TOOLS: Final = Hint("the tools are {names}", "there are no tools here")
ONE_OF_TWO: Final = Hint(
    "{history} tells a requestId and a version: give one of them, as `request` or as `version`",
    "give `request` or `version`",
)
NOTHING_TO_COMPARE: Final = Hint("{history} shows all there is", "there is nothing to compare")
WHICH_VERSIONS: Final = Hint("{history} tells which versions there are", "leave `version` out")
A_FILE: Final = Hint("this is a file: {read_file} reads it", "this is a file")
NAME_THE_ENCODING: Final = Hint("if it is text, name its `encoding`, such as latin-1")
NAME_THIS_ENCODING: Final = Hint("if it is text, name its `encoding`: {likely}")
LOOK_BY_COMMAND: Final = Hint("{run_command} may look into it", "only this can be told of it")
GO_ON_AT_LINE: Final = Hint("go on with `line` {next_line}")
GO_ON_BY_CURSOR: Final = Hint("go on with `cursor` {cursor}")
READ_ALONE: Final = Hint("read it alone, by `path`")
NARROW_GREP: Final = Hint("narrow `pattern`, `path` or `includeGlob`, or raise `maxResults`")
RAISE_FILE_SIZE: Final = Hint("`maxGrepFileSizeMb` sets how large a file is searched")
READ_THE_LINE: Final = Hint(
    "{read_file} has all of a line, by `line` and `limit`", "not all can be shown"
)
NARROW_GLOB: Final = Hint("narrow `pattern` or `path`")
NARROW_LS: Final = Hint("{glob} finds the others by `pattern`", "not all can be shown")
NARROW_TREE: Final = Hint("give a `path` beneath, or a smaller `depth`")
GO_ON_IN_HISTORY: Final = Hint("go on with `cursor` {cursor}")

ALONE: Final[dict[str, tuple[Hint, ...]]] = {
    "read_file": (
        NAME_THE_ENCODING, NAME_THIS_ENCODING, LOOK_BY_COMMAND, GO_ON_AT_LINE, GO_ON_BY_CURSOR,
        READ_ALONE,
    ),
    "grep": (NARROW_GREP, RAISE_FILE_SIZE, READ_THE_LINE),
    "glob": (NARROW_GLOB,),
    "ls": (NARROW_LS, A_FILE),
    "tree": (NARROW_TREE, A_FILE),
    "history": (GO_ON_IN_HISTORY,),
    "undo": (ONE_OF_TWO,),
    "diff": (NOTHING_TO_COMPARE, WHICH_VERSIONS, IN_PARTS),
    "edit_file": (IN_PARTS,),
}  # fmt: skip
"""Hints that belong to no kind of error, by the tool that gives them."""


def advice(kind: str, operation: str | None, name_of: NameOf, own: str | None) -> str:
    """What to do about an error. ``own`` is what it says itself."""
    if own is not None and (isinstance(own, Advice) or (operation, kind) in PASSED_ON):
        return own
    hint = OF_A_TOOL.get((operation or "", kind)) or GENERAL[kind]
    return hint.told(name_of)
