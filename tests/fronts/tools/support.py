"""What the tests of all integrations share: the names of tools, and reading their answers."""

import importlib
import json
import re
from contextlib import asynccontextmanager, contextmanager

import bailiwick
from bailiwick.fronts.tools import tools

PREFIX = "workspace__notes__"

TAGGED = re.compile(
    r'<workspace_tool_result untrusted="true" workspace="([^"<>]*)" op="([a-z_]+)"'
    r' ref="([^"<>]*)" nonce="([0-9a-f]+)">\n?(.*?)\n?</workspace_tool_result nonce="\4">',
    re.DOTALL,
)


def name(operation):
    return PREFIX + operation


def inner(text):
    """What stands between the tags of an answer."""
    found = TAGGED.match(text)
    assert found, text
    return found[5]


def answer(text):
    """An answer as a model reads it: content between its tags, and the rest as JSON beneath it."""
    found = TAGGED.match(text)
    if found is None:
        return json.loads(text)
    beneath = text[found.end() :].strip()
    rest = json.loads(beneath) if beneath.startswith("{") else {}
    return {"text": found[0], "output": found[0], "diff": found[0], **rest}


@asynccontextmanager
async def workspace(place="memory:", **options):
    """A person's scope and the tools on it."""
    async with bailiwick.open(place) as fs:
        yield fs, tools(fs, "notes", **options)


@contextmanager
def blocking_workspace(place="memory:", **options):
    with bailiwick.open_sync(place) as fs:
        yield fs, tools(fs, "notes", **options)


def http_library(client):
    """The HTTP library beneath the client of an SDK, whose releases do not agree on one."""
    names = (each.__module__.partition(".")[0] for each in client.__mro__)
    return importlib.import_module(next(name for name in names if name.startswith("httpx")))


@asynccontextmanager
async def running(project, **options):
    """A person's scope, and tools on it that run commands."""
    async with bailiwick.open(project, state_dir=str(project.parent / "state")) as fs:
        yield fs, tools(fs, "notes", operations=["read_file", "run_command"], **options)
