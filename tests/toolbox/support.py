"""What the tests of the tools share: a workspace, and calls by the plain name of an operation."""

import itertools
import re
from contextlib import asynccontextmanager

import bailiwick
from bailiwick.toolbox import Toolbox, read_config

TAGGED = re.compile(
    r'<workspace_tool_result untrusted="true" workspace="([^"<>]*)" op="([a-z_]+)"'
    r' ref="([^"<>]*)" nonce="([0-9a-z]+)">\n?(.*?)\n?</workspace_tool_result nonce="\4">'
    r"(\n\[\.\.\. truncated, (\d+) bytes omitted; refine your search/path\])?",
    re.DOTALL,
)
TRUNCATED = "[... truncated, {} bytes omitted; refine your search/path]"


def toolbox(scope, name="notes", *, new_nonce=None, **options):
    """Tools under plain names, as a front without prefixes has them."""
    numbers = itertools.count()
    return Toolbox(
        scope, name, read_config(options), prefix="", front="tools", session="s1",
        new_nonce=new_nonce or (lambda: f"{next(numbers):016x}"),
    )  # fmt: skip


@asynccontextmanager
async def workspace(place="memory:", *, new_nonce=None, opening=None, **options):
    """A person's scope, and a way to call the tools on it."""
    async with bailiwick.open(place, **(opening or {})) as fs:
        yield fs, toolbox(fs, new_nonce=new_nonce, **options)


def parts(text):
    """A tagged text taken apart: workspace, op, ref, nonce, content, note."""
    found = TAGGED.fullmatch(text)
    assert found, text
    return found


def inner(text):
    return parts(text)[5]
