"""Hooks around every verb: `before` may refuse, `after` only watches."""

import asyncio
import logging

import pytest

import bailiwick
from bailiwick.limits import Limits
from bailiwick.policy import Allow, Ask, Deny, Hide
from tests.scope.every_verb import SECRET, TREE, VERBS, plant_tree
from tests.scope.support import Rules, deny, hide, plant, records, snapshot, unruled

QUICK = Limits(hook_seconds_max=0.01)


class Hook:
    """Notes what it is shown; answers or fails as told."""

    def __init__(self, id="hook", *, answer=None, fails=None, fails_after=None, slow=False):
        self.id = id
        self.answer = answer
        self.fails = fails
        self.fails_after = fails_after
        self.slow = slow
        self.seen = []

    async def before(self, context):
        self.seen.append(("before", context))
        if self.slow:
            await asyncio.Event().wait()
        if self.fails is not None:
            raise self.fails
        return self.answer

    async def after(self, context, record):
        self.seen.append(("after", record))
        if self.slow:
            await asyncio.Event().wait()
        if self.fails_after is not None:
            raise self.fails_after

    @property
    def steps(self):
        return [step for step, _ in self.seen]


@pytest.mark.spec("HOOK-1")
@pytest.mark.parametrize("name", VERBS)
async def test_a_failing_before_hook_refuses_every_verb(either, name, caplog):
    hook = Hook("guard", fails=LookupError("broken"))
    async with either(hooks=[hook]) as fs:
        await plant(unruled(fs), TREE)
        before = await snapshot(unruled(fs))
        with pytest.raises(bailiwick.PolicyDenied) as refused:
            await VERBS[name].call(fs)
        assert refused.value.decided_by == "hook:guard"
        assert "guard" in str(refused.value)
        assert "broken" not in str(refused.value)
        assert await snapshot(unruled(fs)) == before
        assert (records(fs)[-1].hooks, records(fs)[-1].outcome) == (("guard",), "denied")


@pytest.mark.spec("HOOK-1")
async def test_a_slow_before_hook_refuses(opening):
    async with opening(hooks=[Hook("snail", slow=True)], limits=QUICK) as fs:
        with pytest.raises(bailiwick.PolicyDenied) as refused:
            await fs.write_text("f", "x")
        assert refused.value.decided_by == "hook:snail"
        assert "too long" in str(refused.value)
        assert await snapshot(unruled(fs)) == {}
    assert Limits().hook_seconds_max == 5.0


@pytest.mark.spec("HOOK-1")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Deny("hook:h", "no"), bailiwick.PolicyDenied),
        (Ask("hook:h", "may it?"), bailiwick.ApprovalDenied),
        (Hide("hook:h"), bailiwick.PathNotFound),
        (Ask("hook:h", "may it?", "allow"), None),
        (Allow("hook:h"), None),
        (None, None),
        (True, bailiwick.PolicyDenied),
        ("allow", bailiwick.PolicyDenied),
    ],
)
async def test_a_before_hook_may_decide(opening, answer, error):
    async with opening(hooks=[Hook("h", answer=answer)]) as fs:
        await unruled(fs).write_text("f", "x")
        if error is None:
            await fs.read_text("f")
        else:
            with pytest.raises(error):
                await fs.read_text("f")


@pytest.mark.spec("HOOK-1", "PATH-6")
async def test_a_hook_is_shown_what_is_acted_on_however_that_was_named(opening):
    """Policy had to look at the way there first, since some of it might be hidden."""
    hook = Hook(answer=Deny("hook:hook", "no"))
    async with opening(policy=Rules(hide("kept")), hooks=[hook]) as fs:
        await plant(unruled(fs), {"d/f": "x", "link": "-> d"})
        with pytest.raises(bailiwick.PolicyDenied):
            await fs.read_text("link/f")
        (_, context), (_, record) = hook.seen
        assert context.path == record.path == "d/f"


@pytest.mark.spec("HOOK-1")
async def test_what_policy_refuses_is_seen_by_who_watches(opening):
    hook = Hook()
    async with opening(policy=Rules(deny("kept"), hide("secret")), hooks=[hook]) as fs:
        await plant(unruled(fs), {"kept": "x", "secret": "x"})
        with pytest.raises(bailiwick.PolicyDenied):
            await fs.read_text("kept")
        with pytest.raises(bailiwick.PathNotFound):
            await fs.read_text("secret")
        assert hook.steps == ["after", "after"]
        assert [record.policy_source for _, record in hook.seen] == ["deny-rule", "hide-rule"]


@pytest.mark.spec("HOOK-1")
@pytest.mark.parametrize("first", [None, Allow("hook:a"), Ask("hook:a", "may it?", "allow")])
async def test_no_hook_lets_through_what_a_later_one_refuses(opening, first):
    hooks = [Hook("a", answer=first), Hook("b", answer=Deny("hook:b", "no")), Hook("c")]
    async with opening(hooks=hooks) as fs:
        with pytest.raises(bailiwick.PolicyDenied) as refused:
            await fs.write_text("f", "x")
        assert refused.value.decided_by == "hook:b"
        assert records(fs)[-1].hooks == ("a", "b")
        assert [hook.steps for hook in hooks] == [["before", "after"]] * 2 + [["after"]]


@pytest.mark.spec("HOOK-1")
async def test_hooks_run_in_the_order_they_were_registered(opening):
    order = []

    class Noting(Hook):
        async def before(self, context):
            order.append(("before", self.id))

        async def after(self, context, record):
            order.append(("after", self.id))

    async with opening(hooks=[Noting("b"), Noting("a"), Noting("c")]) as fs:
        await fs.write_text("f", "x")
        ids = ["b", "a", "c"]
        assert order == [("before", id) for id in ids] + [("after", id) for id in ids]
        assert records(fs)[-1].hooks == ("b", "a", "c")


@pytest.mark.spec("HOOK-1")
@pytest.mark.parametrize(
    "hook", [Hook("loud", fails_after=RuntimeError("after")), Hook("snail", slow=True)]
)
async def test_a_failing_or_slow_after_hook_changes_nothing(opening, hook, caplog):
    async with opening(limits=QUICK) as fs:
        await plant_tree(fs)
        hook.before = _pass
        fs._pipeline.hooks.register(hook)
        before = len(records(fs))
        assert (await fs.write_text("file.txt", "new")).created is False
        with pytest.raises(bailiwick.PathNotFound):
            await fs.read_text("missing/x")
        made = [(record.verb, record.outcome) for record in records(fs)[before:]]
        assert made == [("write_text", "success"), ("read_text", "failed")]
        assert "after-hook failed" in caplog.text


async def _pass(context):
    return None


@pytest.mark.spec("HOOK-1")
async def test_unregistering_twice_does_no_harm(opening):
    async with opening() as fs:
        hooks, hook = fs._pipeline.hooks, Hook()
        first, second = hooks.register(hook), hooks.register(hook)
        await fs.write_text("f", "x")
        assert hook.steps == ["before", "before", "after", "after"]
        first()
        first()
        hook.seen.clear()
        await fs.write_text("f", "y")
        assert hook.steps == ["before", "after"]
        second()
        second()
        hook.seen.clear()
        await fs.write_text("f", "z")
        assert hook.steps == []
        assert not hooks.registered


@pytest.mark.spec("HOOK-1", "PATH-6", "AUDIT-1")
@pytest.mark.parametrize("name", VERBS)
async def test_a_hook_is_shown_every_verb_and_no_content(either, name, caplog):
    caplog.set_level(logging.DEBUG)
    hook = Hook()
    async with either(hooks=[hook]) as fs:
        await plant(unruled(fs), TREE)
        await VERBS[name].call(fs)
        assert hook.steps == ["before", "after"]
        assert hook.seen[0][1].operation == VERBS[name].operation
        assert hook.seen[1][1] == records(fs)[-1]
        assert SECRET not in repr(hook.seen) + caplog.text


@pytest.mark.spec("HOOK-1", "PATH-6")
async def test_a_hook_sees_the_canonical_path(opening):
    hook = Hook()
    async with opening(hooks=[hook]) as fs:
        await plant(unruled(fs), {"d/f": "x", "link": "-> d"})
        await fs.read_text("link/../link/f")
        assert hook.seen[0][1].path == hook.seen[1][1].path == "d/f"
