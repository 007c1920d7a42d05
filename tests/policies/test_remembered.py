"""What people answered before comes first, and means no more than what was asked."""

import pytest

from bailiwick.approvals import RememberedRule
from bailiwick.operations import OPERATIONS
from bailiwick.paths import ScopedPath
from bailiwick.policies.rule import Rule
from bailiwick.policies.rules import RulePolicy
from tests.policies.support import grant_for, said, word


def answer(effect="allow", **fields):
    given = {
        "id": "remembered-1", "subject": "agent_run:*", "root": "workspace:demo", "grant_id": None,
        "operation": "read", "access": ("read",), "paths": (".env",), "destination": None,
        "reason": "answered", "approval_id": "a", "by": "user:ann", "created_ns": 0,
    }  # fmt: skip
    return RememberedRule(effect=effect, **(given | fields))


class Answers:
    """The same tuple until it is changed, as state keeps it."""

    def __init__(self, *answers):
        self.now = answers

    def __call__(self):
        return self.now


@pytest.mark.spec("ASK-1")
def test_an_answer_comes_before_every_rule():
    deny = Rule(id="no", effect="deny", path=(".env",))
    policy = RulePolicy([deny], remembered=Answers(answer()))
    assert said(policy, grant_for(), "read", ".env").source == "remembered-1"
    assert policy.show()[0].origin == "remembered"


@pytest.mark.spec("ASK-1")
def test_an_answer_is_about_nothing_but_what_was_asked():
    policy = RulePolicy(remembered=Answers(answer(paths=("conf/.env", ".ssh"))))
    grant = grant_for()
    assert word(said(policy, grant, "read", "conf/.env")) == "allow"
    assert word(said(policy, grant, "read", ".env")) == "ask"
    assert word(said(policy, grant, "read", "conf/.env/x")) == "ask"
    assert word(said(policy, grant, "read", ".ssh/id_rsa")) == "ask"
    assert word(said(policy, grant, "copy", "conf/.env")) == "ask"
    assert word(said(policy, grant, "edit", "conf/.env")) == "ask"
    assert word(said(policy, grant_for("extension:x"), "read", "conf/.env")) == "ask"


@pytest.mark.spec("ASK-1")
def test_an_answer_for_a_grant_is_for_that_grant_and_comes_first():
    always, for_grant = answer(), answer("deny", id="remembered-2", grant_id="g1")
    policy = RulePolicy(remembered=Answers(always, for_grant))
    assert said(policy, grant_for(id="g1"), "read", ".env").source == "remembered-2"
    assert said(policy, grant_for(id="g2"), "read", ".env").source == "remembered-1"


@pytest.mark.spec("ASK-1")
def test_a_new_answer_is_heard_at_once_and_an_old_one_forgotten_at_once():
    answers = Answers()
    policy, grant = RulePolicy(remembered=answers), grant_for()
    read, place = OPERATIONS["read"].ruled, ScopedPath(".")
    assert word(said(policy, grant, "read", ".env")) == "ask"
    answers.now = (answer(),)
    assert word(said(policy, grant, "read", ".env")) == "allow"
    answers.now = (answer("deny"),)
    assert word(said(policy, grant, "read", ".env")) == "deny"
    answers.now = ()
    assert word(said(policy, grant, "read", ".env")) == "ask"
    person = grant_for("user:ann", id="g2")
    assert not policy.may_refuse_below(person, read, place)
    answers.now = (answer("deny", subject="user:*", paths=("a/b",)),)
    assert policy.may_refuse_below(person, read, place)
    assert policy.may_refuse_below(person, read, ScopedPath("a"))
    assert not policy.may_refuse_below(person, read, ScopedPath("a/b"))


@pytest.mark.spec("ASK-1", "POL-2")
def test_what_was_allowed_to_go_to_one_place_may_not_go_to_another():
    moved = answer(operation="move", access=("move", "read", "write"), destination="kept/env")
    policy, grant = RulePolicy(remembered=Answers(moved)), grant_for()
    assert word(said(policy, grant, "move", ".env", destination="kept/env")) == "allow"
    assert word(said(policy, grant, "move", ".env", destination="public/env")) == "ask"
    assert word(said(policy, grant, "move", ".env")) == "ask"


@pytest.mark.spec("ASK-1")
def test_what_is_never_to_go_to_one_place_is_refused_also_where_the_place_is_not_told():
    moved = answer(
        "deny", operation="move", access=("move", "read", "write"), destination="public/env"
    )
    policy, grant = RulePolicy(remembered=Answers(moved)), grant_for()
    assert word(said(policy, grant, "move", ".env", destination="public/env")) == "deny"
    assert word(said(policy, grant, "move", ".env")) == "deny"
    assert word(said(policy, grant, "move", ".env", destination="kept/env")) == "ask"
    assert word(said(policy, grant, "read", ".env")) == "ask"


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize("empty", [{"paths": ()}, {"access": ()}])
def test_an_answer_about_nothing_never_comes_to_mean_everything(empty):
    policy = RulePolicy(remembered=Answers(answer(**empty)))
    assert word(said(policy, grant_for(), "read", ".env")) == "ask"
    assert all(each.origin != "remembered" for each in policy.show())


@pytest.mark.spec("POL-1")
def test_an_answer_does_not_bring_a_hidden_path_to_light():
    hide = Rule(id="hidden", effect="hide", path=(".env",))
    policy = RulePolicy([hide], remembered=Answers(answer()))
    assert word(said(policy, grant_for(), "read", ".env")) == "hide"
