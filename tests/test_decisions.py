"""The stage that decides, by itself: one call, one policy, and what is said of a place."""

import pytest
from msgspec import structs

from bailiwick import decisions, operations
from bailiwick.build.options import read_options
from bailiwick.build.own import join
from bailiwick.build.stores import memory_store
from bailiwick.call import PastView, Target
from bailiwick.errors import Busy, Closed, IoError, MissingAccess, PathNotFound, PolicyDenied
from bailiwick.paths import ScopedPath
from bailiwick.policy import Allow, Ask, Deny, Hide, SiftedPaths
from tests.scope.support import Rules, ask, deny, granted, hide, plant, records, unruled

SEE = operations.LIST.ruled
PATHS = [ScopedPath(each) for each in ("a", "b", "d/c")]
ELDER = "agent_run:c/elder"


def scope(policy, **grant):
    options = read_options({})
    return granted(join(memory_store(options), options, "test", "/", policy=policy), **grant)


def listing(fs, **given):
    call = fs._call(operations.LIST, "list", Target(".", "object"))
    return structs.replace(call, **given)


def left_out(fs, call, paths=PATHS):
    return fs._pipeline.left_out(call, paths, SEE, False)


class Sifting(Rules):
    """`Rules` that say of most paths what they say of ``ordinary``, by who holds the grant."""

    def __init__(self, *rules, ordinary=(), fails=None):
        super().__init__(*rules)
        self.ordinary = dict(ordinary)
        self.fails = fails
        self.sifted = []

    def sift(self, grant, operation, access, paths):
        if self.fails is not None:
            raise self.fails
        self.sifted += paths
        said = self.ordinary.get(str(grant.subject), Allow("default"))
        named = {each for _, places, _ in self._rules for each in places}
        return SiftedPaths(said, {path for path in paths if path in named})

    @property
    def judged(self):
        return [context.path for context in self.seen]


@pytest.mark.spec("POL-4")
def test_of_many_paths_only_those_are_judged_that_a_rule_may_be_about():
    policy = Sifting(deny("b"))
    fs = scope(policy)
    assert left_out(fs, listing(fs)) == {"b"}
    assert policy.judged == ["b"]
    policy = Sifting((Allow("but"), ("b",), None))
    fs = scope(policy)
    policy.ordinary[str(fs.subject)] = Deny("most", "no")
    assert left_out(fs, listing(fs)) == {"a", "d/c"}
    assert policy.judged == ["b"]


@pytest.mark.spec("POL-4", "AUTH-5")
def test_whoever_passed_a_grant_on_sees_no_more_of_many_paths_either():
    policy = Sifting(deny("b"), ordinary={ELDER: Hide("of the elder")})
    fs = scope(policy, via=(ELDER,))
    assert left_out(fs, listing(fs)) == set(PATHS)


@pytest.mark.spec("POL-4", "AUTH-5")
def test_of_many_paths_those_are_left_out_that_the_grant_does_not_reach():
    policy = Sifting(deny("d/c"))
    fs = scope(policy, path=ScopedPath("d"))
    reached = ScopedPath("d/free")
    assert left_out(fs, listing(fs), [*PATHS, reached]) == set(PATHS)
    assert policy.sifted == ["d/c", "d/free"]


@pytest.mark.spec("POL-1", "POL-4")
@pytest.mark.parametrize("error", [Busy, Closed, IoError])
def test_many_paths_are_not_included_where_rules_cannot_be_read(error):
    fs = scope(Sifting(fails=error("the rules")))
    with pytest.raises(error):
        left_out(fs, listing(fs))


@pytest.mark.spec("POL-1", "POL-4")
def test_many_paths_are_judged_one_by_one_where_they_cannot_be_sifted():
    """A policy without that power, one that fails of it, and a call of which more is known."""
    there = Target("e", "entry")
    approved = (ScopedPath("d"),)
    for policy, given in (
        (Rules(deny("b")), {}),
        (Sifting(deny("b"), fails=LookupError()), {}),
        (Sifting(deny("b")), {"destination": there}),
        (Sifting(deny("b")), {"approved": approved}),
    ):
        fs = scope(policy)
        assert left_out(fs, listing(fs, **given)) == {"b"}
        assert [context.path for context in policy.seen] == PATHS
    fs = scope(Sifting(ask("d/c", "b")))
    assert left_out(fs, listing(fs, approved=approved)) == {"b"}, "a person let d be listed"


@pytest.mark.spec("ASK-1", "POL-4")
def test_a_person_who_lets_a_directory_be_searched_lets_through_what_was_asked_about():
    """Neither what is refused in it, nor what is asked about elsewhere or for a change."""
    policy = Rules(deny("d/denied"), hide("d/hidden"), ask("d", "e"))
    fs = scope(policy)
    approved = (ScopedPath("d"),)
    for operation, path, decided in (
        (operations.LIST, "d/f", Allow), (operations.LIST, "d/denied", Deny),
        (operations.LIST, "d/hidden", Hide), (operations.LIST, "e", Ask),
        (operations.DELETE, "d/f", Ask),
    ):  # fmt: skip
        call = listing(fs, operation=operation, approved=approved)
        assert type(call.decide(ScopedPath(path), SEE)) is decided


@pytest.mark.spec("AUTH-5")
def test_only_so_many_who_passed_grants_on_are_kept_at_hand(monkeypatch):
    monkeypatch.setattr(decisions, "_ELDERS_KEPT", 2)
    fs = scope(BySubjectAtAGlance(Allow("rule"), Deny("elder", "no")))
    for number in range(5):
        heir = granted(fs, id=f"g{number}", via=(ELDER,))
        assert isinstance(fs._pipeline.judge(listing(heir), ScopedPath("a"), SEE), Deny)
        assert len(fs._pipeline._elders_known) <= 2


class BySubject:
    """A policy that goes by who holds the grant, or passed it on."""

    always = None

    def __init__(self, others, elders):
        self.said = {ELDER: elders}
        self._others = others

    def decide(self, context):
        return self.said.get(str(context.subject), self._others)


class BySubjectAtAGlance(BySubject):
    """``told`` keeps where each path goes."""

    def __init__(self, others, elders):
        super().__init__(others, elders)
        self.told = set()

    def glance(self, grant, operation, access, path, destination=None):
        self.told.add((path, destination))
        return self.said.get(str(grant.subject), self._others)


@pytest.mark.spec("POL-2")
async def test_a_rule_is_told_where_a_path_goes():
    policy = BySubjectAtAGlance(Allow("rule"), None)
    fs, other = scope(policy), scope(None)
    await plant(unruled(fs), {"a": ""})
    await fs.move("a", "b")
    assert policy.told == {("a", "b"), ("b", "b")}
    policy.told.clear()
    await other.copy_from(fs, "b", "c")
    assert policy.told == {("b", f"{other.root}://c")}


@pytest.mark.spec("EXEC-1")
def test_a_command_is_judged_by_all_that_is_known_of_it():
    policy = BySubjectAtAGlance(Allow("rule"), None)
    fs = scope(policy)
    for operation, at_a_glance in ((operations.EXEC, set()), (operations.LIST, {("a", None)})):
        fs._pipeline.judge(listing(fs, operation=operation), ScopedPath("a"), SEE)
        assert policy.told == at_a_glance


REMEMBERED = Allow("remembered:1")


@pytest.mark.spec("ASK-1", "VOL-5")
@pytest.mark.parametrize("kind", [BySubject, BySubjectAtAGlance])
def test_an_answer_for_longer_is_about_what_is_now(kind):
    fs = scope(kind(REMEMBERED, None))
    path = ScopedPath("a")
    assert fs._pipeline.judge(listing(fs), path, SEE) == REMEMBERED
    for past in ({"past": PastView("1")}, {"past_there": PastView("1")}):
        assert isinstance(fs._pipeline.judge(listing(fs, **past), path, SEE), Ask)


@pytest.mark.spec("ASK-1", "AUTH-5")
@pytest.mark.parametrize("kind", [BySubject, BySubjectAtAGlance])
def test_an_answer_for_longer_was_given_to_who_holds_the_grant(kind):
    """A question about whoever passed it on is answered with it; what is refused to them is not."""
    asks, denies = Ask("elder", "may they?"), Deny("elder", "no")
    for said, elders, decided in (
        (REMEMBERED, asks, REMEMBERED), (REMEMBERED, denies, denies),
        (Allow("rule"), asks, asks), (denies, REMEMBERED, denies),
    ):  # fmt: skip
        fs = scope(kind(said, elders), via=(ELDER,))
        assert fs._pipeline.judge(listing(fs), ScopedPath("a"), SEE) == decided


class Sparing(Rules):
    """`Rules` that know beneath which directory they say nothing, by who holds the grant."""

    def may_refuse_below(self, grant, access, directory):
        return (str(grant.subject), directory) in self._rules


@pytest.mark.spec("POL-4", "AUTH-5")
def test_where_no_rule_can_match_nothing_is_visited():
    fs = scope(Sparing((ELDER, "kept")))
    passed_on = granted(fs, id="passed on", via=(ELDER,))
    for path, own, heir in (("kept", False, True), ("free", False, False)):
        assert listing(fs).must_decide_below(ScopedPath(path)) is own
        assert listing(passed_on).must_decide_below(ScopedPath(path)) is heir
    assert not listing(scope(None)).must_decide_below(ScopedPath("kept"))


@pytest.mark.spec("ASK-2")
async def test_a_policy_is_told_whether_somebody_can_be_asked():
    policy = Rules()
    fs = scope(policy)

    async def person(approval):
        return "no"

    for caller, somebody in ((fs, False), (fs.with_caller("test", asker=person), True)):
        await caller.list()
        assert {context.interactive for context in policy.seen} == {somebody}
        policy.seen.clear()


@pytest.mark.spec("AUDIT-1", "ASK-1")
async def test_the_strictest_rule_is_on_record_and_of_those_the_first():
    first, second = Ask("first", "may it?", "allow"), Ask("second", "may it?", "allow")
    fs = scope(Rules((first, ("a",), None), (second, ("b",), None)))
    await plant(unruled(fs), {"a": "", "d": None})
    await fs.move("a", "b")
    assert records(fs)[-1].policy_source == "first"
    await fs.move("b", "d/c")
    assert records(fs)[-1].policy_source == "second"
    await fs.move("d/c", "a")
    assert records(fs)[-1].policy_source == "first"
    await fs.stat("d")
    assert records(fs)[-1].policy_source == "default"


@pytest.mark.spec("AUTH-3")
def test_a_grant_need_not_hold_more_than_is_needed():
    fs = scope(None, access=frozenset({"read"}))
    fs._pipeline.check_access(fs.grant, frozenset({"read"}))
    with pytest.raises(MissingAccess, match=r"hold: list \("):
        fs._pipeline.check_access(fs.grant, frozenset({"list", "read"}))


@pytest.mark.spec("POL-1")
async def test_a_refusal_names_the_place_as_the_caller_may_know_it():
    """What was denied by its own name; what is hidden by the one that was given."""
    fs = scope(Rules(deny("denied"), hide("hidden")))
    tree = {"denied": "", "hidden": "", "to-denied": "-> denied", "to-hidden": "-> hidden"}
    await plant(unruled(fs), tree)
    for path, error, told in (
        ("to-denied", PolicyDenied, "denied"),
        ("to-hidden", PathNotFound, "to-hidden"),
        ("hidden", PathNotFound, "hidden"),
    ):
        with pytest.raises(error) as refused:
            await fs.read_text(path)
        assert refused.value.path == told


@pytest.mark.spec("POL-1")
def test_a_hash_is_told_to_who_may_read_with_nobody_to_be_asked():
    policy = Rules(deny("kept", access={"read"}), ask("asked"))
    for of, access, path, told in (
        (policy, {"read"}, "a", True), (policy, {"write"}, "a", False),
        (policy, {"read", "write"}, "kept", False), (policy, {"read"}, "asked", False),
        (None, {"read"}, "a", True), (None, {"write"}, "a", False),
    ):  # fmt: skip
        fs = scope(of, access=frozenset(access))
        assert fs._pipeline.reveals(listing(fs), ScopedPath(path)) is told
