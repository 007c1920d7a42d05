"""Rules made ready for asking: what each covers, twins and everything beneath included."""

import pytest

from bailiwick.errors import ParseError
from bailiwick.operations import OPERATIONS, Command
from bailiwick.paths import ScopedPath
from bailiwick.policies import compiled
from bailiwick.policies import rules as rules_module
from bailiwick.policies.compiled import CompiledRule, RulesBeneath
from bailiwick.policies.protective import PROTECTIVE_IDS
from bailiwick.policies.rule import Rule, check_rule, faults_of, may_mean
from bailiwick.policies.rules import RulePolicy
from tests.policies.support import grant_for, said, word

READ = OPERATIONS["read"].ruled


def rule(effect="deny", id="r", **conditions):
    return Rule(id=id, effect=effect, **conditions)


# --- twins -----------------------------------------------------------------------------------


@pytest.mark.spec("PATH-4", "POL-1")
@pytest.mark.parametrize(
    ("conditions", "path", "covered"),
    [
        ({}, "anything", True),
        ({"exact_path": ("Secret/a",)}, "SECRET/A", True),
        ({"exact_path": ("Secret/a",)}, "secret/b", False),
        ({"path": ("secret",)}, "SECRET", True),
        ({"path": ("secret",)}, "deep/Secret/beneath", True),
        ({"path": ("secret",)}, "secrets", False),
        ({"path": ("*.env",), "exempt": ("Example.env",)}, "EXAMPLE.ENV", False),
        ({"path": ("*.env",), "exempt": ("Example.env",)}, "MINE.ENV", True),
        # Nobody knows yet whether what is to be made will be a directory.
        ({"path": ("d*",), "exempt": ("dx/",)}, "DX", True),
    ],
)
def test_a_rule_covers_what_differs_by_case_alone(conditions, path, covered):
    assert CompiledRule(rule("hide", **conditions)).covers_twin(ScopedPath(path)) is covered


@pytest.mark.spec("PATH-4", "POL-1")
def test_who_hides_a_twin_is_named():
    hidden = rule("hide", "mine", path=("secret",))
    policy, grant = RulePolicy([hidden]), grant_for()
    assert policy.hides_twin(grant, ScopedPath("SECRET")) == "mine"
    assert policy.hides_twin(grant, ScopedPath("public")) is None
    shown = RulePolicy([rule("allow", "shown", path=("secret",)), hidden])
    assert shown.hides_twin(grant, ScopedPath("SECRET")) is None


# --- beneath ---------------------------------------------------------------------------------


def compiled_rules(*rules):
    return tuple(map(CompiledRule, rules))


@pytest.mark.spec("POL-1")
def test_where_no_rule_is_about_an_access_something_may_be_refused():
    top = ScopedPath(".")
    assert RulesBeneath((), READ, None).may_refuse(top) is True
    assert RulesBeneath((), frozenset(), None).may_refuse(top) is False


@pytest.mark.spec("POL-2")
def test_what_is_allowed_first_is_not_hidden_by_what_comes_later():
    allowed, hidden = rule("allow", path=("d/",)), rule("hide", path=("secret",))
    beneath = RulesBeneath(compiled_rules(allowed, hidden), READ, None)
    assert beneath.may_refuse(ScopedPath("d")) is False
    assert beneath.may_refuse(ScopedPath("e")) is True


@pytest.mark.spec("POL-2")
def test_what_is_in_doubt_is_spared_by_no_rule():
    """Whether a new name will be a directory is not known: it is neither allowed for being one nor
    taken out of what is refused."""
    patterns = {"path": ("d*",), "exempt": ("dx/",)}
    assert CompiledRule(rule("deny", **patterns)).covers(ScopedPath("dx")) is True
    assert CompiledRule(rule("allow", **patterns)).covers(ScopedPath("dx")) is False
    assert CompiledRule(rule("allow", **patterns)).covers(ScopedPath("dy")) is True


@pytest.mark.spec("POL-2")
@pytest.mark.parametrize(
    ("about", "access", "meant"),
    [
        (rule(access=("replace",)), "write", True),
        (rule(access=("replace",)), "read", False),
        (rule(access=("delete",)), "write", False),
        (rule("allow", access=("replace",)), "write", False),
        (rule("allow", access=("write",)), "write", True),
        (rule(operation=("write",)), "write", True),
        (rule(operation=("read",)), "write", False),
        (rule("allow", operation=("move",)), "move", True),
        (rule("allow", operation=("move",)), "read", False),
        (rule("allow"), "execute", False),
        (rule("allow", access=("execute",)), "execute", True),
        (rule("deny"), "execute", True),
    ],
)
def test_whether_a_rule_is_about_any_use_of_an_access(about, access, meant):
    assert may_mean(about, access) is meant


# --- many patterns ---------------------------------------------------------------------------


@pytest.mark.spec("POL-2")
def test_where_patterns_cannot_be_joined_each_rule_is_tried(monkeypatch):
    real = compiled.compile_filter

    def small(patterns):
        if len(patterns := tuple(patterns)) > 1:
            raise ParseError("the pattern is too large")
        return real(patterns)

    monkeypatch.setattr(compiled, "compile_filter", small)
    policy = RulePolicy(
        [rule(id="one", path=("a",)), rule(id="two", path=("b",))], off=PROTECTIVE_IDS
    )
    grant = grant_for()
    assert said(policy, grant, "read", "x/a").source == "one"
    assert said(policy, grant, "read", "x/b").source == "two"
    assert word(said(policy, grant, "read", "x/c")) == "allow"
    paths = [ScopedPath(name) for name in ("a", "b", "c")]
    assert policy.sift(grant, OPERATIONS["read"], READ, paths).special == set(paths)


@pytest.mark.spec("POL-2")
def test_what_was_decided_is_forgotten_when_it_is_too_much(monkeypatch):
    monkeypatch.setattr(rules_module, "_KEPT_MAX", 50)
    policy, grant = RulePolicy(), grant_for()
    for number in range(200):
        policy.glance(grant, OPERATIONS["read"], READ, ScopedPath(f"f{number}"))
        assert policy._kept.count <= 50
    for number in range(200):
        policy.may_refuse_below(grant, READ, ScopedPath(f"d{number}"))
        assert policy._kept.count <= 50


# --- mistakes --------------------------------------------------------------------------------


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    ("field", "text"),
    [("path", "["), ("exempt", "["), ("path", ""), ("exact_path", "../x"), ("exact_path", "a//b")],
)
def test_a_mistake_is_found_in_its_field(field, text):
    conditions = {"path": ("x",)} if field == "exempt" else {}
    (fault,) = faults_of(rule(**conditions, **{field: (text,)}))
    assert (fault.field, fault.at) == (field, 0)


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (rule("hide", destination="x"), "destination"),
        (rule(command=("git *",), operation=("read",)), "command"),
        (rule(command=("git *",), access=("write",)), "command"),
        (rule(exact_command="ls", access=("write",)), "exact_command"),
    ],
)
def test_conditions_that_do_not_go_together(wrong, field):
    assert field in [fault.field for fault in faults_of(wrong)]
    right = rule(destination="x") if field == "destination" else rule(command=("git *",))
    assert list(faults_of(right)) == []


@pytest.mark.spec("ERR-5")
def test_only_what_runs_commands_is_explained_for_one():
    grant, command = grant_for(), Command(argv=("ls",))
    with pytest.raises(ParseError, match="exec"):
        RulePolicy().explain(
            grant.subject, grant.root, OPERATIONS["read"], ScopedPath("x"), command=command
        )


@pytest.mark.spec("ERR-5")
@pytest.mark.parametrize(
    ("subject", "hint"),
    [("agent_rum", "then a colon and an id or *"), ("agent_rum:x", "agent_run"), ("*", None)],
)
def test_a_subject_that_is_none_comes_with_the_nearest(subject, hint):
    if hint is None:
        assert check_rule(rule(subject=(subject,))) is None
        return
    with pytest.raises(ParseError) as refused:
        check_rule(rule(subject=(subject,)))
    assert hint in refused.value.hint
    assert ("colon" in refused.value.hint) is (":" not in subject)
