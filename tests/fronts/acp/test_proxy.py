"""The proxy between a real editor and a real agent, each in its own process, by the real SDK."""

import pytest

from tests.fronts.acp.editors import Editor, desk


@pytest.mark.spec("ACP-3", "ACP-1")
async def test_an_agent_reads_and_writes_through_a_scope(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "outside.txt").write_text("a secret")
    async with desk(tmp_path, "--root", str(project), cwd=project) as at:
        read, window, wrote, outside, climbing, missing, capabilities = await at.run(
            ["read", f"{project}/a.txt"],
            ["read", f"{project}/a.txt", {"line": 2, "limit": 1}],
            ["write", f"{project}/new/deep/b.txt", "made\n"],
            ["read", f"{tmp_path}/outside.txt"],
            ["read", f"{project}/../outside.txt"],
            ["read", f"{project}/none.txt"],
            ["capabilities"],
        )
        assert at.editor.file_calls == []
    assert read == {"ok": "one\ntwo\nthree\n"}
    assert window == {"ok": "two"}
    assert wrote == {"ok": None}
    assert (project / "new/deep/b.txt").read_text() == "made\n"
    assert outside["data"]["errorKind"] == climbing["data"]["errorKind"] == "path_outside_workspace"
    assert outside["code"] == -32603
    assert missing["data"]["errorKind"] == "path_not_found"
    assert missing["data"]["status"] == 404
    served = capabilities["ok"]["fs"]
    assert (served["readTextFile"], served["writeTextFile"]) == (True, True)


@pytest.mark.spec("ACP-3", "ASK-1", "ASK-2")
@pytest.mark.parametrize(
    ("answer", "kinds", "asked"),
    [
        ("allow_once", [None, None], 2),
        ("allow_always", [None, None], 1),
        ("reject_once", ["approval_denied", "approval_denied"], 2),
        ("reject_always", ["approval_denied", "policy_denied"], 1),
        ("cancelled", ["approval_denied", "approval_denied"], 2),
        (None, ["approval_timeout", "approval_timeout"], 2),
    ],
)
async def test_a_question_is_the_editors_own_permission_request(tmp_path, answer, kinds, asked):
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env").write_text("KEY=1\n")
    async with desk(tmp_path, "--root", str(project), cwd=project, editor=Editor(answer)) as at:
        results = await at.run(["read", f"{project}/.env"], ["read", f"{project}/.env"])
        questions = at.editor.questions
    got = [result.get("data", {}).get("errorKind") for result in results]
    assert got == kinds
    assert len(questions) == asked
    options, session, call = questions[0]
    assert [option.kind for option in options] == [
        "allow_once", "allow_always", "reject_once", "reject_always",
    ]  # fmt: skip
    assert session == "s1"
    assert call.kind == "read"
    assert call.title == f"read {project}/.env"
    assert call.locations[0].path == f"{project}/.env"


@pytest.mark.spec("ACP-3", "ASK-1")
async def test_a_write_is_asked_about_with_its_difference(tmp_path):
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".git/config").write_text("[core]\n")
    async with desk(tmp_path, "--root", str(project), cwd=project) as at:
        [done] = await at.run(["write", f"{project}/.git/config", "[evil]\n"])
        [(_, _, call)] = at.editor.questions
    assert done == {"ok": None}
    assert call.kind == "edit"
    shown = call.content[0].content.text
    assert "-[core]" in shown
    assert "+[evil]" in shown


@pytest.mark.spec("ACP-3")
async def test_the_agents_own_questions_go_to_the_editor_untouched(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    async with desk(tmp_path, "--root", str(project), cwd=project) as at:
        [got] = await at.run(["permission"])
        [(_, _, call)] = at.editor.questions
    assert (got["ok"]["outcome"], got["ok"]["optionId"]) == ("selected", "mine")
    assert call.title == "the agent's own"


@pytest.mark.spec("ACP-3", "AUTH-5")
async def test_a_configuration_says_what_the_agent_may(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a").write_text("a")
    config = tmp_path / "bailiwick.toml"
    config.write_text(
        """\
[state]
path = "state"

[[root]]
id = "demo"
kind = "workspace"
path = "project"
trusted = true

[[grant]]
subject = "agent_run:acp/*"
root = "workspace:demo"
access = ["read", "list", "metadata"]
"""
    )
    project = tmp_path / "project"
    async with desk(tmp_path, "--config", str(config), cwd=project) as at:
        read, wrote, capabilities = await at.run(
            ["read", f"{project}/a"], ["write", f"{project}/b", "b"], ["capabilities"]
        )
    assert read == {"ok": "a"}
    assert wrote["data"]["errorKind"] == "missing_access"
    assert capabilities["ok"]["fs"]["writeTextFile"] is False


@pytest.mark.spec("ACP-3")
async def test_a_volume_stands_for_the_directory_the_editor_works_in(tmp_path):
    place = f"sqlite:{tmp_path}/agent.db?volume=main"
    async with desk(tmp_path, "--root", place, cwd="/editor/works/here") as at:
        wrote, read, elsewhere = await at.run(
            ["write", "/editor/works/here/src/a.py", "x = 1\n"],
            ["read", "/editor/works/here/src/a.py"],
            ["read", "/editor/works/here/../../a.py"],
        )
    assert wrote == {"ok": None}
    assert read == {"ok": "x = 1\n"}
    assert elsewhere["data"]["errorKind"] == "path_outside_workspace"


@pytest.mark.spec("ACP-1", "OVER-1")
async def test_an_overlay_is_served_as_one(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("old\n")
    async with desk(tmp_path, "--root", f"overlay:{project}", cwd=project) as at:
        wrote, read = await at.run(
            ["write", f"{project}/a.txt", "new\n"], ["read", f"{project}/a.txt"]
        )
    assert (wrote, read) == ({"ok": None}, {"ok": "new\n"})
    assert (project / "a.txt").read_text() == "old\n"
