"""A run that waits for a person outlives its process. Another one goes on with it: with what the
person agreed to, and with nothing else, whatever became of the files meanwhile."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bailiwick
from bailiwick.fronts.tools import deepagents, graph_interrupts, openai_agents
from bailiwick.toolbox import box, by_word
from tests.fronts.tools.pausing import BEFORE, FRAMEWORKS, PATH, WANTED

ROOT = Path(__file__).parents[3]
RUNS = [*((each, ()) for each in FRAMEWORKS), ("OpenAIAgents", ("patch",))]


class Paused:
    """What a process has left that began a run and ended."""

    def __init__(self, folder, framework, more):
        self._folder = folder
        self._more = more
        self.framework = FRAMEWORKS[framework]
        project = folder / "begun" / "project"
        self._tree(project)
        environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        done = subprocess.run(
            [sys.executable, "-m", "tests.fronts.tools.pausing", framework, str(project), *more],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (project / PATH).read_text() == BEFORE, "nothing is done before somebody agreed"
        self.kept = (project.parent / "kept").read_bytes()
        self.shown = json.loads((project.parent / "shown").read_text())
        self._count = 0

    @staticmethod
    def _tree(project):
        (project / PATH).parent.mkdir(parents=True)
        (project / PATH).write_text(BEFORE)

    async def forged(self):
        """What is kept, as somebody would have it who may write there."""
        forged = await self.framework.forged(self.kept, *self._more)
        assert b"forged" in forged
        return forged

    async def resumed(self, *, kept=None, shown=None, word=True, stands=BEFORE):
        """Go on in this process, on a tree that is as the other one left it; what the model was
        told, and what stands in the file then."""
        self._count += 1
        project = self._folder / str(self._count) / "project"
        self._tree(project)
        (project / PATH).write_text(stands)
        async with bailiwick.open(str(project)) as fs:
            told = await self.framework.resume(fs, kept or self.kept, shown, word)
        return told, (project / PATH).read_text()


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: "-".join((run[0], *run[1])))
def paused(request, tmp_path_factory):
    framework, more = request.param
    return Paused(tmp_path_factory.mktemp("paused"), framework, more)


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.slow
@pytest.mark.spec("TOOL-5", "POL-4")
async def test_another_process_does_what_the_person_agreed_to(paused):
    _, stands = await paused.resumed(shown=paused.shown)
    assert stands == WANTED


@pytest.mark.slow
@pytest.mark.spec("TOOL-5", "POL-4")
async def test_a_no_is_one_there_too(paused):
    _, stands = await paused.resumed(shown=paused.shown, word=False)
    assert stands == BEFORE


@pytest.mark.slow
@pytest.mark.spec("TOOL-5", "POL-4")
async def test_what_was_changed_in_the_kept_state_is_not_what_they_agreed_to(paused):
    """Whoever reaches the kept state puts other content in, and the approval along with it."""
    _, stands = await paused.resumed(kept=await paused.forged(), shown=paused.shown)
    assert stands == BEFORE


@pytest.mark.slow
@pytest.mark.spec("TOOL-5", "POL-4")
async def test_what_changed_in_the_tree_is_not_what_they_agreed_to(paused):
    _, stands = await paused.resumed(shown=paused.shown, stands="changed\n")
    assert stands == "changed\n"


@pytest.mark.slow
@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("word", [True, "always"])
@pytest.mark.parametrize("forged", [False, True])
async def test_an_approval_that_does_not_say_of_what_is_none_in_another_process(
    paused, forged, word
):
    """Else a state that somebody wrote themselves would do as well."""
    kept = await paused.forged() if forged else paused.kept
    _, stands = await paused.resumed(kept=kept, shown=None, word=word)
    assert stands == BEFORE


@pytest.mark.slow
@pytest.mark.spec("TOOL-5", "POL-4")
async def test_a_forged_state_does_harm_where_answers_are_not_bound(paused, monkeypatch):
    """The control: the same attack, where a yes is a yes to anything."""

    def yes(allowed, binding=None):
        return by_word(allowed)

    for module in (box, openai_agents, deepagents):
        monkeypatch.setattr(module, "by_word", yes)
    monkeypatch.setattr(graph_interrupts._GraphStep, "_is_to", lambda *given: True)
    monkeypatch.setattr(openai_agents, "binding_of", lambda question: paused.shown["c1"])
    _, stands = await paused.resumed(kept=await paused.forged(), shown=paused.shown)
    assert stands == "forged\n"
