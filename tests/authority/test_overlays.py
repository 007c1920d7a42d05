"""An overlay under an authority: what is applied is judged and recorded for the tree beneath."""

import pytest

import bailiwick
from tests.authority.support import EVERYTHING, governed, rule

pytestmark = pytest.mark.spec("OVER-1")

PERSON = "user:local"


class Project:
    """What the overlay lies over, and a person who works there past the authority."""

    def __init__(self, place, past):
        self.place = place
        self.past = past
        self._state = f"{place.removeprefix('sqlite:')}-state"

    def opened(self):
        return bailiwick.open(self.place, state_dir=self._state)

    async def read(self, path):
        async with self.opened() as fs:
            return (await fs.read_text(path)).text

    async def write(self, path, text):
        async with self.opened() as fs:
            await fs.write_text(path, text)


@pytest.fixture(params=["directory", "volume"])
def project(request, tmp_path):
    if request.param == "directory":
        (tmp_path / "project").mkdir()
        found = Project(str(tmp_path / "project"), 'history = "on"')
    else:
        found = Project(f"sqlite:{tmp_path}/project.db", "")
    with bailiwick.open_sync(found.place) as fs:
        for name in ("a.txt", "kept.txt"):
            fs.write_text(name, "old\n")
    return found


def house(tmp_path, project, rules="", **more):
    return governed(
        tmp_path, rules, place=f"overlay:{project.place}", state_dir=tmp_path / "state", **more
    )


async def test_an_agent_changes_it_and_a_person_applies_what_rules_allow(tmp_path, project):
    rules = rule("deny", "kept.txt", access=["write"], subject="user:*")
    async with house(tmp_path, project, rules, options=project.past) as home:
        agent = await home.scope()
        await agent.write_text("a.txt", "new\n")
        await agent.write_text("kept.txt", "new\n")
        with pytest.raises(bailiwick.MissingAccess):
            await agent.apply()
        person = await home.scope(EVERYTHING, subject=PERSON)
        result = await person.apply()
        assert [each.path for each in result.withheld] == ["kept.txt"]
        assert await project.read("a.txt") == "old\n"
        result = await person.with_request("apply-1").apply(publish="partial")
        assert [each.path for each in result.changes] == ["a.txt"]
        assert await project.read("a.txt") == "new\n"
        assert await project.read("kept.txt") == "old\n"
        records = [each for each in await home.operations() if each.request_id == "apply-1"]
        assert [(each.verb, each.outcome) for each in records] == [("publish", "success")]
        assert [each.path for each in (await agent.changes()).changes] == ["kept.txt"]
    async with house(tmp_path, project, rules, options=project.past) as home:
        person = await home.scope(EVERYTHING, subject=PERSON)
        assert (await person.read_text("kept.txt")).text == "new\n"
        await person.discard()
        assert (await person.read_text("kept.txt")).text == "old\n"


async def test_a_hidden_file_of_the_tree_beneath_stays_hidden(tmp_path, project):
    await project.write("secret", "SECRET\n")
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
        await project.write("secret", "and another\n")
        assert "secret" not in repr(await agent.changes())
        with pytest.raises(bailiwick.PathNotFound):
            await agent.diff("secret")
        with pytest.raises(bailiwick.MissingAccess):
            await agent.discard()
        assert [each.path for each in (await person.changes()).conflicts] == ["secret"]


@pytest.mark.parametrize(
    "place", ["path = 'overlay:'", "path = 'overlay:sqlite:a.db'", "volume = 'overlay:'",
              "volume = 'overlay:./project'", "volume = 'overlay:overlay:sqlite:a.db'"],
)  # fmt: skip
async def test_an_overlay_over_nothing_is_refused(tmp_path, place):
    file = tmp_path / "bailiwick.toml"
    file.write_text(f'[[root]]\nkind = "workspace"\nid = "x"\n{place}\n')
    with pytest.raises(bailiwick.ParseError, match=r"overlay|volume lies"):
        async with bailiwick.Authority.from_config(file, state_dir=str(tmp_path / "state")):
            pass


async def test_a_root_is_added_while_it_runs(tmp_path, project):
    async with bailiwick.Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:over", f"overlay:{project.place}", trusted=True)
        fs = await authority.request_root(PERSON, "workspace:over", {"read", "write"}, "a test")
        await fs.write_text("a.txt", "new\n")
        assert await project.read("a.txt") == "old\n"
        await fs.apply()
        assert await project.read("a.txt") == "new\n"


async def test_what_is_applied_to_a_volume_is_on_record_and_undone_there(tmp_path):
    place, state = f"sqlite:{tmp_path}/project.db", tmp_path / "state"
    async with governed(tmp_path, place=f"overlay:{place}", state_dir=state) as home:
        person = await home.scope(EVERYTHING, subject=PERSON)
        await person.write_text("a.txt", "new\n")
        await person.with_request("apply-1").apply()
        (record,) = [each for each in await home.operations() if each.request_id == "apply-1"]
        assert (record.verb, record.outcome) == ("publish", "success")
    async with governed(tmp_path, place=place, state_dir=state) as home:
        person = await home.scope(EVERYTHING, subject=PERSON)
        (version,) = (await person.history("a.txt")).versions
        assert (version.request_id, version.subject) == ("apply-1", PERSON)
        await person.undo("apply-1")
        assert not await person.exists("a.txt")
        found = [each for each in await home.operations() if each.request_id == "apply-1"]
        assert found == [record], "the note in the volume is not a second record"
