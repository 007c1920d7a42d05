"""Rules hold for the past and for going back: what they keep, no version, undo or merge gets."""

import pytest

from bailiwick import ApprovalDenied, Busy, HashMismatch, PathNotFound, PolicyDenied
from bailiwick.policy import Deny
from tests.scope.support import Rules, ask, deny, hide, records
from tests.scope.volumes import ruled, text, tree, volume

pytestmark = pytest.mark.spec("VOL-5", "POL-1", "POL-2")


async def _moved_out(fs):
    """A file that had a protected name once, and now has another."""
    await fs.write_text("kept/secret", "the secret")
    version = (await fs.write_text("kept/secret", "the secret, again")).version
    await fs.move("kept/secret", "open")
    return version


def _person_may(rules):
    """Rules for everybody but the person, who plants and looks."""
    decide = rules.decide

    def decide_for(context):
        from bailiwick.policy import Allow

        return Allow("person") if str(context.subject) == "user:local" else decide(context)

    rules.decide = decide_for
    return rules


@pytest.mark.parametrize(
    ("rule", "refusal"),
    [(hide, PathNotFound), (deny, PolicyDenied), (ask, ApprovalDenied)],
)
async def test_a_kept_name_stays_kept_in_the_past(tmp_path, rule, refusal):
    policy = _person_may(Rules(rule("kept")))
    async with volume(tmp_path, policy=policy) as fs:
        await fs.make_dir("kept")
        version = await _moved_out(fs)
        agent = await ruled(fs)
        assert await text(fs, "kept/secret", as_of=version) == "the secret, again"
        for read in (
            lambda: agent.read_text("kept/secret", as_of=version),
            lambda: agent.read_bytes("kept/secret", as_of=version),
            lambda: agent.diff("open", "kept/secret", other_as_of=version),
            lambda: agent.diff("kept/secret", as_of=version, text=""),
            lambda: agent.history("kept/secret"),
            lambda: anext(agent.stream("kept/secret", as_of=version)),
            lambda: agent.stat("kept/secret", as_of=version),
        ):
            with pytest.raises(refusal):
                await read()
        # Its history under the new name tells nothing of the time under the old one.
        shown = await agent.history("open")
        assert [(each.kind, each.path) for each in shown.versions] == [("moved", "open")]
        assert {each.path for each in (await fs.history("open")).versions} == {
            "open", "kept/secret",
        }  # fmt: skip


async def test_a_hidden_name_is_in_no_listing_of_the_past(tmp_path):
    async with volume(tmp_path, policy=_person_may(Rules(hide("kept")))) as fs:
        await fs.write_text("kept/f", "x", parents=True)
        version = (await fs.write_text("seen", "x")).version
        agent = await ruled(fs)
        assert [each.name for each in (await agent.list(as_of=version)).entries] == ["seen"]
        assert (await agent.files(as_of=version)).paths == ["seen"]
        assert (await agent.find(as_of=version)).paths == ["seen"]
        assert (await agent.glob("**", as_of=version)).paths == ["seen"]
        assert not await agent.exists("kept/f", as_of=version)


@pytest.mark.parametrize("rule", [hide, deny, ask])
async def test_no_undo_touches_what_a_rule_keeps(tmp_path, rule):
    """Undoing what was done before the rule came, or by mistake with more rights."""
    rules = Rules()
    async with volume(tmp_path, policy=rules) as fs:
        agent = await ruled(fs)
        run = agent.with_request("run")
        await run.write_text("kept/f", "agent", parents=True)
        await run.write_text("free", "agent")
        before = await tree(fs)
        rules._rules = (rule("kept"),)
        with pytest.raises((PolicyDenied, ApprovalDenied)) as refused:
            await agent.undo("run")
        last = records(fs)[-1]
        assert (last.verb, last.operation, last.outcome) == ("undo", "version", "denied")
        assert last.policy_source == f"{rule.__name__}-rule"
        if rule is hide:
            assert refused.value.path is None
            assert "kept" not in str(refused.value)
            with pytest.raises(PolicyDenied) as refused:
                await agent.undo("run", preview=True)
            assert "kept" not in str(refused.value)
        rules._rules = ()
        assert await tree(fs) == before
        assert (await agent.undo("run")).undone == ["free", "kept", "kept/f"]


@pytest.mark.parametrize("rule", [hide, deny, ask])
async def test_no_restore_touches_what_a_rule_keeps(tmp_path, rule):
    policy = _person_may(Rules(rule("d/kept")))
    async with volume(tmp_path, policy=policy) as fs:
        await fs.write_text("d/kept/f", "old", parents=True)
        version = (await fs.write_text("d/free", "old")).version
        await fs.write_text("d/kept/f", "new")
        await fs.write_text("d/free", "new")
        agent = await ruled(fs)
        for path in ("d", "d/kept", "d/kept/f", "."):
            with pytest.raises((PolicyDenied, ApprovalDenied, PathNotFound)):
                await agent.restore(path, version)
        assert await tree(fs) == {"d/free": "new", "d/kept/f": "new"}
        await agent.restore("d/free", version)
        assert await text(fs, "d/free") == "old"


@pytest.mark.spec("POL-4")
async def test_what_lies_in_a_directory_that_comes_back_is_judged(tmp_path):
    """One name was removed, and everything in it would come back."""
    rules = Rules()
    async with volume(tmp_path, policy=rules) as fs:
        await fs.write_text("d/e/kept", "x", parents=True)
        agent = await ruled(fs)
        await agent.with_request("rm").remove("d", recursive=True)
        rules._rules = (deny("d/e/kept"),)
        with pytest.raises(PolicyDenied) as refused:
            await agent.undo("rm")
        assert refused.value.path == "d/e/kept"
        assert await tree(fs) == {}
        rules._rules = ()
        await agent.undo("rm")
        assert await tree(fs) == {"d/e/kept": "x"}


@pytest.mark.spec("POL-4", "VOL-6")
@pytest.mark.parametrize("rule", [hide, deny, ask])
async def test_no_merge_touches_what_a_rule_keeps(tmp_path, rule):
    """What a person did in a fork is not taken over by an agent who may not do it."""
    policy = _person_may(Rules(rule("kept")))
    async with volume(tmp_path, policy=policy) as fs:
        await fs.write_text("kept/f", "x", parents=True)
        fork = await fs.fork("work")
        await fork.write_text("kept/f", "changed")
        await fork.write_text("free", "made")
        agent = await ruled(fs)
        with pytest.raises((PolicyDenied, ApprovalDenied)) as refused:
            await agent.merge("work")
        if rule is hide:
            assert refused.value.path is None
            differences = (await agent.compare("work")).differences
            assert [each.path for each in differences] == ["free"]
        else:
            found = {each.path: each for each in (await agent.compare("work")).differences}
            assert found["kept/f"].sha256 is found["kept/f"].sha256_before is None
            assert found["free"].sha256 is not None
        assert await text(fs, "kept/f") == "x"
        assert (await fs.merge("work")).changed == ["free", "kept/f"]
        await fork.aclose()


@pytest.mark.spec("ASK-1", "ASK-2")
async def test_a_person_is_asked_once_for_all_of_it(tmp_path):
    async with volume(tmp_path, policy=_person_may(Rules(ask("kept")))) as fs:
        agent = await ruled(fs)
        questions = []

        async def asker(approval):
            questions.append(approval.question)
            return answer[0]

        agent = agent.with_caller("test", asker=asker)
        await fs.write_text("kept/a", "old", parents=True)
        version = (await fs.write_text("kept/b", "old")).version
        await fs.write_text("kept/a", "new")
        await fs.write_text("kept/b", "new")
        answer = ["no"]
        with pytest.raises(ApprovalDenied):
            await agent.restore("kept", version)
        assert (await tree(fs))["kept/a"] == "new"
        answer[0] = "once"
        assert (await agent.restore("kept", version)).changed == 2
        assert [each.paths for each in questions] == [("kept", "kept/a", "kept/b")] * 2
        assert "updated kept/a" in questions[-1].preview.diff
        assert await tree(fs) == {"kept/a": "old", "kept/b": "old"}


@pytest.mark.spec("ASK-2")
async def test_what_changed_while_a_person_was_asked_is_not_undone(tmp_path):
    async with volume(tmp_path, policy=_person_may(Rules(ask("kept")))) as fs:
        agent = await ruled(fs)
        await fs.write_text("kept/a", "old", parents=True)
        version = (await fs.write_text("kept/b", "old")).version
        await fs.write_text("kept/a", "new")

        async def asker(approval):
            await fs.write_text("kept/b", "by the person")
            return "once"

        with pytest.raises(HashMismatch):
            await agent.with_caller("test", asker=asker).restore("kept", version)
        assert await tree(fs) == {"kept/a": "new", "kept/b": "by the person"}


@pytest.mark.spec("ASK-2")
async def test_a_rule_that_comes_while_a_person_is_asked_holds(tmp_path):
    rules = Rules(ask("kept"))
    async with volume(tmp_path, policy=_person_may(rules)) as fs:
        agent = await ruled(fs)
        version = (await fs.write_text("kept", "old")).version
        await fs.write_text("kept", "new")

        async def asker(approval):
            rules._rules = ((Deny("late", "no more"), ("kept",), None),)
            return "once"

        with pytest.raises(PolicyDenied):
            await agent.with_caller("test", asker=asker).restore("kept", version)
        assert await text(fs, "kept") == "new"


@pytest.mark.spec("POL-3")
async def test_the_shipped_rules_hold_for_what_was(tmp_path):
    async with volume(tmp_path) as fs:
        from tests.scope.volumes import AGENT

        await fs.write_text(".env", "KEY=1")
        version = (await fs.write_text(".env", "KEY=2")).version
        await fs.move(".env", "env.txt")
        agent = await fs.delegate(AGENT)
        with pytest.raises(ApprovalDenied):
            await agent.read_text(".env", as_of=version)
        with pytest.raises(ApprovalDenied):
            await agent.restore(".env", version)
        with pytest.raises(ApprovalDenied):
            await agent.history(".env")
        assert [each.path for each in (await agent.history("env.txt")).versions] == ["env.txt"]


def _between(fs, monkeypatch, meddle):
    """Have ``meddle`` run after each time that an undo was planned, before it is carried out."""
    from bailiwick.stores.volume.versions.api import VolumeVersions

    planned = VolumeVersions.plan_undo

    async def plan_and_meddle(versions, what):
        plan = await planned(versions, what)
        await meddle()
        return plan

    monkeypatch.setattr(VolumeVersions, "plan_undo", plan_and_meddle)


@pytest.mark.spec("POL-4")
async def test_what_was_decided_is_what_is_done(tmp_path, monkeypatch):
    """A protected file comes into a directory between the decision and the act, which would move
    it along: it is decided on anew."""
    async with volume(tmp_path, policy=_person_may(Rules(deny("b/kept", "a/kept")))) as fs:
        agent = await ruled(fs)
        await agent.write_text("a/f", "1", parents=True)
        await agent.with_request("mv").move("a", "b")
        put = []

        async def meddle():
            if not put:
                put.append(await fs.write_text("b/kept", "secret"))

        _between(fs, monkeypatch, meddle)
        with pytest.raises(PolicyDenied):
            await agent.undo("mv")
        assert await tree(fs) == {"b/f": "1", "b/kept": "secret"}


@pytest.mark.spec("VOL-5")
async def test_others_who_keep_changing_it_make_it_busy(tmp_path, monkeypatch):
    async with volume(tmp_path) as fs:
        await fs.write_text("a/f", "1", parents=True)
        await fs.with_request("mv").move("a", "b")
        count = []

        async def meddle():
            if len(count) < most:
                count.append(await fs.write_text(f"b/{len(count)}", "x"))

        _between(fs, monkeypatch, meddle)
        most = 5
        with pytest.raises(Busy):
            await fs.undo("mv")
        assert "b/f" in await tree(fs)
        most = 7
        assert (await fs.undo("mv")).undone == ["a", "b"]
        assert set(await tree(fs)) == {"a/f", *(f"a/{number}" for number in range(7))}
