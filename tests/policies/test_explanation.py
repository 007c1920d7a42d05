"""Which rule decided, where it stands, and what it says; and all rules as TOML."""

import msgspec
import pytest
from hypothesis import given, settings

from bailiwick.config import load
from bailiwick.errors import ParseError
from bailiwick.grant import parse_subject
from bailiwick.operations import OPERATIONS
from bailiwick.paths import ScopedPath
from bailiwick.policies.explanation import word_for
from bailiwick.policies.rule import Rule
from bailiwick.policies.rules import RulePolicy
from bailiwick.policies.toml_text import format_toml, quote
from tests.policies.support import root_named
from tests.policies.test_rules import rule_lists

AGENT = parse_subject("agent_run:c/r")


def explained(policy, operation, path):
    return policy.explain(AGENT, root_named(), OPERATIONS[operation], ScopedPath(path))


@pytest.mark.spec("POL-2")
def test_each_access_names_its_rule_and_those_behind_it():
    text = '[[rule]]\nid = "mine"\naccess = "read"\npath = ".env"\neffect = "deny"\nreason = "no"\n'
    policy = RulePolicy(load(text, source="bailiwick.toml").rules)
    explanation = explained(policy, "edit", ".env")
    read, write, replace = explanation.accesses
    assert (read.access, read.rule.id, read.rule.origin, read.rule.line) == (
        "read", "mine", "operator", 1,
    )  # fmt: skip
    assert [rule.id for rule in read.later][:2] == ["protect.env", "kind.workspace.trusted"]
    assert (write.access, write.rule.id, write.rule.origin) == (
        "write", "kind.workspace.trusted", "kind",
    )  # fmt: skip
    assert (replace.access, replace.rule.id) == ("replace", "protect.env")
    assert word_for(explanation.decision) == "deny"
    shown = str(explanation)
    assert "agent_run:c/r edit workspace:demo .env: deny" in shown
    assert "read: deny, by mine (a rule of the operator, line 1)" in shown
    assert 'reason = "no"' in shown
    assert "later, not reached: by protect.env (a shipped rule)" in shown


@pytest.mark.spec("POL-2")
def test_it_says_that_a_move_reads_and_that_nobody_may_be_there():
    explanation = explained(RulePolicy(), "move", ".env")
    assert [each.access for each in explanation.accesses] == ["read", "move"]
    assert "ask (nobody there: deny)" in str(explanation)
    assert [each.access for each in explained(RulePolicy(), "copy-in", "x").accesses] == ["write"]


@pytest.mark.spec("POL-1")
def test_it_says_what_hides_and_when_no_rule_matches():
    hide = Rule(id="h", effect="hide", path=("x",))
    shown = explained(RulePolicy([hide]), "read", "x")
    assert (word_for(shown.decision), shown.accesses[0].rule.id) == ("hide", "h")
    nobody = RulePolicy().explain(AGENT, root_named("new:x"), OPERATIONS["read"], ScopedPath("a"))
    assert nobody.accesses[0].rule is None
    assert "because no rule matches" in str(nobody)


@pytest.mark.spec("POL-2", "PATH-5")
def test_a_name_cannot_repaint_the_explanation():
    assert "\x1b" not in str(explained(RulePolicy(), "read", "a\x1b[2J"))


# --- as TOML ---------------------------------------------------------------------------------


def bare(rule):
    """What a rule means, without where it comes from."""
    return msgspec.structs.replace(rule, id="", origin="operator", line=None)


@pytest.mark.spec("POL-2", "AUTH-2")
def test_every_rule_in_force_can_be_shown_and_pasted_back():
    shown = RulePolicy([Rule(id="mine", effect="hide", labels={"a b": 'c"'})]).show()
    text = format_toml(shown)
    assert "# protect.env (protective)" in text
    again = load(text, source="pasted").rules
    assert list(map(bare, again)) == list(map(bare, shown))


@pytest.mark.spec("POL-2")
@settings(max_examples=200)
@given(rule_lists())
def test_an_operators_rules_survive_being_shown(rules):
    try:
        policy = RulePolicy(rules)
    except ParseError:
        return
    own = policy.show()[: len(rules)]
    again = load(format_toml(own), source="pasted").rules
    assert [msgspec.structs.replace(each, line=None) for each in again] == list(own)


@pytest.mark.parametrize(
    "text", ['"', "\\", "\n\t\r", "\x00", "\x1b", "\u202e", "\U000e0001", "é'"]
)
def test_any_text_can_be_quoted(text):
    import tomllib

    quoted = quote(text)
    assert quoted.isprintable()
    assert tomllib.loads(f"x = {quoted}") == {"x": text}
