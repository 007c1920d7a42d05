"""What is shipped to protect secrets and hooks, in every spelling and by every way around."""

import pytest

from bailiwick.errors import ParseError
from bailiwick.operations import OPERATIONS
from bailiwick.paths import ScopedPath, parse
from bailiwick.policies.protective import PROTECTIVE, PROTECTIVE_IDS, protective_rules
from bailiwick.policies.rule import faults_of
from bailiwick.policies.rules import RulePolicy
from tests.policies.support import grant_for, root_named, said, word

SECRETS = {
    "protect.env": [".env", "a/.env", "a/b/c/.env", ".env.local", "x/.env.production", ".env."],
    "protect.keys": [
        "server.pem", "tls/a.b.pem", "private.key", "x/.key", "id_rsa", "id_rsa.pub",
        "k/id_rsa_old", "id_ed25519", "x/id_ed25519-cert", ".ssh/config", "home/.ssh/known/deep",
        ".gnupg/x",
    ],
    "protect.credentials": [
        ".netrc", "a/.npmrc", ".pypirc", ".aws/config", "h/.aws/sso/cache/x",
        "credentials.json", "x/my-credentials-2.json", "application_default_credentials.json",
    ],
}  # fmt: skip
ORDINARY = [
    ".env.example", "a/.env.example", "env", "a.env", ".environment", "pem", "a.pem.txt", "key",
    "keyboard.txt", "my_id_rsa", "netrc", "ssh/config", "aws/x", "credentials.yaml", "src/main.py",
    "credentials.JSON.txt", ".",
]  # fmt: skip
STRANGERS = ["agent_run:c/r", "extension:x", "automation:t"]
READING = ["read", "search", "edit", "move", "copy", "archive-create"]


def readable(subject):
    """A grant under which nothing but the protective rules stands in the way of reading."""
    return grant_for(subject, id=subject)


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("subject", STRANGERS)
@pytest.mark.parametrize(("rule", "path"), [(r, p) for r, ps in SECRETS.items() for p in ps])
def test_reading_a_secret_asks_and_by_default_refuses(subject, rule, path):
    policy = RulePolicy()
    decision = said(policy, readable(subject), "read", path)
    assert (word(decision), decision.source, decision.default) == ("ask", rule, "deny")


@pytest.mark.spec("POL-2", "POL-3")
@pytest.mark.parametrize("operation", READING)
def test_whatever_reads_its_source_is_reading(operation):
    policy = RulePolicy()
    decision = said(policy, readable("agent_run:c/r"), operation, "conf/.env")
    assert (word(decision), decision.source) == ("ask", "protect.env")


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("spelling", ["./.env", "a/../.env", "a//../.env", "/.env", ".env/"])
def test_policy_sees_one_spelling_only(spelling):
    decision = said(RulePolicy(), readable("agent_run:c/r"), "read", parse(spelling).path)
    assert word(decision) == "ask"


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("subject", STRANGERS)
@pytest.mark.parametrize("path", ORDINARY)
def test_what_only_looks_like_a_secret_is_read(subject, path):
    assert word(said(RulePolicy(), readable(subject), "read", path)) == "allow"


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("subject", ["user:ann", "core:host"])
def test_a_person_and_the_host_are_not_asked(subject):
    policy = RulePolicy()
    for path in [*(p for paths in SECRETS.values() for p in paths), ".git/hooks/pre-commit"]:
        for operation in OPERATIONS:
            assert (
                word(said(policy, readable(subject), operation, path, {"read", "write"})) == "allow"
            )


@pytest.mark.spec("POL-3")
def test_what_lies_in_a_directory_called_like_the_example_is_still_a_secret():
    """Else a directory of that name would be a place to read anything from."""
    policy = RulePolicy()
    assert word(said(policy, readable("agent_run:c/r"), "read", ".env.example/.env")) == "ask"
    assert word(said(policy, readable("agent_run:c/r"), "read", ".env.example/x")) == "ask"


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("path", [".git", ".git/config", "sub/.git", "sub/.git/hooks/pre-commit"])
@pytest.mark.parametrize("access", ["write", "delete", "move"])
def test_changing_what_git_runs_asks(path, access):
    """The directory itself too: moved away it could be worked on, removed it could be replaced."""
    decision = said(RulePolicy(), grant_for(), "write", path, {access})
    assert (word(decision), decision.source) == ("ask", "protect.git")


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("operation", ["write", "edit", "delete", "move"])
def test_every_way_to_change_what_git_runs_asks(operation):
    path = ".git/hooks/pre-commit"
    assert said(RulePolicy(), grant_for(), operation, path).source == "protect.git"


@pytest.mark.spec("POL-3")
def test_what_arrives_in_git_by_a_move_or_copy_asks():
    for operation in ("move", "copy", "archive-extract"):
        there = OPERATIONS[operation].destination_access
        decision = said(RulePolicy(), grant_for(), operation, ".git/hooks/x", there)
        assert decision.source == "protect.git"


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("subject", STRANGERS)
@pytest.mark.parametrize("path", ["bailiwick.toml", "sub/bailiwick.toml", "bailiwick.toml/x"])
@pytest.mark.parametrize("access", ["write", "delete", "move"])
def test_the_configuration_is_changed_by_nobody_it_is_about(subject, path, access):
    """Nobody is asked either: who reads a diff of rules in a hurry gives away all of them."""
    decision = said(RulePolicy(), grant_for(subject), "write", path, {access})
    assert (word(decision), decision.source) == ("deny", "protect.config")
    assert word(said(RulePolicy(), grant_for("user:ann"), "write", path, {access})) == "allow"


@pytest.mark.spec("POL-3")
def test_the_configuration_is_read_and_names_like_it_are_written():
    policy = RulePolicy()
    assert word(said(policy, grant_for(), "read", "bailiwick.toml")) == "allow"
    for path in ("bailiwick.toml.md", "my-bailiwick.toml", "bailiwick/x.toml"):
        assert word(said(policy, grant_for(), "write", path)) == "allow"


@pytest.mark.spec("POL-3")
def test_git_is_read_and_names_like_it_are_written():
    policy = RulePolicy()
    assert word(said(policy, grant_for(), "read", ".git/config")) == "allow"
    for path in (".gitignore", ".github/workflows/x.yml", "a.git", "git/x"):
        assert word(said(policy, grant_for(), "write", path)) == "allow"


@pytest.mark.spec("POL-3")
def test_both_rules_are_named_where_two_ask():
    decision = said(RulePolicy(), grant_for(), "edit", ".git/.env")
    assert decision.source == "protect.env, protect.git"
    assert decision.default == "deny"
    assert "; " in decision.prompt


@pytest.mark.spec("POL-3")
@pytest.mark.parametrize("off", PROTECTIVE_IDS)
def test_one_line_switches_one_rule_off(off):
    policy = RulePolicy(off=[off])
    named = {rule.id for rule in policy.show()}
    assert off not in named
    assert named >= set(PROTECTIVE_IDS) - {off}
    for rule, paths in SECRETS.items():
        for path in paths:
            decision = said(policy, readable("agent_run:c/r"), "read", path)
            assert word(decision) == ("allow" if rule == off else "ask")


@pytest.mark.spec("POL-3", "ERR-5")
def test_an_unknown_rule_cannot_be_switched_off():
    with pytest.raises(ParseError, match=r"no shipped rule 'protect\.envs'") as caught:
        RulePolicy(off=["protect.envs"])
    assert caught.value.hint == "did you mean 'protect.env'?"
    with pytest.raises(ParseError):
        protective_rules(["kind.secret.read"])


@pytest.mark.spec("POL-3")
def test_what_is_protected_in_a_workspace_stays_refused_where_the_kind_refuses():
    """The operator's and the kind's word is not softened: a default behind an ask is not reached,
    and an ask never turns into a yes without a person."""
    decision = said(RulePolicy(), grant_for(root=root_named("secret:s")), "list", ".env")
    assert word(decision) == "deny"


def test_the_shipped_rules_are_sound():
    assert [fault for rule in PROTECTIVE for fault in faults_of(rule)] == []
    assert all(rule.id.startswith("protect.") for rule in PROTECTIVE)


@pytest.mark.spec("POL-4")
def test_a_walk_that_only_lists_needs_no_decision_for_each_entry():
    policy, grant = RulePolicy(), grant_for()
    for directory in (".", "src", ".git", ".ssh"):
        place = ScopedPath(directory)
        assert not policy.may_refuse_below(grant, OPERATIONS["list"].ruled, place)
        assert policy.may_refuse_below(grant, OPERATIONS["search"].ruled, place)
        assert policy.may_refuse_below(grant, OPERATIONS["delete"].ruled, place)
    person = grant_for("user:ann", id="g2")
    for operation in OPERATIONS.values():
        if operation.ruled:
            assert not policy.may_refuse_below(person, operation.ruled, ScopedPath("src"))
