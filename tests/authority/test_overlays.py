"""An overlay under an authority: what is applied is judged and recorded for the tree beneath."""

import pytest

import bailiwick
from tests.authority.support import EVERYTHING, governed, rule

pytestmark = pytest.mark.spec("OVER-1")

PERSON = "user:local"


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("old\n")
    (root / "kept.txt").write_text("old\n")
    return root


def house(tmp_path, project, rules="", **more):
    return governed(
        tmp_path, rules, place=f"overlay:{project}", state_dir=tmp_path / "state", **more
    )


async def test_an_agent_changes_it_and_a_person_applies_what_rules_allow(tmp_path, project):
    rules = rule("deny", "kept.txt", access=["write"], subject="user:*")
    async with house(tmp_path, project, rules, options='history = "on"') as home:
        agent = await home.scope()
        await agent.write_text("a.txt", "new\n")
        await agent.write_text("kept.txt", "new\n")
        with pytest.raises(bailiwick.MissingAccess):
            await agent.apply()
        person = await home.scope(EVERYTHING, subject=PERSON)
        result = await person.apply()
        assert [each.path for each in result.withheld] == ["kept.txt"]
        assert (project / "a.txt").read_text() == "old\n"
        result = await person.with_request("apply-1").apply(publish="partial")
        assert [each.path for each in result.changes] == ["a.txt"]
        assert (project / "a.txt").read_text() == "new\n"
        assert (project / "kept.txt").read_text() == "old\n"
        records = [each for each in await home.operations() if each.request_id == "apply-1"]
        assert [(each.verb, each.outcome) for each in records] == [("publish", "success")]
        assert [each.path for each in (await agent.changes()).changes] == ["kept.txt"]
    async with house(tmp_path, project, rules, options='history = "on"') as home:
        person = await home.scope(EVERYTHING, subject=PERSON)
        assert (await person.read_text("kept.txt")).text == "new\n"
        await person.discard()
        assert (await person.read_text("kept.txt")).text == "old\n"


async def test_a_hidden_file_of_the_tree_beneath_stays_hidden(tmp_path, project):
    (project / "secret").write_text("SECRET\n")
    async with house(tmp_path, project, rule("hide", "secret", subject="agent_run:*")) as home:
        agent = await home.scope()
        names = [each.name for each in (await agent.list(".")).entries]
        assert names == ["a.txt", "kept.txt"]
        with pytest.raises(bailiwick.PathNotFound):
            await agent.read_text("secret")
        with pytest.raises(bailiwick.BailiwickError):
            await agent.diff("secret")


async def test_what_others_changed_at_a_hidden_name_is_not_told(tmp_path, project):
    async with house(tmp_path, project, rule("hide", "secret", subject="agent_run:*")) as home:
        person, agent = await home.scope(EVERYTHING, subject=PERSON), await home.scope()
        await person.write_text("secret", "SECRET\n")
        await person.write_text("plain", "plain\n")
        (project / "secret").write_text("and another\n")
        assert "secret" not in repr(await agent.changes())
        with pytest.raises(bailiwick.PathNotFound):
            await agent.diff("secret")
        with pytest.raises(bailiwick.MissingAccess):
            await agent.discard()
        assert [each.path for each in (await person.changes()).conflicts] == ["secret"]


async def test_an_overlay_without_a_directory_is_refused(tmp_path, project):
    file = tmp_path / "bailiwick.toml"
    file.write_text('[[root]]\nkind = "workspace"\nid = "x"\npath = "overlay:"\n')
    with pytest.raises(bailiwick.ParseError, match="overlay"):
        async with bailiwick.Authority.from_config(file):
            pass


async def test_a_root_is_added_while_it_runs(tmp_path, project):
    async with bailiwick.Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:over", f"overlay:{project}", trusted=True)
        fs = await authority.request_root(PERSON, "workspace:over", {"read", "write"}, "a test")
        await fs.write_text("a.txt", "new\n")
        assert (project / "a.txt").read_text() == "old\n"
        await fs.apply()
        assert (project / "a.txt").read_text() == "new\n"
