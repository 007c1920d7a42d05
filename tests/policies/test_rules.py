"""How rules are combined: first match for each access, the most restrictive over the accesses."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.errors import ParseError
from bailiwick.operations import OPERATIONS, Command
from bailiwick.paths import ScopedPath
from bailiwick.policies import rules as rules_module
from bailiwick.policies.kinds import KINDS
from bailiwick.policies.protective import PROTECTIVE
from bailiwick.policies.rule import ACCESSES, Rule
from bailiwick.policies.rules import RulePolicy
from bailiwick.policy import Glances, Policy
from bailiwick.search.glob import compile_filter
from tests.policies.support import context_of, grant_for, root_named, said, word


def rule(effect, id="r", **conditions):
    listed = ("subject", "root", "operation", "access", "path", "exempt", "exact_path")
    for key in listed:
        if isinstance(conditions.get(key), str):
            conditions[key] = tuple(conditions[key].split())
    return Rule(id=id, effect=effect, **conditions)


def policy_of(*rules, **settings):
    numbered = [msgspec.structs.replace(each, id=f"r{n}") for n, each in enumerate(rules)]
    return RulePolicy(numbered, **settings)


def test_it_is_a_policy_that_glances():
    policy: Policy = RulePolicy()
    assert isinstance(policy, Glances)
    assert policy.always is None


# --- each access by itself -------------------------------------------------------------------


@pytest.mark.spec("POL-2")
def test_what_may_be_read_but_not_written_cannot_be_edited():
    policy = policy_of(rule("allow", access="read"), rule("deny", access="write"))
    grant = grant_for()
    assert word(said(policy, grant, "read", "a")) == "allow"
    assert word(said(policy, grant, "edit", "a")) == "deny"
    assert word(said(policy, grant, "write", "a")) == "deny"


@pytest.mark.spec("POL-2")
def test_what_may_be_written_but_not_read_cannot_be_edited_or_moved_away():
    policy = policy_of(rule("deny", access="read", path="secret/**"), rule("allow"))
    grant = grant_for()
    assert word(said(policy, grant, "write", "secret/x")) == "allow"
    for operation in ("edit", "move", "copy", "search", "archive-create"):
        assert word(said(policy, grant, operation, "secret/x")) == "deny"


@pytest.mark.spec("POL-2")
@pytest.mark.parametrize("effects", [("hide", "deny"), ("deny", "ask"), ("ask", "allow")])
def test_the_most_restrictive_access_holds(effects):
    harder, softer = effects
    if harder == "hide":
        policy = policy_of(rule("hide", path="x"), rule(softer))
    else:
        policy = policy_of(rule(harder, access="write"), rule(softer, access="read"))
    assert word(said(policy, grant_for(), "edit", "x")) == harder


@pytest.mark.spec("POL-2")
def test_an_ask_that_defaults_to_no_outweighs_one_that_defaults_to_yes():
    policy = policy_of(
        rule("ask", access="read", default="allow", reason="one"),
        rule("ask", access="write", default="deny", reason="two"),
    )
    decision = said(policy, grant_for(), "edit", "x")
    assert (decision.default, decision.prompt, decision.source) == ("deny", "one; two", "r0, r1")


@pytest.mark.spec("POL-2")
@pytest.mark.parametrize("operation", ["write", "edit", "version"])
def test_a_rule_against_writing_is_against_every_way_to_write(operation):
    """The rule of the manual, `operation = ["write", "delete", "move"]`, must not let edits by."""
    review = rule("ask", subject="agent_run:*", operation="write delete move", path="migrations/**")
    assert word(said(policy_of(review), grant_for(), operation, "migrations/1.sql")) == "ask"
    for arriving in ("move", "copy", "copy-in", "archive-extract", "archive-create"):
        decision = said(policy_of(review), grant_for(), arriving, "migrations/1.sql", {"write"})
        assert word(decision) == "ask"


@pytest.mark.spec("POL-2")
def test_a_rule_that_allows_an_operation_allows_nothing_but_that():
    """To allow moving is not to allow reading: what was moved away could be read where it is."""
    policy = policy_of(rule("allow", operation="move", path="**"))
    decision = said(policy, grant_for(), "move", ".env")
    assert (word(decision), decision.source) == ("ask", "protect.env")
    assert said(policy, grant_for(), "move", "a", {"write"}).source == "r0"
    assert said(policy, grant_for(), "write", "a").source != "r0"
    allowed_in_full = policy_of(rule("allow", operation="move", access="move read", path="**"))
    assert word(said(allowed_in_full, grant_for(), "move", ".env")) == "allow"


@pytest.mark.spec("POL-2")
def test_a_rule_that_names_neither_operation_nor_access_is_about_all():
    policy = policy_of(rule("deny", path="x"))
    for name, operation in OPERATIONS.items():
        used = operation.ruled or operation.destination_access
        assert word(said(policy, grant_for(), name, "x", used)) == "deny"


@pytest.mark.spec("POL-1")
def test_an_operation_that_uses_nothing_is_not_allowed():
    assert word(said(policy_of(rule("allow")), grant_for(), "read", "x", ())) == "deny"


# --- order -----------------------------------------------------------------------------------


@pytest.mark.spec("POL-2")
def test_the_first_rule_that_matches_decides():
    allow_then_deny = policy_of(rule("allow", path="a/b"), rule("deny", path="a"))
    deny_then_allow = policy_of(rule("deny", path="a"), rule("allow", path="a/b"))
    assert word(said(allow_then_deny, grant_for(), "read", "a/b/c")) == "allow"
    assert word(said(allow_then_deny, grant_for(), "read", "a/c")) == "deny"
    assert word(said(deny_then_allow, grant_for(), "read", "a/b/c")) == "deny"


@pytest.mark.spec("POL-2")
def test_the_operator_comes_before_what_is_shipped_and_before_the_kind():
    policy = policy_of(rule("allow", access="read", path="ci/.env"))
    assert said(policy, grant_for(), "read", "ci/.env").source == "r0"
    assert said(policy, grant_for(), "read", "x/.env").source == "protect.env"
    assert said(policy, grant_for(), "read", "x").source == "kind.workspace.trusted"
    origins = [each.origin for each in policy.show()]
    assert origins == ["operator", *["protective"] * len(PROTECTIVE), *["kind"] * len(KINDS)]


@pytest.mark.spec("POL-2")
def test_a_path_covers_what_lies_beneath_and_a_name_is_found_at_any_depth():
    policy = policy_of(rule("deny", path="src/generated *.lock"))
    for path in ("src/generated", "src/generated/a/b", "x.lock", "a/b/c.lock", "d.lock/inside"):
        assert word(said(policy, grant_for(), "read", path)) == "deny"
    for path in ("src", "src/generated2", "other/src/generated", "lock", "."):
        assert word(said(policy, grant_for(), "read", path)) == "allow"


@pytest.mark.spec("POL-2")
def test_a_trailing_slash_does_not_weaken_a_refusal_and_narrows_a_permission():
    refusing = policy_of(rule("deny", path="build/"))
    for path in ("build", "build/x", "a/build"):
        assert word(said(refusing, grant_for(), "write", path)) == "deny"
    allowing = policy_of(rule("allow", path="build/"), rule("deny"))
    assert word(said(allowing, grant_for(), "write", "build/x")) == "allow"
    assert word(said(allowing, grant_for(), "write", "build")) == "deny"


@pytest.mark.spec("POL-2")
def test_exempt_names_are_taken_out_of_a_rule():
    refusing = policy_of(rule("deny", path="docs", exempt="docs/open"))
    assert word(said(refusing, grant_for(), "read", "docs/open")) == "allow"
    assert word(said(refusing, grant_for(), "read", "docs/open/x")) == "deny"
    allowing = policy_of(rule("allow", path="docs", exempt="docs/shut"), rule("deny"))
    assert word(said(allowing, grant_for(), "read", "docs/shut/x")) == "deny"
    assert word(said(allowing, grant_for(), "read", "docs/x")) == "allow"


@pytest.mark.spec("POL-2")
def test_exact_paths_are_no_patterns_and_cover_nothing_beneath():
    policy = policy_of(rule("deny", exact_path="a/b [x]*"))
    assert word(said(policy, grant_for(), "read", "a/b")) == "deny"
    assert word(said(policy, grant_for(), "read", "[x]*")) == "deny"
    for path in ("a/b/c", "a", "x", "xy", "z/a/b"):
        assert word(said(policy, grant_for(), "read", path)) == "allow"


# --- conditions ------------------------------------------------------------------------------


@pytest.mark.spec("POL-2", "AUTH-2")
def test_rules_match_subjects_roots_and_labels():
    blue = root_named("workspace:demo", labels={"team": "blue", "tier": "1"})
    policy = policy_of(
        rule("deny", subject="agent_run:c1/* extension:x"),
        rule("deny", root="workspace:de* artifact:*", labels={"team": "blue"}),
    )
    assert word(said(policy, grant_for("agent_run:c1/r"), "read", "a")) == "deny"
    assert word(said(policy, grant_for("agent_run:c10/r"), "read", "a")) == "allow"
    assert word(said(policy, grant_for("extension:xy"), "read", "a")) == "allow"
    assert word(said(policy, grant_for(root=blue), "read", "a")) == "deny"
    red = root_named("workspace:demo", labels={"team": "red"})
    assert word(said(policy, grant_for(root=red), "read", "a")) == "allow"
    both = policy_of(rule("deny", labels={"team": "blue", "tier": "2"}))
    assert word(said(both, grant_for(root=blue), "read", "a")) == "allow"


@pytest.mark.spec("POL-2")
def test_two_grants_with_one_id_do_not_share_what_was_decided():
    policy = RulePolicy()
    root = root_named("artifact:a")
    writer = grant_for(root=root, id="same")
    reader = grant_for(root=root, access=frozenset(("read",)), id="same")
    assert word(said(policy, writer, "write", "x")) == "allow"
    assert word(said(policy, reader, "write", "x")) == "deny"
    assert word(said(policy, writer, "write", "x")) == "allow"


@pytest.mark.spec("POL-2")
def test_what_was_asked_last_is_not_taken_for_what_is_asked_now():
    """Each of grant, operation and access changes alone, with everything else the same."""
    policy = policy_of(rule("deny", access="write"), rule("ask", operation="copy"))
    read, write, edit = (OPERATIONS[name] for name in ("read", "write", "edit"))
    grant, path = grant_for(), ScopedPath("a")
    assert word(policy.glance(grant, read, read.ruled, path)) == "allow"
    assert word(policy.glance(grant, read, write.ruled, path)) == "deny"
    assert word(policy.glance(grant, read, read.ruled, path)) == "allow"
    assert word(policy.glance(grant, OPERATIONS["copy"], read.ruled, path)) == "ask"
    assert word(policy.glance(grant, edit, read.ruled, path)) == "allow"
    stranger = grant_for("extension:x", root_named("temp:t"), id=grant.id)
    assert word(policy.glance(stranger, edit, read.ruled, path)) == "deny"


@pytest.mark.spec("POL-4")
@pytest.mark.parametrize(
    ("rules", "directory", "may"),
    [
        # A directory that a rule is about: nothing matches beneath, and all of it is covered.
        ([rule("deny", path="a/b")], "a/b", True),
        ([rule("deny", path="a/b")], "a/b/c", True),
        ([rule("deny", path="a/b")], "a/c", False),
        ([rule("deny", path="a/b/c")], "a", True),
        # What is allowed first is allowed, unless for one operation, or with exceptions.
        ([rule("allow", path="a/b"), rule("deny")], "a/b/c", False),
        ([rule("allow", path="a/b", access="read"), rule("deny")], "a/b", False),
        ([rule("allow", path="a/b", access="write"), rule("deny")], "a/b", True),
        ([rule("allow", path="a/b", operation="search"), rule("deny")], "a/b", True),
        ([rule("allow", path="a/b", exempt="a/b/c"), rule("deny")], "a/b", True),
        ([rule("allow", path="a/b", holds="explicit"), rule("deny")], "a/b", True),
        # What hides does so for every access, unless all of it is brought to light before.
        ([rule("hide", path="a/x")], "a", True),
        ([rule("hide", path="a/x")], "b", False),
        ([rule("allow", access="read"), rule("hide", path="a/x")], "a", True),
        ([rule("allow", path="a"), rule("hide", path="a/x")], "a", False),
        # A rule about an operation counts for any: which one asks is not told.
        ([rule("deny", operation="edit", path="a/b")], "a", True),
        ([rule("deny", operation="list", path="a/b")], "a", False),
        ([rule("ask", default="allow", path="a/b")], "a", True),
        ([rule("deny", exact_path="a/b")], "a", True),
        ([rule("deny", exact_path="a/b")], "a/b", False),
        ([rule("deny", exact_path="a/b")], "ab", False),
    ],
)
def test_whether_anything_beneath_may_be_refused(rules, directory, may):
    policy, read = policy_of(*rules), OPERATIONS["read"].ruled
    person = grant_for("user:ann")
    assert policy.may_refuse_below(person, read, ScopedPath(directory)) is may
    assert policy.may_refuse_below(person, read, ScopedPath(directory)) is may


@pytest.mark.spec("POL-4")
def test_a_rule_against_writing_does_not_slow_a_listing():
    policy = policy_of(rule("ask", operation="write delete move", path="migrations/**"))
    agent, top = grant_for(), ScopedPath(".")
    assert not policy.may_refuse_below(agent, OPERATIONS["list"].ruled, top)
    for name in ("write", "edit", "delete", "move", "copy"):
        assert policy.may_refuse_below(agent, OPERATIONS[name].ruled, top)


# --- hiding ----------------------------------------------------------------------------------


@pytest.mark.spec("POL-1")
def test_what_is_hidden_is_hidden_from_every_operation():
    policy = policy_of(rule("allow", access="read"), rule("allow", operation="write"),
                       rule("hide", path="private"))  # fmt: skip
    for name, operation in OPERATIONS.items():
        used = operation.ruled or operation.destination_access
        for path in ("private", "private/a/b"):
            assert word(said(policy, grant_for(), name, path, used)) == "hide"
        others = "ask" if name == "exec" else "allow"
        assert word(said(policy, grant_for(), name, "public", used)) == others


@pytest.mark.spec("POL-1")
def test_a_rule_about_everything_before_it_brings_a_hidden_path_to_light():
    policy = policy_of(rule("allow", path="private/shown"), rule("hide", path="private"))
    assert word(said(policy, grant_for(), "read", "private/shown/x")) == "allow"
    assert word(said(policy, grant_for(), "read", "private/x")) == "hide"


@pytest.mark.spec("POL-1")
def test_a_root_can_be_hidden_from_someone_as_a_whole():
    policy = policy_of(rule("hide", subject="extension:*"))
    assert word(said(policy, grant_for("extension:x"), "list", ".")) == "hide"
    assert word(said(policy, grant_for("extension:x"), "list", "a")) == "hide"
    assert word(said(policy, grant_for(), "list", "a")) == "allow"


@pytest.mark.spec("POL-1", "ERR-5")
@pytest.mark.parametrize("condition", [{"operation": "read"}, {"access": "read"}])
def test_hiding_from_some_operations_only_is_refused(condition):
    with pytest.raises(ParseError, match="a rule that hides cannot name"):
        policy_of(rule("hide", **condition))


# --- mistakes --------------------------------------------------------------------------------


@pytest.mark.spec("POL-2", "ERR-5")
@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"subject": "agent:*"}, "names no subject"),
        ({"subject": "agent*"}, "names no subject"),
        ({"subject": "agent_run:a*b"}, "names no subject"),
        ({"subject": "agent_run:*x*"}, "names no subject"),
        ({"subject": "agent_run:x"}, "agent run is written"),
        ({"root": "workspaces:*"}, "names no root"),
        ({"root": "workspace"}, "names no root"),
        ({"root": "workspace:"}, "names no root"),
        ({"operation": "rite"}, "is no operation"),
        ({"access": "reads"}, "is no access"),
        ({"path": "/etc/**"}, "absolute"),
        ({"path": "../x"}, "climbs out"),
        ({"path": "a["}, "without its counterpart"),
        ({"exempt": "a"}, "no path to take these out of"),
        ({"path": "a", "exact_path": "b"}, "either path or exact_path"),
        ({"exact_path": "a//b"}, "not how this path is written"),
        ({"exact_path": "../b"}, "outside"),
        ({"default": "allow"}, "only a rule that asks"),
        ({"operation": "list", "access": "write"}, "none of the operations"),
    ],
)
def test_a_rule_that_would_not_mean_what_it_says_is_refused(conditions, message):
    with pytest.raises(ParseError, match=message):
        policy_of(rule("deny", **conditions))


@pytest.mark.spec("POL-2")
def test_two_rules_of_one_id_are_refused():
    with pytest.raises(ParseError, match="two rules have the id 'same'"):
        RulePolicy([rule("deny", id="same"), rule("allow", id="same")])


# --- bounds ----------------------------------------------------------------------------------


def test_what_is_kept_is_bounded_and_forgetting_changes_nothing(monkeypatch):
    monkeypatch.setattr(rules_module, "_KEPT_MAX", 50)
    policy = policy_of(rule("deny", path="**/*7"))
    grant = grant_for()
    for number in range(500):
        wanted = "deny" if number % 10 == 7 else "allow"
        assert word(said(policy, grant, "read", f"d/{number}")) == wanted
        policy.may_refuse_below(grant, OPERATIONS["read"].ruled, ScopedPath(f"d{number}"))
        kept = policy._kept
        held = sum(len(each.decided) for each in kept.shortlists.values())
        assert held + sum(len(each.decided) for each in kept.beneath.values()) <= 51


@pytest.mark.slow
def test_patterns_too_many_for_one_expression_are_tried_one_by_one():
    names = [f"**/{'x' * 2_000}{number}*/**/{'y' * 2_000}*" for number in range(60)]
    with pytest.raises(ParseError):
        compile_filter(names)
    policy = policy_of(*(rule("deny", path=(name,)) for name in names))
    hit = f"a/{'x' * 2_000}7b/c/{'y' * 2_000}"
    assert word(said(policy, grant_for(), "read", hit)) == "deny"
    assert word(said(policy, grant_for(), "read", "a/b")) == "allow"


# --- against a reference that takes no shortcut ----------------------------------------------

segments = st.sampled_from(["a", "b", ".env", ".git", "x.md"])
paths = st.lists(segments, min_size=1, max_size=3).map("/".join) | st.just(".")
patterns = st.sampled_from(["a", "a/**", "*.md", "**/b", "a/*", "b/", "**", "{a,b}/x.md", ".env"])


def some(values, most=2):
    return st.lists(values, max_size=most, unique=True).map(tuple)


@st.composite
def operator_rules(draw):
    effect = draw(st.sampled_from(["allow", "deny", "ask", "hide"]))
    path = draw(some(patterns))
    exact = () if path else draw(some(paths))
    total = effect == "hide" or draw(st.booleans())
    return Rule(
        id="r",
        effect=effect,
        subject=draw(some(st.sampled_from(["agent_run:*", "user:*", "*", "extension:x"]), 1)),
        root=draw(some(st.sampled_from(["workspace:*", "secret:demo"]), 1)),
        operation=() if total else draw(some(st.sampled_from(sorted(OPERATIONS)))),
        access=() if total else draw(some(st.sampled_from(ACCESSES))),
        path=path,
        exempt=draw(some(patterns)) if path else (),
        exact_path=exact,
        holds=draw(st.sampled_from(["any", "any", "explicit", "write"])),
        default=draw(st.sampled_from(["allow", "deny"])) if effect == "ask" else "deny",
    )


@st.composite
def rule_lists(draw):
    made = draw(st.lists(operator_rules(), max_size=5))
    return [msgspec.structs.replace(each, id=f"r{number}") for number, each in enumerate(made)]


def name_matches(pattern, name):
    return pattern == name or (pattern.endswith("*") and name.startswith(pattern[:-1]))


def reference_covers(rule, path):
    if rule.exact_path:
        return path in rule.exact_path
    if not rule.path:
        return True
    sure = rule.effect == "allow"
    if not any(compile_filter([each]).covers(path, not sure) for each in rule.path):
        return False
    if sure:
        return not any(compile_filter([each]).covers(path, True) for each in rule.exempt)
    return not any(compile_filter([each]).matches(path, False) for each in rule.exempt)


def reference_means(rule, operation, access):
    if rule.access and access not in rule.access:
        return False
    if access == "execute" and rule.effect == "allow" and not rule.operation and not rule.access:
        return False  # to run programs is allowed by name
    if not rule.operation:
        return True
    if rule.effect == "allow":
        needed = OPERATIONS[operation].needed
        return operation in rule.operation and (bool(rule.access) or access in needed)
    return operation in rule.operation or access in rule.operation


def reference(rules, grant, operation, access, path):
    about = [
        each
        for each in rules
        if (not each.subject or any(name_matches(p, str(grant.subject)) for p in each.subject))
        and (not each.root or any(name_matches(p, str(grant.root)) for p in each.root))
        and (each.holds != "explicit" or grant.explicit)
        and (each.holds != "write" or "write" in grant.access)
        and each.holds not in ("owner", "own-id")
        and reference_covers(each, path)
    ]
    total = [each for each in about if not each.operation and not each.access]
    if total and total[0].effect == "hide":
        return "hide"
    words = []
    for one in access:
        matching = [e for e in about if e.effect != "hide" and reference_means(e, operation, one)]
        words.append(matching[0].effect if matching else "deny")
    return next(each for each in ("hide", "deny", "ask", "allow") if each in words)


grants = st.builds(
    grant_for,
    st.sampled_from(["agent_run:c/r", "user:ann", "extension:x"]),
    st.sampled_from([root_named("workspace:demo"), root_named("secret:demo")]),
    access=st.sampled_from([frozenset(ACCESSES), frozenset(("read", "list"))]),
    explicit=st.booleans(),
)


@pytest.mark.spec("POL-1", "POL-2")
@settings(max_examples=300)
@given(rule_lists(), grants, st.sampled_from(sorted(OPERATIONS)), st.lists(paths, min_size=1))
def test_the_policy_says_what_the_reference_says(operator, grant, operation, asked):
    try:
        policy = RulePolicy(operator)
    except ParseError:
        return
    used = OPERATIONS[operation].ruled or OPERATIONS[operation].destination_access
    for path in asked:
        wanted = reference(policy.show(), grant, operation, used, path)
        assert word(said(policy, grant, operation, path, used)) == wanted


@pytest.mark.spec("POL-4")
@settings(max_examples=300)
@given(rule_lists(), grants, st.sampled_from(sorted(OPERATIONS)), paths, st.lists(paths))
def test_where_nothing_can_be_refused_below_nothing_is(operator, grant, operation, top, below):
    try:
        policy = RulePolicy(operator)
    except ParseError:
        return
    used = OPERATIONS[operation].ruled or OPERATIONS[operation].destination_access
    if policy.may_refuse_below(grant, used, ScopedPath(top)):
        return
    for path in below:
        if path != ".":
            place = ScopedPath(path).beneath(ScopedPath(top))
            assert word(said(policy, grant, operation, place, used)) == "allow"


@pytest.mark.spec("POL-4", "EXEC-4")
@settings(max_examples=300)
@given(rule_lists(), grants, st.lists(paths), st.sampled_from([("read",), ("metadata",)]))
def test_what_is_said_of_many_paths_is_what_is_said_of_each(operator, grant, many, access):
    """Whichever command is run: rules about commands say nothing of what it may read."""
    try:
        policy = RulePolicy([*operator, rule("deny", id="command", command=("make",))])
    except ParseError:
        return
    many = [ScopedPath(each) for each in many if each != "."]
    exec, access = OPERATIONS["exec"], frozenset(access)
    ordinary, special = policy.sift(grant, exec, access, many)
    assert special <= set(many)
    for path in many:
        context = context_of(grant, exec, access, path, command=Command(argv=("make", "all")))
        assert path in special or policy.decide(context) == ordinary
