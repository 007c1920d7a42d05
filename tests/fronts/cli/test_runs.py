"""`bailiwick runs` and `bailiwick undo --run`, in a directory that an agent has worked in."""

import asyncio
import json

import pytest

from bailiwick import Edit
from bailiwick.build.served import named_places, open_served, state_for
from bailiwick.fronts.cli import main
from bailiwick.grant import AgentRun, User
from bailiwick.operations import FILE_ACCESS


@pytest.fixture
def worked_in(tmp_path, monkeypatch):
    """A project in which an agent has changed one file and made another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("1\n2\n3\n")
    monkeypatch.chdir(project)

    async def work():
        places = named_places([str(project)])
        async with open_served(places, None, state_for(places), history="on") as authority:
            person = await authority.request_root(
                User("local"), next(iter(places)), FILE_ACCESS, "to pass on", front="mcp"
            )
            agent = await person.delegate(AgentRun("mcp", "one"))
            agent = agent.with_run(title="Tidy up", step="first")
            await agent.edit("a.txt", [Edit("2\n", "two\n")])
            await agent.write_text("b.txt", "b\n")

    asyncio.run(work())
    return project


def said(capsys, *arguments):
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.spec("RUN-1")
def test_runs_are_listed_and_shown(worked_in, capsys):
    code, told = said(capsys, "runs")
    (run,) = told["runs"]
    assert (code, run["title"], run["subject"]) == (0, "Tidy up", "agent_run:mcp/one")
    assert (run["created"], run["changed"], run["hunks"]) == (1, 1, 2)
    _, shown = said(capsys, "runs", "show", run["id"][:6])
    changes = {each["path"]: each for each in shown["changes"]}
    assert changes["a.txt"]["hunks"][0]["header"] == "@@ -1,3 +1,3 @@"
    assert changes["a.txt"]["hunks"][0]["reviewed"] is None
    assert main(["runs"]) == 0
    assert "Tidy up" in capsys.readouterr().out
    assert main(["runs", "show", run["id"]]) == 0
    assert "+two" in capsys.readouterr().out
    assert said(capsys, "runs", "--root", "workspace:project")[1]["runs"]


@pytest.mark.spec("RUN-3")
def test_a_run_is_undone_by_hunk_by_path_and_whole(worked_in, capsys):
    _, told = said(capsys, "runs")
    run = told["runs"][0]["id"]
    _, shown = said(capsys, "runs", "show", run)
    hunk = next(each for each in shown["changes"] if each["path"] == "a.txt")["hunks"][0]["id"]
    code, looked = said(capsys, "undo", "--run", run, "--hunk", hunk, "--preview")
    assert (code, looked["undone"]) == (0, ["a.txt"])
    assert (worked_in / "a.txt").read_text() == "1\ntwo\n3\n"
    assert main(["undo", "--run", run, "--hunk", hunk]) == 0
    assert (worked_in / "a.txt").read_text() == "1\n2\n3\n"
    assert main(["undo", "--run", run, "b.txt"]) == 0
    assert not (worked_in / "b.txt").exists()


@pytest.mark.spec("RUN-3")
def test_wrong_usage_of_undo_is_said(worked_in):
    for wrong in (["--hunk", "x"], ["--run", "x", "--version", "1"], ["a", "b"]):
        with pytest.raises(SystemExit) as ended:
            main(["undo", *wrong])
        assert ended.value.code == 2
