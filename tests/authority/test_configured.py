"""Configurations, grants and options: what they say holds, and nothing they do not say."""

import os

import pytest

from bailiwick import AgentRun, Authority, Core, Extension, Limits, Narrowing, User
from bailiwick.errors import (
    BailiwickError,
    GrantRevoked,
    MissingAccess,
    ParseError,
    PolicyDenied,
    QuotaExceeded,
    Unsupported,
)
from bailiwick.grant import Quota
from tests.authority.support import AGENT, EVERYTHING, ME, governed

ROOT = """
[[root]]
id = "{id}"
kind = "{kind}"
path = "{path}"
durability = "rename"
trusted = true
{more}
"""
GRANT = """
[[grant]]
subject = "agent_run:*"
root = "workspace:{id}"
access = ["read", "list", "metadata", "write", "delete", "move"]
{more}
"""
OTHER = """
[[grant]]
subject = "automation:x"
root = "workspace:demo"
access = ["read"]
"""


def project(directory, id="demo", *, state="", root="", grant="", path="tree", more=""):
    """A configuration in a directory of its own."""
    (directory / "tree").mkdir(parents=True, exist_ok=True)
    file = directory / "bailiwick.toml"
    file.write_text(
        state + ROOT.format(id=id, kind="workspace", path=path, more=root)
        + GRANT.format(id=id, more=grant) + more
    )  # fmt: skip
    return file


def standing(authority):
    return [entry for entry in authority.grants() if entry.kind == "standing"]


@pytest.fixture
def user_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "bailiwick" / "places"


# --- configurations do not end each other's grants -------------------------------------------


@pytest.mark.spec("AUTH-5")
async def test_two_configurations_have_two_states(tmp_path, user_state):
    one, two = project(tmp_path / "one", "one"), project(tmp_path / "two", "two")
    async with Authority.from_config(one) as first:
        scope = await first.request_root(AGENT, "workspace:one", {"write"}, "work")
        async with Authority.from_config(two) as second:
            assert [str(entry.grant.root) for entry in second.grants()] == ["workspace:two"]
        await scope.write_text("f", "still mine")
    assert len(list(user_state.glob("*/authority.db"))) == 2


@pytest.mark.spec("AUTH-5")
async def test_a_configuration_is_the_same_by_every_way_to_it(tmp_path, user_state, monkeypatch):
    file = project(tmp_path / "one", "one")
    (tmp_path / "link").symlink_to(tmp_path / "one")
    monkeypatch.chdir(tmp_path / "one")
    for way in (file, tmp_path / "link" / "bailiwick.toml", "bailiwick.toml", "./bailiwick.toml"):
        async with Authority.from_config(way) as authority:
            assert len(standing(authority)) == 1
    assert len(list(user_state.glob("*/authority.db"))) == 1


@pytest.mark.spec("AUTH-5")
async def test_configurations_that_share_a_state_leave_each_other_alone(tmp_path):
    """Even where both say the very same."""
    state = str(tmp_path / "state")
    one, two = project(tmp_path / "one"), project(tmp_path / "two")
    async with Authority.from_config(one, state) as first:
        scope = await first.request_root(AGENT, "workspace:demo", {"write"}, "work")
        async with Authority.from_config(two, state) as second:
            assert len(standing(second)) == 2
        await scope.write_text("f", "still mine")
        async with Authority.open(state_dir=state):
            pass
        await scope.write_text("f", "still mine")
    project(tmp_path / "two", grant="", more="").write_text("")
    async with Authority.from_config(two, state) as second:
        assert len(standing(second)) == 1


@pytest.mark.spec("AUTH-5")
async def test_what_a_configuration_granted_ends_when_it_is_gone(tmp_path):
    """Else moving it, with its state, would leave grants that no line can take back."""
    file = project(tmp_path / "one", state='[state]\npath = "../state"\n')
    async with Authority.from_config(file) as authority:
        (before,) = standing(authority)
    os.rename(tmp_path / "one", tmp_path / "moved")
    async with Authority.from_config(tmp_path / "moved" / "bailiwick.toml") as authority:
        (after,) = standing(authority)
    assert after.id != before.id


@pytest.mark.spec("AUTH-5")
async def test_who_only_looks_leaves_the_grants_as_they_are(tmp_path):
    state = str(tmp_path / "state")
    file = project(tmp_path / "one")
    async with Authority.from_config(file, state) as authority:
        scope = await authority.request_root(AGENT, "workspace:demo", {"write"}, "work")
        assert authority.synchronised
        file.write_text(file.read_text().replace("agent_run:*", "agent_run:other/*"))
        async with Authority.from_config(file, state, synchronise=False) as looking:
            assert not looking.synchronised
            assert [entry.grant.subject for entry in standing(looking)] == ["agent_run:*"]
        await scope.write_text("f", "still mine")
        async with Authority.from_config(file, state):
            pass
        with pytest.raises(GrantRevoked):
            await scope.write_text("f", "no more")


# --- a configured grant is known by what it says ----------------------------------------------


@pytest.mark.spec("AUTH-5")
async def test_a_time_that_is_configured_comes_to_its_end(tmp_path, monkeypatch):
    now = [10**18]
    monkeypatch.setattr("time.time_ns", lambda: now[0])
    state = str(tmp_path / "state")
    file = project(tmp_path / "one", grant='expires_in = "1 h"\nid = "agents"')
    async with Authority.from_config(file, state) as authority:
        (first,) = standing(authority)
    now[0] += 1_800 * 10**9
    async with Authority.from_config(file, state) as authority:
        (again,) = standing(authority)
        assert again.grant.expires_at == first.grant.expires_at
    now[0] += 1_801 * 10**9
    async with Authority.from_config(file, state) as authority:
        assert standing(authority) == []
        with pytest.raises(MissingAccess):
            await authority.request_root(AGENT, "workspace:demo", {"read"}, "late")
    project(tmp_path / "one", grant='expires_in = "2 h"\nid = "agents"')
    async with Authority.from_config(file, state) as authority:
        (renewed,) = standing(authority)
        assert renewed.grant.expires_at == now[0] / 1e9 + 7_200


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize("known_by", ["", 'id = "agents"'])
async def test_what_was_revoked_stays_so_when_other_lines_change(tmp_path, known_by):
    state = str(tmp_path / "state")
    file = project(tmp_path / "one", grant=known_by)
    async with Authority.from_config(file, state) as authority:
        await authority.revoke(standing(authority)[0].id, by=ME)
    text = file.read_text()
    for changed in (OTHER + text, text + OTHER, text.replace("[[grant]]", "# why\n[[grant]]")):
        file.write_text(changed)
        async with Authority.from_config(file, state) as authority:
            with pytest.raises(MissingAccess):
                await authority.request_root(AGENT, "workspace:demo", {"read"}, "again")


@pytest.mark.spec("AUTH-8")
async def test_what_was_used_up_stays_so_when_other_lines_change(tmp_path):
    state = str(tmp_path / "state")
    file = project(tmp_path / "one", grant="quota = {bytes = 100}")
    async with Authority.from_config(file, state) as authority:
        scope = await authority.request_root(AGENT, "workspace:demo", {"write"}, "work")
        await scope.write_bytes("a", b"x" * 100)
    file.write_text(OTHER + file.read_text())
    async with Authority.from_config(file, state) as authority:
        scope = await authority.request_root(AGENT, "workspace:demo", {"write"}, "work")
        with pytest.raises(QuotaExceeded):
            await scope.write_bytes("b", b"x")


@pytest.mark.spec("AUTH-5")
async def test_the_same_entry_twice_is_two_grants(tmp_path):
    file = project(tmp_path / "one", more=GRANT.format(id="demo", more=""))
    async with Authority.from_config(file, str(tmp_path / "state")) as authority:
        first, second = (entry.id for entry in standing(authority))
        assert second == f"{first}.2"


@pytest.mark.spec("AUTH-6")
async def test_a_manifest_is_listed_by_configurations_and_applied_at_run_time(tmp_path):
    """Three that say the same do not stand in each other's way."""
    state = str(tmp_path / "state")
    more = '[[extension]]\nid = "notes"\npermissions = ["filesystem:workspace:read"]\n'
    one, two = project(tmp_path / "one", more=more), project(tmp_path / "two", more=more)
    async with Authority.from_config(one, state), Authority.from_config(two, state) as authority:
        await authority.apply_manifest("notes", ["filesystem:workspace:read"])
        subjects = [entry.grant.subject for entry in standing(authority)]
        assert subjects.count("extension:notes") == 3


# --- what is asked for is checked before it is kept -------------------------------------------


WRONG_REQUESTS = {
    "no access": {"access": None}, "text for access": {"access": "read"},
    "access within": {"access": [["read"]]}, "unknown access": {"access": ["fly"]},
    "no root": {"root": None}, "a list for a root": {"root": []}, "a number": {"reason": 5},
    "half a character": {"reason": "\ud800"}, "a book": {"reason": "x" * 1_001},
    "bytes": {"path": b"x"}, "no subject": {"subject": None}, "a class": {"subject": User},
    "no name": {"subject": User(None)}, "a star": {"subject": Extension("*")},
    "empty": {"subject": Core("")}, "no conversation": {"subject": AgentRun(None, "r")},
    "long": {"subject": User("x" * 300)}, "a dict": {"policy": {"denied": ["x"]}},
    "never": {"expires_in": float("nan")}, "text for seconds": {"expires_in": "5"},
}  # fmt: skip


@pytest.mark.spec("AUTH-4")
@pytest.mark.parametrize("wrong", WRONG_REQUESTS.values(), ids=WRONG_REQUESTS)
async def test_a_request_that_makes_no_sense_is_refused_and_in_nobodys_way(tmp_path, wrong):
    async with governed(tmp_path) as house:
        given = {"subject": ME, "root": "workspace:demo", "access": ["read"], "reason": "x"} | wrong
        before = house.authority.grants()
        with pytest.raises(ParseError):
            await house.authority.request_root(**given)
        assert house.authority.grants() == before
        assert [record.error_kind for record in await house.records()][-1] == "parse_error"


@pytest.mark.spec("AUTH-4")
@pytest.mark.parametrize(
    "wrong",
    [
        {"denied": "secret"}, {"allowed": "secret"}, {"denied": [5]}, {"denied": None},
        {"denied": ["["]}, {"max_file_bytes": -5}, {"max_file_bytes": True},
        {"max_file_bytes": 1.5}, {"symlinks": "in-root"}, {"hardlinks": "allow"},
    ],
)  # fmt: skip
def test_a_narrowing_that_would_not_narrow_is_refused(wrong):
    with pytest.raises(ParseError):
        Narrowing(**wrong)


@pytest.mark.spec("AUTH-4")
async def test_a_narrowing_takes_any_list(tmp_path):
    async with governed(tmp_path) as house:
        scope = await house.scope(policy=Narrowing(allowed=["a/**"], denied=["a/b"]))
        await house.plant({"a/c": "c", "a/b": "b"})
        assert (await scope.read_text("a/c")).text == "c"
        with pytest.raises(MissingAccess):
            await scope.read_text("a/b")


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize(
    "wrong",
    [
        {"denied": "secret"}, {"allowed": "secret"}, {"denied": [5]}, {"denied": ["["]},
        {"reason": 5}, {"reason": "x" * 1_001}, {"access": None}, {"access": "read"},
        {"subject": None}, {"root": None}, {"root": "workspace"}, {"by": None}, {"by": "user:me"},
        {"by": User(None)}, {"path": "/workspace/src"}, {"path": "/"}, {"path": 5},
        {"path": "../x"}, {"expires_in": -1}, {"expires_in": float("inf")},
    ],
)  # fmt: skip
async def test_a_grant_that_makes_no_sense_is_refused_and_in_nobodys_way(tmp_path, wrong):
    async with governed(tmp_path) as house:
        given = {"subject": "user:ann", "root": "workspace:demo", "access": ["read"], "by": ME}
        before = house.authority.grants()
        with pytest.raises(BailiwickError) as caught:
            await house.authority.add_grant(**given | wrong)
        assert caught.value.kind in ("parse_error", "path_outside_workspace")
        assert house.authority.grants() == before


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize("heir", ["str", None, User(None), Extension("*"), AGENT.__class__])
async def test_a_grant_is_passed_on_to_a_subject(tmp_path, heir):
    async with governed(tmp_path) as house:
        scope = await house.scope(subject=ME)
        with pytest.raises(ParseError):
            await scope.delegate(heir)
        with pytest.raises(ParseError):
            await scope.delegate(AGENT, reason=5)
        with pytest.raises(ParseError):
            await scope.delegate(AGENT, denied="secret")
        with pytest.raises(ParseError):
            await house.authority.request_temp(heir, "x")
        with pytest.raises(ParseError):
            await house.authority.request_temp(ME, 5)


@pytest.mark.spec("AUTH-5")
async def test_a_row_that_cannot_be_read_is_in_nobodys_way(tmp_path, caplog):
    async with governed(tmp_path) as house:
        await house.scope()
        bad = await house.authority.add_grant(
            subject="user:ann", root="workspace:demo", access=["read"], by=ME
        )
        await house.authority._books.grants._database.write_control(
            lambda connection: connection.execute(
                "UPDATE grants SET body = x'c1' WHERE id = ?", (bad.id,)
            ).fetchall()
        )
        assert bad.id not in {entry.id for entry in house.authority.grants()}
        assert len(house.authority.grants()) == 2
        await house.scope()
    assert "a grant cannot be read" in caplog.text


@pytest.mark.spec("AUTH-5")
async def test_grants_are_shown_oldest_first(tmp_path):
    async with governed(tmp_path) as house:
        ids = [house.authority.grants()[0].id]
        ids += [(await house.scope()).grant.id for _ in range(150)]
        assert [entry.id for entry in house.authority.grants()] == ids


@pytest.mark.spec("AUTH-5")
async def test_what_only_carried_a_child_goes_with_it(tmp_path):
    async with governed(tmp_path) as house:
        before = house.authority.grants()
        scope = await house.scope()
        child = await scope.delegate(AgentRun("c1", "child"))
        grandchild = await child.delegate(AgentRun("c1", "grandchild"))
        await scope.aclose()
        await child.aclose()
        await house.plant({"f": "f"})
        assert (await grandchild.read_text("f")).text == "f"
        await grandchild.aclose()
        kept = [entry for entry in house.authority.grants() if "test" not in str(entry.grant)]
        assert [entry.id for entry in kept] == [entry.id for entry in before]


# --- options have an effect, or are refused ---------------------------------------------------


@pytest.mark.spec("AUTH-2")
@pytest.mark.parametrize(
    "limits",
    [
        {"hook_seconds_max": 0.2}, {"ask_seconds_max": 1.0}, {"audit_ring_records": 5},
        {"audit_batch_seconds_max": 1.0}, {"feed_memory_changes_max": 5},
    ],
)  # fmt: skip
async def test_a_limit_that_a_root_does_not_have_is_refused(tmp_path, limits):
    async with Authority.open() as authority:
        with pytest.raises(ParseError):
            await authority.add_root("workspace:x", "memory:", limits=Limits(**limits))
    ((name, value),) = limits.items()
    with pytest.raises(ParseError, match=name):
        async with governed(tmp_path, options=f"limits = {{{name} = {value}}}"):
            pass


@pytest.mark.spec("TEMP-1")
async def test_how_long_a_temporary_root_lives_is_a_limit_of_the_root(tmp_path):
    async with governed(tmp_path, options="limits = {temp_seconds_max = 60}") as house:
        scope = await house.scope()
        now = house.authority._services.machine.time_ns() / 1e9
        temp = await scope.create_temp()
        assert now < temp.grant.expires_at < now + 70
        await temp.aclose()
        with pytest.raises(ParseError):
            await scope.create_temp(seconds=61)


@pytest.mark.spec("AUTH-2")
@pytest.mark.parametrize(
    "options",
    [
        {"access": ["read"]}, {"copy_in": ["/nowhere"]}, {"containment": "walk"},
        {"hardlinks": "allow"}, {"quota": "much"}, {"labels": 5}, {"labels": {"a": 1}},
        {"display_name": 5}, {"quota": Quota(bytes=-1)},
    ],
)  # fmt: skip
async def test_an_option_without_effect_is_refused(options):
    async with Authority.open() as authority:
        with pytest.raises((ParseError, Unsupported)):
            await authority.add_root("artifact:x", "memory:", **options)
        assert authority.roots() == []


@pytest.mark.spec("AUTH-2")
async def test_no_ignore_files_means_none(tmp_path):
    async with governed(tmp_path, options="ignore_files = []") as house:
        await house.plant({".gitignore": "x\n", "x": "1"})
        scope = await house.scope()
        assert {entry.path for entry in (await scope.list(".")).entries} == {".gitignore", "x"}


# --- secrets stay their owner's ---------------------------------------------------------------


def secret_house(tmp_path):
    place = tmp_path / "secrets"
    place.mkdir(mode=0o700)
    root = ROOT.format(id="deploy", kind="secret", path=place, more="")
    grant = (
        '[[grant]]\nsubject = "user:me"\nroot = "secret:deploy"\n'
        f"access = {list(EVERYTHING)!r}\n"
        '[[rule]]\nroot = "secret:*"\nsubject = "user:me"\neffect = "allow"\n'
    )
    return place, governed(tmp_path, more=root + grant)


@pytest.mark.spec("AUTH-2")
async def test_a_secret_is_private_however_it_came(tmp_path):
    place, opening = secret_house(tmp_path)
    async with opening as house:
        await house.plant({"open": "content", "d/open": "content"})
        there = await house.scope(subject=ME)
        await there.set_mode("open", 0o666)
        await there.set_mode("d", 0o777)
        await there.set_mode("d/open", 0o777)
        await there.create_archive("d", "d.tar")
        scope = await house.scope(subject=ME, root="secret:deploy")
        for act in (
            lambda: scope.write_text("k", "v", file_mode=0o666),
            lambda: scope.write_bytes("k", b"v", file_mode=0o640),
            lambda: scope.write_json("k", 1, file_mode=0o604),
            lambda: scope.write_stream("k", [b"v"], file_mode=0o700),
            lambda: scope.append("k", b"v", file_mode=0o666),
            lambda: scope.make_dir("dir", file_mode=0o755),
        ):
            with pytest.raises(ParseError):
                await act()
        assert os.listdir(place) == []
        await scope.write_text("k", "v", file_mode=0o400)
        for mode in (0o666, 0o610, 0o700):
            with pytest.raises(ParseError):
                await scope.set_mode("k", mode)
        await scope.set_mode("k", 0o600)
        with pytest.raises(ParseError):
            await scope.create_archive("k", "k.tar", file_mode=0o644)
        await scope.copy_from(there, "open", "copied")
        await scope.copy_from(there, "d", "tree", recursive=True)
        await scope.copy_from(there, "d.tar", "d.tar")
        await scope.extract_archive("d.tar", "unpacked")
    for path in place.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.spec("AUTH-2")
@pytest.mark.parametrize("mode", ["umask", 0o644])
async def test_a_secret_root_has_no_other_mode_for_new_files(tmp_path, mode):
    async with Authority.open() as authority:
        with pytest.raises(ParseError):
            await authority.add_root("secret:x", str(tmp_path), new_file_mode=mode)


# --- nothing is reached by two names ----------------------------------------------------------


@pytest.mark.spec("AUTH-2")
@pytest.mark.parametrize(("one", "two"), [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a", "link/b")])
async def test_roots_do_not_overlap(tmp_path, one, two):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
        await authority.add_root("workspace:one", str(tmp_path / one))
        with pytest.raises(ParseError, match="overlap"):
            await authority.add_root("secret:two", str(tmp_path / two))
        assert [str(root) for root in authority.roots()] == ["workspace:one"]
        (tmp_path / "ab").mkdir()
        await authority.add_root("secret:two", str(tmp_path / "ab"))
    file = project(tmp_path, path=one, more=ROOT.format(id="x", kind="secret", path=two, more=""))
    with pytest.raises(ParseError, match="overlap"):
        async with Authority.from_config(file, str(tmp_path / "state")):
            pass


@pytest.mark.spec("AUTH-2")
@pytest.mark.parametrize("root", [".", "state", "state/temp"])
async def test_a_root_does_not_hold_the_state(tmp_path, root):
    file = project(tmp_path / "one", path=root, state='[state]\npath = "state"\n')
    with pytest.raises(ParseError, match="state"):
        async with Authority.from_config(file):
            pass
    assert not (tmp_path / "one" / "state").exists()
    file = project(tmp_path / "one", root='copy_in = ["."]', state='[state]\npath = "state"\n')
    with pytest.raises(ParseError, match="copy in"):
        async with Authority.from_config(file):
            pass


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("place", ["bailiwick.toml", "sub/bailiwick.toml"])
async def test_a_configuration_in_its_root_is_not_changed_through_it(tmp_path, place):
    file = project(tmp_path / "one", path=".")
    before = file.read_text()
    async with Authority.from_config(file, str(tmp_path / "state")) as authority:
        own = await authority.request_root(ME, "workspace:demo", EVERYTHING, "plant")
        if place != "bailiwick.toml":
            await own.write_text(place, before, parents=True)
        await own.write_text("mine", "[policy]\n")
        agent = await authority.request_root(AGENT, "workspace:demo", _AGENTS, "widen")
        assert "grant" in (await agent.read_text(place)).text
        for act in (
            lambda: agent.write_text(place, ""),
            lambda: agent.append(place, "[policy]\n"),
            lambda: agent.truncate(place, 0),
            lambda: agent.edit(place, old="trusted", new="x"),
            lambda: agent.set_mode(place, 0o666),
            lambda: agent.remove(place),
            lambda: agent.move(place, "elsewhere"),
            lambda: agent.move("mine", place, replace=True),
            lambda: agent.copy("mine", "new/bailiwick.toml"),
            lambda: agent.symlink("new.d/bailiwick.toml", "../mine"),
        ):
            with pytest.raises(BailiwickError) as caught:
                await act()
            assert caught.value.kind in ("policy_denied", "path_not_found"), caught.value
        with pytest.raises(PolicyDenied):
            await agent.write_text(place, "")
        await own.append(place, "# a person may\n")
    assert file.read_text().startswith(before)


_AGENTS = ("read", "list", "metadata", "write", "delete", "move")


@pytest.mark.spec("POL-3")
async def test_a_configuration_by_another_name_does_not_lie_in_a_root(tmp_path):
    file = project(tmp_path / "one", path=".")
    other = file.rename(tmp_path / "one" / "other.toml")
    with pytest.raises(ParseError, match="configuration lies in the root"):
        async with Authority.from_config(other, str(tmp_path / "state")):
            pass


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize("path", ["/workspace/src", "/src", "/"])
async def test_the_path_of_a_configured_grant_is_relative(tmp_path, path):
    file = project(tmp_path / "one", grant=f'path = "{path}"')
    with pytest.raises(ParseError, match="relative"):
        async with Authority.from_config(file, str(tmp_path / "state")):
            pass


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize("id", ["a:b", "grant:1", "7", "", "x" * 65, "é", "a b"])
async def test_ids_of_grants_are_plain(tmp_path, id):
    file = project(tmp_path / "one", grant=f'id = "{id}"')
    with pytest.raises(ParseError):
        async with Authority.from_config(file, str(tmp_path / "state")):
            pass


@pytest.mark.spec("AUTH-5")
async def test_an_id_is_given_once(tmp_path):
    again = GRANT.format(id="demo", more='id = "agents"')
    file = project(tmp_path / "one", grant='id = "agents"', more=again)
    with pytest.raises(ParseError, match="agents"):
        async with Authority.from_config(file, str(tmp_path / "state")):
            pass
