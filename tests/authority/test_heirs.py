"""Whom power can be passed on to, and the scopes that subjects have by themselves."""

import itertools
import os
import stat

import pytest

import bailiwick
from tests.authority.support import AGENT, EVERYTHING, ME, governed, refusal, rule

SUBJECTS = {
    "core": bailiwick.Core("c"),
    "user": bailiwick.User("u"),
    "agent_run": bailiwick.AgentRun("c2", "r2"),
    "extension": bailiwick.Extension("other"),
    "own": bailiwick.Extension("x"),
    "automation": bailiwick.Automation("t"),
}
RANK = {"core": 3, "user": 2, "agent_run": 1, "extension": 0, "own": 0, "automation": 0}

KINDS = ("workspace", "extension-storage", "artifact", "downloads")


@pytest.mark.spec("AUTH-1", "AUTH-5", "POL-3")
@pytest.mark.parametrize("kind", KINDS)
async def test_no_heir_may_do_what_the_holder_may_not(kind):
    """Rules look at the subject, so a holder who could name any heir would choose their rules."""
    async with bailiwick.Authority.open() as authority:
        root = f"{kind}:x"
        await authority.add_root(root, "memory:", trusted=True)
        for subject in SUBJECTS.values():
            await authority.add_grant(
                subject=str(subject), root=root, access=EVERYTHING, by=ME,
            )  # fmt: skip
        acts = {
            "read": lambda fs: fs.list(),
            "env": lambda fs: fs.read_text(".env"),
            "write": lambda fs: fs.write_text("f", "x"),
            "move": lambda fs: fs.move("f", "f"),
            "delete": lambda fs: fs.remove("f", missing_ok=True),
        }

        async def can(fs):
            refused = ("policy_denied", "approval_denied")
            errors = {name: await refusal(act(fs)) for name, act in acts.items()}
            return {
                name for name, error in errors.items()
                if error is None or error.kind not in refused
            }  # fmt: skip

        for holder, heir in itertools.permutations(SUBJECTS, 2):
            parent = await authority.request_root(SUBJECTS[holder], root, EVERYTHING, "pass on")
            try:
                child = await parent.delegate(SUBJECTS[heir])
            except bailiwick.MissingAccess:
                assert RANK[heir] > RANK[holder] or heir == "own", (holder, heir)
                continue
            if RANK[holder] < 2:
                assert await can(child) <= await can(parent), (holder, heir)


@pytest.mark.spec("AUTH-5", "POL-3")
async def test_an_agent_of_ones_own_cannot_speak_for_its_person():
    async with bailiwick.open("memory:") as me:
        await me.write_text(".env", "TOKEN=1")
        agent = await me.delegate(AGENT)
        assert (await refusal(agent.read_text(".env"))).kind == "approval_denied"
        for heir in (bailiwick.User("local"), bailiwick.User("x"), bailiwick.Core("x")):
            assert (await refusal(agent.delegate(heir))).kind == "missing_access"
        child = await agent.delegate(bailiwick.AgentRun("c1", "child"))
        assert (await refusal(child.read_text(".env"))).kind == "approval_denied"
        for wrong in (0, -1, float("nan"), "1"):
            assert (await refusal(me.delegate(AGENT, expires_in=wrong))).kind == "parse_error"
        for wrong in ("agent_run:c1/r1", None, 7):
            assert (await refusal(me.delegate(wrong))).kind == "parse_error"


@pytest.mark.spec("AUTH-5", "POL-2")
async def test_a_rule_about_the_holder_binds_its_heirs(tmp_path):
    rules = rule("deny", "kept", subject="agent_run:c1/*")
    async with governed(tmp_path, rules) as house:
        await house.plant({"kept": "x"})
        fs = await house.scope()
        assert (await refusal(fs.read_text("kept"))).kind == "policy_denied"
        heir = await fs.delegate(bailiwick.AgentRun("c2", "r1"))
        assert (await refusal(heir.read_text("kept"))).kind == "policy_denied"


# --- scopes by what they are for ------------------------------------------------------------------


@pytest.mark.spec("AUTH-4", "AUTH-6")
async def test_an_extension_asks_for_what_its_manifest_declares(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant({"f": "x"})
        authority = house.authority
        await authority.add_root("extension-storage:x", "memory:", trusted=True)
        extension = authority.for_subject(bailiwick.Extension("x"))
        assert (await refusal(extension.workspace({"read"}, "look"))).kind == "missing_access"
        declared = ["filesystem:workspace:read", "filesystem:extension-storage:readwrite"]
        await authority.apply_manifest("x", declared)
        fs = await extension.workspace({"read", "list"}, "look")
        assert (await fs.read_text("f")).text == "x"
        assert (fs.root.id, str(fs.subject), fs.grant.reason) == ("demo", "extension:x", "look")
        assert (fs.grant.source, fs.access) == ("manifest", {"read", "list"})
        assert fs.limits == fs.grant.limits
        assert isinstance(fs.powers, frozenset)
        storage = await extension.extension_storage({"read", "write"}, "keep")
        await storage.write_text("mine", "x")
        assert (await refusal(extension.workspace({"write"}, "more"))).kind == "missing_access"
        other = authority.for_subject(bailiwick.Extension("y"))
        assert (await refusal(other.extension_storage({"read"}, "peek"))).kind == "root_not_found"
        for unknown in ("filesystem:workspace:everything", "network:all", "filesystem:host:read"):
            assert (await refusal(authority.apply_manifest("x", [unknown]))).kind == "parse_error"
        await fs.read_text("f")  # a mistake takes nothing away
        await authority.apply_manifest("x", ["filesystem:extension-storage:readwrite"])
        assert (await refusal(fs.read_text("f"))).kind == "grant_revoked"
        await storage.read_text("mine")


@pytest.mark.spec("TEMP-1", "AUTH-4", "AUTH-5")
async def test_a_temporary_root_ends_with_its_scope_its_time_and_its_authority(tmp_path, clock):
    async with governed(tmp_path, state_dir=tmp_path / "state", on_disk=True) as house:
        temps = tmp_path / "state" / "temp"

        def places():
            return [path for path in temps.rglob("*") if path.name.startswith("note-")]

        fs = await house.authority.for_subject(AGENT).temp("scratch")
        await fs.write_text("note-1", "x")
        (note,) = places()
        assert stat.S_IMODE(os.stat(note.parent).st_mode) == 0o700
        child = await fs.delegate(bailiwick.AgentRun("c1", "child"))
        assert (await refusal(child.read_text("note-1"))).kind == "policy_denied"
        again = await fs.delegate(AGENT)
        assert (await again.read_text("note-1")).text == "x"
        await fs.aclose()
        await fs.aclose()
        assert places() == []
        for scope in (fs, again):
            assert (await refusal(scope.read_text("note-1"))).kind == "closed"
        brief = await house.authority.for_subject(AGENT).temp("brief", seconds=60)
        await brief.write_text("note-2", "x")
        clock.advance(60)
        assert (await refusal(brief.read_text("note-2"))).kind == "grant_expired"
        parent = await house.scope()
        below = await parent.create_temp()
        await below.write_text("note-3", "x")
        await house.authority.revoke(parent.grant.id, by=ME)
        assert (await refusal(below.read_text("note-3"))).kind == "grant_revoked"
        for wrong in (0, -1, float("nan")):
            work = house.authority.for_subject(AGENT).temp("wrong", seconds=wrong)
            assert (await refusal(work)).kind == "parse_error"
        left = await house.authority.for_subject(AGENT).temp("left open")
        await left.write_text("note-4", "x")
    assert places() == []  # also what nobody closed
