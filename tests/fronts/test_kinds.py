"""Every kind of error through every front that tells of errors: one row for each, none by default.

A kind that a front forgot would be told as something else, or would break it just when something
went wrong. So every table names exactly the kinds there are, and every front is asked to tell of
each of them; what it tells is turned back into the error that it was.
"""

import contextlib
import io
import json

import pytest

from bailiwick.client.failures import failure_of
from bailiwick.errors import KINDS
from bailiwick.fronts.acp.errors import INTERNAL_ERROR, INVALID_PARAMS, rpc_error
from bailiwick.fronts.cli import EXIT_FAILED
from bailiwick.fronts.cli.authority_session import guarded
from bailiwick.fronts.cli.hints import NEXT_STEPS
from bailiwick.fronts.http.messages import errors as http
from bailiwick.fronts.mcp.answers import tool_result
from bailiwick.fronts.mcp.json_rpc import refused
from bailiwick.toolbox.failures import failure, nothing_offered
from bailiwick.toolbox.hints import GENERAL

TABLES = {"HTTP": http.STATUS, "CLI": NEXT_STEPS, "tools": GENERAL}

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def error_of(kind):
    error = KINDS[kind](
        "it is so", path="notes/a.md", decided_by="rule-7", details={"limit_bytes": 7}
    )
    error.request_id = "r-1"
    return error


@pytest.mark.spec("ERR-4")
@pytest.mark.parametrize("front", TABLES)
def test_a_table_has_every_kind_and_no_other(front):
    table = TABLES[front]
    assert table.keys() == KINDS.keys()
    assert all(table.values())


@pytest.mark.spec("ERR-4", "HTTP-3")
@EVERY_KIND
def test_http_tells_of_it_and_a_client_hears_the_same(kind):
    error = error_of(kind)
    status = http.status_of(error)
    assert status == http.STATUS[kind] == KINDS[kind].default_status
    document = json.loads(http.encode(error))
    assert document == {
        "errorKind": kind, "error": "it is so", "status": status, "requestId": "r-1",
        "category": error.category, "retryable": error.retryable, "path": "notes/a.md",
        "decidedBy": "rule-7", "details": {"limitBytes": 7},
    }  # fmt: skip
    heard = failure_of(status, document)
    assert type(heard) is KINDS[kind]
    assert (heard.message, heard.path, heard.decided_by) == ("it is so", "notes/a.md", "rule-7")
    assert (heard.status, heard.request_id) == (status, "r-1")
    assert heard.details == {"limit_bytes": 7}


def command_that_fails(error, *, as_json):
    def job():
        raise error

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = guarded(job, as_json=as_json)
    assert out.getvalue() == ""
    return code, err.getvalue()


@pytest.mark.spec("ERR-4", "CLI-2")
@EVERY_KIND
def test_the_command_line_tells_of_it_and_says_what_to_do(kind):
    error = error_of(kind)
    code, said = command_that_fails(error, as_json=False)
    assert code == EXIT_FAILED
    assert said.splitlines() == [
        f"{kind}: notes/a.md: it is so", "decided by: rule-7", f"hint: {NEXT_STEPS[kind]}",
    ]  # fmt: skip
    code, said = command_that_fails(error, as_json=True)
    assert code == EXIT_FAILED
    assert json.loads(said) == {
        "errorKind": kind, "error": "it is so", "status": error.status,
        "category": error.category, "retryable": error.retryable, "hint": NEXT_STEPS[kind],
        "path": "notes/a.md", "decidedBy": "rule-7", "requestId": "r-1",
        "details": {"limit_bytes": 7},
    }  # fmt: skip


@pytest.mark.spec("ERR-4", "TOOL-4", "MCP-1")
@EVERY_KIND
def test_a_model_is_told_of_it_and_what_to_do(kind):
    told = failure(error_of(kind))
    assert told == {
        "ok": False, "errorKind": kind, "message": "notes/a.md: it is so",
        "hint": GENERAL[kind].told(nothing_offered), "decidedBy": "rule-7",
    }  # fmt: skip
    answer = tool_result(told)
    assert answer["isError"]
    assert json.loads(answer["content"][0]["text"]) == told


@pytest.mark.spec("ERR-4", "MCP-1")
@EVERY_KIND
@pytest.mark.parametrize("modern", [True, False])
def test_mcp_keeps_its_kind_where_there_is_no_tool(kind, modern):
    error = error_of(kind)
    shown = refused(error, failure(error), modern=modern).as_error()
    assert shown["data"]["errorKind"] == kind
    assert shown["data"]["hint"] == GENERAL[kind].told(nothing_offered)
    assert shown["code"] in (-32603, -32602, -32002)


@pytest.mark.spec("ERR-4", "ACP-2")
@EVERY_KIND
def test_acp_keeps_its_kind(kind):
    shown = rpc_error(error_of(kind))
    assert shown.code == (INVALID_PARAMS if kind == "parse_error" else INTERNAL_ERROR)
    assert shown.data == {
        "errorKind": kind, "status": KINDS[kind].default_status,
        "category": KINDS[kind].category, "retryable": KINDS[kind].retryable,
        "path": "notes/a.md", "decidedBy": "rule-7", "requestId": "r-1",
        "details": {"limitBytes": 7},
    }  # fmt: skip


@pytest.mark.spec("ERR-4")
def test_a_kind_without_a_row_is_noticed_and_nothing_is_made_up_for_it():
    rows = {front: dict(table) for front, table in TABLES.items()}
    try:
        for table in TABLES.values():
            del table["busy"]
        error = error_of("busy")
        for tell in (http.status_of, failure, lambda it: command_that_fails(it, as_json=True)):
            with pytest.raises(KeyError, match="busy"):
                tell(error)
    finally:
        for front, table in TABLES.items():  # each row in its place: a page is made of them
            table.clear()
            table.update(rows[front])
