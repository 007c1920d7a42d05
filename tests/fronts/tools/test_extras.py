"""A framework that is not installed, and one that is not wanted."""

import importlib
import subprocess
import sys

import pytest

from bailiwick.errors import Unsupported

ROOMS = {
    "openai_agents": ("agents", "openai"),
    "anthropic": ("anthropic.lib.tools", "anthropic"),
    "langchain": ("langchain_core.tools", "langchain"),
    "deepagents": ("deepagents.backends.protocol", "deepagents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
}


@pytest.mark.spec("PY-3")
@pytest.mark.parametrize("room", ROOMS)
def test_a_missing_framework_is_one_line_that_names_the_extra(room, monkeypatch):
    package, extra = ROOMS[room]
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"bailiwick.fronts.tools.{room}", raising=False)
    with pytest.raises(Unsupported) as missing:
        importlib.import_module(f"bailiwick.fronts.tools.{room}")
    assert missing.value.hint == f"pip install 'bailiwick[{extra}]'"
    assert "\n" not in str(missing.value)


@pytest.mark.spec("PY-3")
def test_the_tools_themselves_load_no_framework():
    frameworks = (
        "agents openai anthropic langchain_core langgraph deepagents pydantic_ai pydantic mcp"
    )
    code = (
        "import sys, bailiwick.tools, bailiwick.fronts.tools.openai\n"
        f"print([name for name in {frameworks.split()!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
