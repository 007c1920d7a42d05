"""One table of verbs: every verb of a scope has its row, and the row is as the verb is."""

import inspect

import pytest

from bailiwick.client import RemoteScope
from bailiwick.fronts.http.routes import ROUTES
from bailiwick.scope import Scope
from bailiwick.toolbox.schemas import input_schema
from bailiwick.toolbox.tool import OPERATIONS
from bailiwick.wire.arguments import APPROVAL, SESSION, argument_name
from bailiwick.wire.verbs import COPY, MOVE, VERBS

pytestmark = pytest.mark.spec("LINE-6")

WITHOUT_A_ROW = {
    "run_changes": "runChanges, by the id of the run",
    "run_info": "run, by its id",
    "runs": "runs, which have a route of their own",
    "with_run": "the headers X-Bailiwick-Run and X-Bailiwick-Step",
    "aclose": "ends the scope itself",
    "apply": "applyWork, by the id of the working copy",
    "change_cursor": "how every stream of events begins",
    "changes": "showWork, by the id of the working copy",
    "copy_from": "copy, with the root that it is from",
    "copy_in": "nobody copies from the host of a server",
    "discard": "discardWork, by the id of the working copy",
    "exists": "stat, which says that there is nothing",
    "lstat": "stat, which does not follow",
    "on_change": "watch, with a callback",
    "open_fork": "the parameter fork of every route",
    "read_json": "read_bytes, and what they mean",
    "transaction": "the rows that a batch can hold, many at a time",
    "with_approval": "the parameter approval",
    "with_caller": "says how a scope is called, and asks for nothing",
    "with_request": "the header X-Request-Id",
    "with_text_max": "the parameter maxBytes",
    "write_bytes": "write_stream, of one chunk",
    "write_json": "write_text, of what was encoded",
}

ELSEWHERE = {
    ("undo", "run"): "undoRun, by the id of the run",
    ("undo", "paths"): "undoRun",
    ("undo", "hunks"): "undoRun",
    ("undo", "step"): "undoRun",
    ("read_bytes", "length"): "maxBytes: how much is asked for at a time",
    ("append", "data"): "content, or contentBase64",
    ("write_stream", "source"): "the body itself",
    ("diff", "text"): "a server compares what it has",
    ("extract_archive", "limits"): "those of the server",
    ("stream", "offset"): "the header Range",
    ("stream", "length"): "the header Range",
    ("delete_snapshot", "name"): "the path",
    ("delete_fork", "name"): "the path",
    ("open_session", "id"): "the path",
    ("open_work", "id"): "the path",
}
"""Arguments of verbs that go another way, or nowhere."""

BESIDE = {
    ("read_text", "max_bytes"): "with_text_max",
    ("read_bytes", "max_bytes"): "length",
    ("append", "content"): "data",
    ("append", "content_base64"): "data",
    ("stream", "inline"): "for browsers",
    ("stat", "follow"): "stat, or lstat",
    ("copy", "from_root"): "copy_from",
    ("copy", "parents"): "copy_from",
    ("glob", "entries"): "what is told of each match",
    ("exec", "stdin_base64"): "stdin",
    ("exec", "stdin_pipe"): "stdin",
    ("exec", "detach"): "how a caller is told of it",
    ("exec", "end_with_client"): "how a caller is told of it",
}
"""What a route takes that its verb does not."""

OTHER_NAMES = {"to", "expected_sha256"}
"""Other names of arguments, in bodies."""

TOOLS = {
    "read_file": "read_text", "write_file": "write_text", "edit_file": "edit", "ls": "list",
    "mkdir": "make_dir", "rm": "remove", "run_command": "exec", "tree": "find",
}  # fmt: skip
"""Which verb a tool is, where it is called otherwise."""

FOR_MODELS = {
    ("read_file", "paths"): "path, several times",
    ("read_file", "lineNumbers"): "how it is shown",
    ("grep", "includeGlob"): "include, which takes one",
    ("grep", "maxGrepFileSizeMb"): "maxFileBytes, in words that models know",
    ("mkdir", "recursive"): "parents",
    ("move", "from"): "path",
    ("undo", "request"): "requestId",
    ("diff", "version"): "asOf",
    ("run_command", "command"): "shell",
}
"""Arguments of tools that models know by other names."""

ROWS = [pytest.param(row, id=name) for name, row in VERBS.items()]


def taken(name):
    """What a verb takes, by the names of the wire."""
    parameters = list(inspect.signature(getattr(Scope, name)).parameters.values())[1:]
    return {
        argument_name(each.name): each for each in parameters if (name, each.name) not in ELSEWHERE
    }


def told(row):
    """What a row takes for its verb, by its names."""
    return {
        each.name: each
        for each in row.takes
        if each not in (APPROVAL, SESSION)
        and each.name not in OTHER_NAMES
        and (row.name, each.name) not in BESIDE
    }


def test_every_verb_has_a_row_or_a_reason():
    verbs = {
        name for name in dir(Scope)
        if not name.startswith("_") and callable(getattr(Scope, name))
    }  # fmt: skip
    assert verbs == VERBS.keys() | WITHOUT_A_ROW.keys()
    assert VERBS.keys().isdisjoint(WITHOUT_A_ROW)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_takes_what_its_verb_takes(row):
    assert told(row).keys() == taken(row.name).keys()


def test_an_argument_that_a_row_has_not_is_found():
    assert "replace" in taken("move").keys() - told(COPY).keys()
    assert not taken("move").keys() - told(MOVE).keys()


@pytest.mark.parametrize("row", ROWS)
def test_an_argument_is_needed_where_the_verb_needs_it(row):
    known = taken(row.name)
    for name, argument in told(row).items():
        needed = known[name].default is inspect.Parameter.empty
        # Either name of a destination will do, so that neither is required.
        assert argument.required == (needed and name != "destination"), name
        if row.method == "POST" and not needed:
            default = known[name].default
            assert argument.default == (list(default) if default == () else default), name


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_a_route_and_a_method_of_the_client(row):
    (route,) = (each for each in ROUTES if each.name == row.id)
    assert (route.method, route.path, route.verb) == (row.method, row.path, row.name)
    assert callable(getattr(RemoteScope, row.name))


OF_A_VERB = {name: tool for name, tool in OPERATIONS.items() if name != "run_code"}
"""Code is run by no verb."""


@pytest.mark.parametrize("tool", OF_A_VERB.values(), ids=OF_A_VERB)
def test_a_tool_calls_an_argument_what_the_wire_calls_it(tool):
    row = VERBS[TOOLS.get(tool.name, tool.name)]
    known = {name: each for each in row.takes for name in (each.shown, *each.aliases)}
    kinds = {
        "string": "text", "array": "text", "number": "text", "integer": "integer",
        "boolean": "boolean",
    }  # fmt: skip
    for name, schema in input_schema(tool.takes)["properties"].items():
        if (tool.name, name) not in FOR_MODELS:
            assert kinds[schema["type"]] == known[name].kind, name
