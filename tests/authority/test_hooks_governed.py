"""Hooks under an authority: one set for all its roots, on every verb, and never past a rule."""

import asyncio
import logging

import pytest

import bailiwick
from bailiwick.hook import Hooks
from tests.authority.support import Person, governed, refusal, rule
from tests.scope.every_verb import SECRET, VERBS, plant_tree

DENY = bailiwick.Deny("hook:guard", "not today")
CHILD = bailiwick.AgentRun("c1", "child")


class Hook:
    def __init__(self, answer=None, *, id="guard", fails=None, hangs=False, after=None):
        self.id, self.answer, self.fails, self.hangs = id, answer, fails, hangs
        self.fails_after = after
        self.before_seen, self.after_seen = [], []

    async def before(self, context):
        self.before_seen.append(context)
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails is not None:
            raise self.fails
        return self.answer

    async def after(self, context, record):
        self.after_seen.append((context, record))
        if self.fails_after is not None:
            raise self.fails_after


INTERFERING = {
    "deny": (Hook(DENY), "policy_denied", "hook:guard"),
    "ask": (Hook(bailiwick.Ask("hook:guard", "really?")), "approval_denied", "hook:guard"),
    "throw": (Hook(fails=LookupError(SECRET)), "policy_denied", "hook:guard"),
    "nonsense": (Hook("yes"), "policy_denied", "hook:guard"),
}


@pytest.mark.spec("HOOK-1", "AUDIT-1")
@pytest.mark.parametrize("name", INTERFERING)
async def test_a_hook_that_interferes_stops_every_verb(tmp_path, name, caplog):
    hook, kind, source = INTERFERING[name]
    async with governed(tmp_path) as house:
        await plant_tree(await house.bare())
        before = await house.tree()
        fs = await house.scope()
        unregister = house.authority.hooks.register(hook)
        for verb in VERBS.values():
            error = await refusal(verb.call(fs))
            assert (error.kind, error.decided_by) == (kind, source)
            assert SECRET not in str(error)
        unregister()
        assert await house.tree() == before
        records = await house.operations()
        assert len(records) == len(VERBS)
        assert {(each.outcome, each.policy_source, each.hooks) for each in records} == {
            ("denied", source, ("guard",))
        }
        expected = len(VERBS) if name in ("throw", "nonsense") else 0
        assert house.authority.hooks.failures.get("guard", 0) == expected


@pytest.mark.spec("HOOK-1", "POL-1")
async def test_a_hook_that_hides_makes_it_look_as_if_nothing_were_there(tmp_path):
    async with governed(tmp_path) as house:
        await plant_tree(await house.bare())
        fs = await house.scope()
        house.authority.hooks.register(Hook(bailiwick.Hide("hook:guard")))
        for name, verb in VERBS.items():
            error = await refusal(verb.call(fs))
            if name in ("exists", "files"):
                assert error is None
            else:
                assert error.kind in ("path_not_found", "policy_denied"), name
                assert error.decided_by in (None, "hook:guard")
        # The operator sees who it was.
        assert {each.policy_source for each in await house.operations()} == {"hook:guard"}


@pytest.mark.spec("HOOK-1")
async def test_a_hook_that_hangs_is_not_waited_for(tmp_path):
    async with governed(tmp_path) as house:
        await house.plant({"f": "x"})
        fs = await house.scope()
        hooks = fs._pipeline.hooks
        assert hooks is house.authority.hooks
        hooks._seconds_max = 0.01
        unregister = hooks.register(Hook(hangs=True, id="snail"))
        error = await refusal(fs.write_text("f", "y"))
        assert (error.kind, error.decided_by) == ("policy_denied", "hook:snail")
        assert "snail" in str(error)
        unregister()
        assert (await house.tree())["f"] == b"x"
        assert hooks.failures == {"snail": 1}
    assert Hooks(seconds_max=1).failures == {}


@pytest.mark.spec("HOOK-1")
async def test_a_failing_after_hook_changes_nothing_and_is_counted(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "bailiwick")
    async with governed(tmp_path) as house:
        fs = await house.scope()
        house.authority.hooks.register(Hook(after=RuntimeError("loud"), id="loud"))
        await fs.write_text("f", "x")
        assert (await fs.read_text("f")).text == "x"
        assert (await refusal(fs.write_text("f", "", mode="create"))).kind == "file_already_exists"
        assert house.authority.hooks.failures == {"loud": 3}
        assert caplog.text.count("after-hook failed") == 3
        outcomes = [each.outcome for each in await house.operations()]
        assert outcomes == ["success", "success", "failed"]


@pytest.mark.spec("HOOK-1")
async def test_unregistering_twice_takes_back_one_registration(tmp_path):
    async with governed(tmp_path) as house:
        fs = await house.scope()
        hook = Hook()
        first = house.authority.hooks.register(hook)
        second = house.authority.hooks.register(hook)
        first()
        first()
        await fs.write_text("f", "x")
        assert len(hook.before_seen) == len(hook.after_seen) == 1
        second()
        second()
        await fs.write_text("f", "y")
        assert len(hook.before_seen) == 1


@pytest.mark.spec("HOOK-1", "AUDIT-1")
async def test_the_hooks_of_an_authority_watch_all_its_roots_and_scopes(tmp_path):
    more = '[[root]]\nid = "two"\nkind = "workspace"\nmemory = true\ntrusted = true\n'
    async with governed(tmp_path, more=more) as house:
        await house.plant({"d/f": "x"})
        watching, second = Hook(id="one"), Hook(id="two")
        for hook in (watching, second):
            house.authority.hooks.register(hook)
        fs = await house.scope()
        two = await house.scope(subject=bailiwick.User("me"), root="workspace:two")
        child = await fs.delegate(CHILD, path="d", rebase=True)
        strict = await house.scope(policy=bailiwick.Narrowing(symlinks="reject"))
        await fs.with_request("a").read_text("d/f")
        await two.with_request("b").copy_from(fs, "d/f", "got")
        await child.with_request("c").write_text("f", "y")
        await strict.with_request("d").list()
        contexts = [(each.request_id, each.operation, each.path) for each in watching.before_seen]
        # Canonical paths, seen from the root, also where the caller sees another top.
        assert contexts == [
            ("a", "read", "d/f"), ("b", "copy", "got"), ("b", "copy", "d/f"),
            ("c", "write", "d/f"), ("d", "list", "."),
        ]  # fmt: skip
        assert watching.before_seen[3].subject == CHILD
        records = await house.operations()
        assert {each.hooks for each in records} == {("one", "two")}
        assert len(watching.after_seen) == len(records) == 5


@pytest.mark.spec("HOOK-1", "POL-2")
@pytest.mark.parametrize("answer", [None, bailiwick.Allow("hook:guard")])
async def test_no_hook_lets_through_what_a_rule_refuses(tmp_path, answer):
    async with governed(tmp_path, rule("deny", "kept") + rule("ask", "asked")) as house:
        await house.plant({"kept": "x", "asked": "x"})
        person = Person("no")
        fs = await house.scope(asker=person)
        hook = Hook(answer)
        house.authority.hooks.register(hook)
        assert (await refusal(fs.read_text("kept"))).decided_by == "deny"
        assert (await refusal(fs.read_text("asked"))).kind == "approval_denied"
        assert len(person.asked) == 1
        assert [record.path for _, record in hook.after_seen] == ["kept", "asked"]


@pytest.mark.spec("HOOK-1", "PATH-6")
async def test_what_a_hook_is_shown_cannot_be_changed(tmp_path):
    class Rewriting(Hook):
        async def before(self, context):
            for name in ("path", "operation", "subject"):
                with pytest.raises(AttributeError):
                    setattr(context, name, "other")

    async with governed(tmp_path) as house:
        await house.plant({"f": "x"})
        fs = await house.scope()
        house.authority.hooks.register(Rewriting())
        await fs.read_text("f")


@pytest.mark.spec("HOOK-1", "AUDIT-2")
async def test_no_content_is_shown_to_a_hook(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    async with governed(tmp_path) as house:
        fs = await house.scope()
        for name, verb in VERBS.items():
            bare = await house.bare()
            for path in ("made", "moved", "copied", "new", "link", "file.txt", "dir"):
                await bare.remove(path, recursive=True, missing_ok=True)
            await plant_tree(bare)
            hook = Hook()
            unregister = house.authority.hooks.register(hook)
            await verb.call(fs)
            unregister()
            assert hook.before_seen, name
            assert SECRET not in repr((hook.before_seen, hook.after_seen)), name
        assert SECRET.encode() not in await house.export()
        assert SECRET not in caplog.text


@pytest.mark.spec("HOOK-1", "EVENT-2", "CLI-3")
async def test_doctor_shows_hooks_and_listeners_that_failed(tmp_path):
    """It is another process, which finds them in the state."""

    class Broken:
        id = "broken"

        async def before(self, context):
            return None

        async def after(self, context, record):
            raise ZeroDivisionError("marmalade")

    def deaf(change):
        raise KeyError("marmalade")

    state = tmp_path / "doctored"
    async with governed(tmp_path, state_dir=state) as house:
        house.authority.hooks.register(Broken())
        fs = await house.scope()
        await fs.on_change(deaf)
        await fs.write_text("f", "x")
        await fs.read_text("f")
        await house.authority.ledger.flush()
    async with bailiwick.Authority.open(state_dir=str(state)) as again:
        found = {each.what: (each.name, each.last, each.count) for each in again.faults.faults()}
    assert found["hook"] == ("broken", "ZeroDivisionError", 3)
    assert found["listener"][1:] == ("KeyError", 1)
    assert "marmalade" not in repr(found)
