"""What is used of other packages beyond what they promise: each name is here, so that a version
without it fails by that name, and the requirement of the package is bounded."""

import asyncio
import inspect
import re
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2]

PROTOCOL = [
    "_start_asgi_task",
    "access_log",
    "access_logger",
    "app",
    "app_state",
    "asgi_version",
    "client",
    "connection_lost",
    "connection_made",
    "connections",
    "cycle",
    "data_received",
    "eof_received",
    "expect_100_continue",
    "flow",
    "headers",
    "logger",
    "loop",
    "on_body",
    "on_header",
    "on_headers_complete",
    "on_message_begin",
    "on_message_complete",
    "on_response_complete",
    "on_url",
    "parser",
    "pause_writing",
    "pipeline",
    "resume_writing",
    "root_path",
    "scheme",
    "send_400_response",
    "server",
    "server_state",
    "shutdown",
    "tasks",
    "timeout_keep_alive",
    "timeout_keep_alive_handler",
    "transport",
]

CYCLE = [
    "disconnected",
    "keep_alive",
    "message_event",
    "more_body",
    "on_response",
    "response_complete",
    "response_started",
    "run_asgi",
    "waiting_for_100_continue",
]

CYCLE_MADE_OF = [
    "scope",
    "transport",
    "flow",
    "logger",
    "access_logger",
    "access_log",
    "default_headers",
    "message_event",
    "expect_100_continue",
    "keep_alive",
    "on_response",
]

FLOW = ["drain", "pause_reading", "read_paused", "resume_reading", "write_paused"]

STATE = ["connections", "default_headers", "tasks", "total_requests"]

SERVER = [
    "capture_signals",
    "force_exit",
    "serve",
    "server_state",
    "should_exit",
    "shutdown",
    "startup",
]

MANAGER = ["_session_owners", "handle_request", "run"]

SHELL_TOOL = ["_invoke", "_prepare_command"]

FILE_SYSTEM = ["_get_kwargs_from_urls", "_strip_protocol", "loop"]


def missing(owner, names):
    return [name for name in names if not hasattr(owner, name)]


async def test_uvicorn_has_what_the_server_is_built_on():
    import uvicorn
    from uvicorn.protocols.http import httptools_impl
    from uvicorn.server import ServerState

    async def app(scope, receive, send):
        raise AssertionError("nobody asks")

    config = uvicorn.Config(app, http=httptools_impl.HttpToolsProtocol, ws="none", lifespan="off")
    config.load()
    protocol = httptools_impl.HttpToolsProtocol(
        config, ServerState(), {}, asyncio.get_running_loop()
    )
    made = inspect.signature(httptools_impl.RequestResponseCycle).parameters
    cycle = httptools_impl.RequestResponseCycle(**dict.fromkeys(made))
    flow = httptools_impl.FlowControl(None)
    lacking = {
        "HttpToolsProtocol": missing(protocol, PROTOCOL),
        "RequestResponseCycle": missing(cycle, CYCLE),
        "FlowControl": missing(flow, FLOW),
        "ServerState": missing(ServerState(), STATE),
        "Server": missing(uvicorn.Server(config), SERVER),
        "httptools_impl": missing(httptools_impl, ["STATUS_LINE"]),
    }
    assert not any(lacking.values()), f"uvicorn {uvicorn.__version__} has no more: {lacking}"
    assert list(made) == CYCLE_MADE_OF
    # What waits on a connection is a cycle and its application, started by both.
    started = inspect.signature(httptools_impl.HttpToolsProtocol._start_asgi_task)
    assert list(started.parameters) == ["self", "cycle", "app"]


@pytest.mark.slow
def test_the_sdk_of_mcp_has_what_sessions_are_counted_and_told_apart_by():
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from mcp.server.lowlevel.server import Server
    from mcp.server.session import ServerSession
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(Server("test"))
    lacking = {
        "StreamableHTTPSessionManager": missing(manager, MANAGER),
        "AuthorizationContext": {"client_id", "subject"}
        - set(AuthorizationContext.__annotations__),
        "ServerSession": []
        if "self._connection" in inspect.getsource(ServerSession)
        else ["_connection"],
    }
    assert not any(lacking.values()), f"mcp has no more: {lacking}"


@pytest.mark.slow
def test_the_sdk_of_openai_has_what_its_shell_is_paused_by():
    from agents.sandbox.capabilities.tools import ExecCommandTool

    lacking = missing(ExecCommandTool, SHELL_TOOL)
    assert not lacking, f"openai-agents has no more: {lacking}"


def test_fsspec_has_what_its_file_systems_are_built_on():
    from fsspec.asyn import AsyncFileSystem

    lacking = missing(AsyncFileSystem, FILE_SYSTEM)
    assert not lacking, f"fsspec.asyn.AsyncFileSystem has no more: {lacking}"


@pytest.mark.spec("REL-3")
@pytest.mark.parametrize("package", ["uvicorn", "mcp", "openai-agents"])
def test_whose_internals_are_used_is_bounded(package):
    """An internal goes without notice: with the next minor version, for all that is known."""
    given = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    (wanted,) = {
        each
        for extra in given["optional-dependencies"].values()
        for each in extra
        if re.match(rf"{package}\b", each)
    }
    assert re.fullmatch(rf"{package}>=\d+\.\d+,<\d+\.\d+", wanted), wanted


def test_what_the_server_needs_is_all_that_its_extra_lists():
    """What is listed is installed by everybody who serves: it must be used."""
    given = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    named = [re.match(r"[a-z0-9-]+", each)[0] for each in given["optional-dependencies"]["server"]]
    front = "\n".join(
        path.read_text() for path in (SOURCE / "src/bailiwick/fronts/http").rglob("*.py")
    )
    unused = [name for name in named if not re.search(rf"(import|from) {name}\b", front)]
    assert not unused
