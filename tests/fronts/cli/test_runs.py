"""`bailiwick runs` and `bailiwick undo --run`, in a directory that an agent has worked in."""

import asyncio
import json

import pytest

from bailiwick import Authority, Edit
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


@pytest.mark.spec("REVIEW-4", "RUN-2")
def test_what_cannot_be_seen_in_a_line_is_told(worked_in, capsys):
    async def more():
        places = named_places([str(worked_in)])
        async with open_served(places, None, state_for(places), history="on") as authority:
            person = await authority.request_root(
                User("local"), next(iter(places)), FILE_ACCESS, "to pass on", front="mcp"
            )
            for path, text in (("Makefile", "all:\n\tcc a.c\n"), ("end", "1\n2"), ("new", "1\n")):
                await person.write_text(path, text)
            agent = await person.delegate(AgentRun("mcp", "two"))
            await agent.write_text("Makefile", "all:\n    cc a.c\n")
            await agent.write_text("end", "1\n2\n3\n")
            await agent.write_text("new", "one")

    asyncio.run(more())
    assert main(["review"]) == 3
    shown = capsys.readouterr().out
    assert " all:\n-\\x09cc a.c\n+    cc a.c\n" in shown
    assert " 1\n-2\n\\ No newline at end of file\n+2\n+3\n" in shown
    assert "-1\n+one\n\\ No newline at end of file\n" in shown
    run = said(capsys, "runs")[1]["runs"][0]["id"]
    change = said(capsys, "runs", "show", run)[1]["changes"][1]
    assert (change["path"], change["added"], change["removed"]) == ("end", 2, 1)


@pytest.mark.spec("RUN-1")
def test_a_list_of_runs_says_what_it_leaves_out(worked_in, capsys, monkeypatch):
    async def more():
        places = named_places([str(worked_in)])
        async with open_served(places, None, state_for(places), history="on") as authority:
            person = await authority.request_root(
                User("local"), next(iter(places)), FILE_ACCESS, "to pass on", front="mcp"
            )
            await (await person.delegate(AgentRun("mcp", "two"))).list()

    assert said(capsys, "runs")[1]["truncated"] is False
    asyncio.run(more())
    code, told = said(capsys, "runs", "--limit", "1")
    assert (code, len(told["runs"]), told["truncated"]) == (0, 1, True)
    assert main(["runs", "--limit", "1"]) == 0
    assert f"older runs: --cursor {told['nextCursor']}, or" in capsys.readouterr().err
    _, older = said(capsys, "runs", "--limit", "1", "--cursor", told["nextCursor"])
    assert ([each["title"] for each in older["runs"]], older["truncated"]) == (["Tidy up"], False)
    assert older["nextCursor"] is None
    last = said(capsys, "runs")[1]["runs"][1]
    beyond = f"{last['begunMs']}000000.0.{last['id']}"
    assert main(["runs", "--cursor", beyond]) == 0
    assert capsys.readouterr().out == "there are no older runs\n"
    assert main(["runs", "--since", "2100-01-01"]) == 0
    assert capsys.readouterr().out == "no agent has done anything here since then\n"


@pytest.mark.spec("RUN-1")
def test_runs_of_several_roots_are_gone_through_together(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = tmp_path / "bailiwick.toml"
    for name in "ab":
        (tmp_path / name).mkdir()
    config.write_text(
        f'[state]\npath = "{tmp_path}/state"\n'
        + "".join(
            f'[[root]]\nid = "{each}"\nkind = "workspace"\npath = "./{each}"\ntrusted = true\n'
            for each in "ab"
        )
    )

    async def work():
        async with Authority.from_config(str(config)) as authority:
            for number in range(3):
                for root in "ab":
                    person = await authority.request_root(
                        User("local"), f"workspace:{root}", FILE_ACCESS, "to pass on", front="mcp"
                    )
                    await (await person.delegate(AgentRun("mcp", f"{root}{number}"))).list()

    asyncio.run(work())
    found, cursor = [], []
    while True:
        _, told = said(capsys, "runs", "--config", str(config), "--limit", "2", *cursor)
        found.append([each["subject"].rpartition("/")[2] for each in told["runs"]])
        if not told["truncated"]:
            break
        cursor = ["--cursor", told["nextCursor"]]
    assert found == [["b2", "a2"], ["b1", "a1"], ["b0", "a0"]]


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
def test_what_stands_against_an_undo_is_told_with_what_to_do(worked_in, capsys):
    _, told = said(capsys, "runs")
    run = told["runs"][0]["id"]
    (worked_in / "a.txt").write_text("1\nzwei\n3\n")
    assert main(["undo", "--run", run]) == 1
    told = capsys.readouterr()
    assert (told.out, "left as it is: a.txt" in told.err) == ("", True)
    assert f"`bailiwick runs show {run}`" in told.err
    assert (worked_in / "b.txt").exists()
    assert main(["undo", "--run", run, "b.txt"]) == 0
    assert not (worked_in / "b.txt").exists()


@pytest.mark.spec("RUN-3")
def test_wrong_usage_of_undo_is_said(worked_in):
    for wrong in (["--hunk", "x"], ["--run", "x", "--version", "1"], ["a", "b"]):
        with pytest.raises(SystemExit) as ended:
            main(["undo", *wrong])
        assert ended.value.code == 2


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    "words",
    [
        ["runs", "--since"], ["audit", "query", "--since"], ["audit", "query", "--until"],
        ["undo", "--by", "user:ann", "--since"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("time", ["nonsense", "2x", "", "2026-13-01"])
def test_a_time_that_is_none_is_wrong_usage(capsys, words, time):
    with pytest.raises(SystemExit) as ended:
        main([*words, time])
    assert ended.value.code == 2
    assert f"{time!r} is no time (write 2026-01-31, " in capsys.readouterr().err


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    "words",
    [
        ["undo", "--since", "1h", "--by"], ["ls", "--as"], ["mount", "p", "d", "--as"],
        ["grant", "token", "ci", "--subject"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("subject", ["nonsense", "", "user:", "agent_run:a", "robot:x"])
def test_a_subject_that_is_none_is_wrong_usage(capsys, words, subject):
    with pytest.raises(SystemExit) as ended:
        main([*words, subject])
    assert ended.value.code == 2
    assert "hint: " in capsys.readouterr().err


@pytest.mark.spec("RUN-3", "ERR-4")
def test_what_is_not_of_a_run_is_refused_with_where_to_look(worked_in, capsys):
    (run,) = said(capsys, "runs")[1]["runs"]
    for wrong in (["nothing.txt"], ["--step", "nonsense"]):
        assert main(["undo", "--run", run["id"], *wrong]) == 1
        assert "bailiwick runs show" in capsys.readouterr().err
    assert main(["runs", "--root", "nowhere"]) == 1
    assert "hint: --root workspace:project\n" in capsys.readouterr().err
