"""The live attacker against every adapter, in the size of continuous integration."""

from pathlib import Path

import pytest

from bailiwick.fronts import tools as fronts_tools
from tests.fronts.mcp.npm import reference_server
from tests.hostile import adapters_attack, fronts_attack, tools_attack

pytestmark = pytest.mark.hostile

TRIES = 2_000


@pytest.mark.slow
@pytest.mark.spec("TOOL-5", "MCP-1", "DISK-1")
@pytest.mark.parametrize("front", adapters_attack.FRONTS)
def test_no_adapter_shows_a_model_the_outside(walled_as, front):
    file = reference_server()
    reference = None if file is None else str(file)
    result = walled_as("root")(adapters_attack.run, front, TRIES, reference)
    assert result["control"]["leaks"], "the other server must leak, or there was no attacker"
    assert result["tries"] >= TRIES
    assert result["escapes"] == 0, result["notes"]
    assert result["refused"], "nothing was refused: the attack proves nothing"
    assert all(result["inside"].values()), result["inside"]
    assert result["internal"] == 0
    print(result["control"])


@pytest.mark.spec("TOOL-5")
def test_every_adapter_that_is_shipped_is_attacked():
    """One that is added has to be attacked too: MCP over pipes stands in `test_mcp`."""
    attacked = {*adapters_attack.FRONTS, *tools_attack.FRONTS, *fronts_attack.FRONTS}
    assert attacked == {
        "tools", "text editor", "apply_patch", "deepagents", "acp", "fsspec", "openai",
        "openai agents", "anthropic", "anthropic runner", "langchain", "pydantic-ai",
        "claude agent", "mcp over http",
    }  # fmt: skip
    speaks = {
        "openai", "openai_agents", "anthropic", "claude_agent", "langchain", "deepagents",
        "pydantic_ai",
    }  # fmt: skip
    built_on = {"text_editor", "extras", "graph_interrupts", "places", "rounds", "__init__"}
    # Their files go by verbs, as those of the others do, and their commands by the sandbox.
    run_programs = {"deepagents_sandbox", "openai_sandbox"}
    shipped = {file.stem for file in Path(fronts_tools.__file__).parent.glob("*.py")}
    assert shipped == speaks | built_on | run_programs, "is it attacked?"
