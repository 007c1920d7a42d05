"""The table of kinds, transcribed a second time, cell by cell, against what the rules say."""

import itertools

import pytest

from bailiwick.grant import ROOT_KINDS
from bailiwick.operations import ALL_ACCESS
from bailiwick.policies.kinds import KINDS
from bailiwick.policies.rule import faults_of
from bailiwick.policies.rules import RulePolicy
from tests.policies.support import grant_for, root_named, said, word

pytestmark = pytest.mark.slow

COLUMNS = ("read", "list", "metadata", "watch", "write", "delete", "move", "archive")
SUBJECTS = {
    "user": "user:ann",
    "core": "core:host",
    "agent_run": "agent_run:c/r",
    "extension": "extension:own",
    "automation": "automation:t",
}
NOBODY = "- - - - - - - -"
ALL = "A A A A A A A A"
LOOK = "A A A A - - - -"

# kind, who (by kind of subject and what holds of the grant), and the row of the table.
# `own`: the root has the id of the extension; `made`: the subject made the root.
TABLE = [
    ("workspace", "user core agent_run", {}, ALL),
    ("workspace", "extension automation", {}, LOOK),
    ("extension-storage", "extension", {"own": True}, ALL),
    ("extension-storage", "core", {}, LOOK),
    ("extension-storage", "extension", {"own": False}, NOBODY),
    ("extension-storage", "user agent_run automation", {}, NOBODY),
    ("artifact", "core", {}, ALL),
    ("artifact", "user agent_run extension automation", {"write": True}, ALL),
    ("artifact", "user agent_run extension automation", {"write": False}, LOOK),
    ("temp", "user core agent_run extension automation", {"made": True}, ALL),
    ("temp", "user core agent_run extension automation", {"made": False}, NOBODY),
    ("knowledge", "user core agent_run extension automation", {"explicit": True}, ALL),
    ("knowledge", "user core agent_run extension automation", {"explicit": False}, NOBODY),
    ("downloads", "user core agent_run", {}, "A A A A A A - -"),
    ("downloads", "extension automation", {}, "A A A A A - - -"),
    ("secret", "user core", {"explicit": True}, "? - A - A A - -"),
    ("secret", "agent_run extension automation", {"explicit": True}, "? - - - - - - -"),
    ("secret", "user core agent_run extension automation", {"explicit": False}, NOBODY),
]
CELL = {"A": "allow", "-": "deny", "?": "ask"}


def cells():
    """Every kind of root and subject with every condition: what the table says of each access."""
    conditions = ("own", "made", "write", "explicit")
    for kind, subject in itertools.product(ROOT_KINDS, SUBJECTS):
        for values in itertools.product((False, True), repeat=4):
            facts = dict(zip(conditions, values, strict=True))
            rows = [
                row
                for of_kind, who, wanted, row in TABLE
                if of_kind == kind
                and subject in who.split()
                and all(facts[name] == value for name, value in wanted.items())
            ]
            yield kind, subject, facts, rows


@pytest.mark.spec("AUTH-2")
def test_the_transcribed_table_has_exactly_one_row_for_everyone():
    assert all(len(rows) == 1 for *_, rows in cells())


@pytest.mark.spec("AUTH-2", "AUTH-3")
def test_every_cell_of_the_table_is_what_the_rules_say():
    policy = RulePolicy()
    different = []
    for number, (kind, subject, facts, rows) in enumerate(cells()):
        name = SUBJECTS[subject]
        root = root_named(
            f"{kind}:{'own' if facts['own'] else 'other'}",
            owner=name if facts["made"] else "user:someone-else",
        )
        held = ALL_ACCESS if facts["write"] else ALL_ACCESS - {"write"}
        grant = grant_for(name, root, access=held, explicit=facts["explicit"], id=f"g{number}")
        for access, cell in zip(COLUMNS, rows[0].split(), strict=True):
            operation = "archive-create" if access == "archive" else access
            decision = said(policy, grant, operation, "notes/a.txt", {access})
            if word(decision) != CELL[cell]:
                different.append((kind, subject, facts, access, decision))
            if cell == "?":
                assert decision.default == "deny"
    assert different == []


@pytest.mark.spec("AUTH-2")
def test_the_root_itself_is_under_the_same_defaults():
    policy = RulePolicy()
    assert word(said(policy, grant_for(), "list", ".")) == "allow"
    stranger = grant_for("extension:x", root_named("secret:s"))
    assert word(said(policy, stranger, "list", ".")) == "deny"


@pytest.mark.spec("AUTH-2")
def test_a_temporary_root_without_an_owner_is_nobodys():
    policy = RulePolicy()
    grant = grant_for("core:host", root_named("temp:t"), explicit=True)
    assert word(said(policy, grant, "read", "a")) == "deny"


def test_the_rules_of_kinds_are_sound_and_each_has_its_own_id():
    assert [fault for rule in KINDS for fault in faults_of(rule)] == []
    assert len({rule.id for rule in KINDS}) == len(KINDS)
    refusals = [rule for rule in KINDS if rule.effect == "deny"]
    assert {rule.root for rule in refusals} == {(f"{kind}:*",) for kind in ROOT_KINDS}
    assert all(rule.reason for rule in refusals)


def test_a_kind_that_no_rule_knows_is_refused():
    """Nothing is allowed by omission: a root of a kind that a later version adds is closed."""
    policy = RulePolicy()
    grant = grant_for("core:host", root_named("brand-new:x"), explicit=True)
    decision = said(policy, grant, "read", "a")
    assert word(decision) == "deny"
    assert decision.source == "default"
