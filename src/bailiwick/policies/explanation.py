"""Why the rules say what they say: for each access the rule that decides, and those behind it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from bailiwick.errors import escape_for_display
from bailiwick.model import Value
from bailiwick.operations import REPLACE, Access
from bailiwick.paths import ScopedPath
from bailiwick.policies.compiled import (
    NO_RULE,
    CompiledRule,
    concerning,
    first_that_covers,
    hiding_rules,
    most_restrictive,
)
from bailiwick.policies.rule import ACCESSES, Holder, Rule, means
from bailiwick.policies.toml_text import format_rule
from bailiwick.policy import Allow, Ask, Decision, Hide


class AccessExplanation(Value, frozen=True, kw_only=True):
    """What is said of one access. ``replace`` is said besides ``write`` where another rule decides
    about what stands there already: the decision is about a new one then. ``rule`` is None where no
    rule matched; ``later`` are the rules that match too and would have decided if those before them
    were not there."""

    access: Access
    decision: Decision
    rule: Rule | None
    later: tuple[Rule, ...]


class Explanation(Value, frozen=True, kw_only=True):
    """What is said of one operation at one path, and by whom."""

    subject: str
    root: str
    operation: str
    path: ScopedPath
    decision: Decision
    accesses: tuple[AccessExplanation, ...]
    command: str | None = None

    def __str__(self) -> str:
        asked = f"{self.subject} {self.operation} {self.root} {escape_for_display(self.path)}"
        if self.command is not None:
            asked += f" {escape_for_display(self.command)}"
        lines = [f"{asked}: {word_for(self.decision)}"]
        for each in self.accesses:
            lines.append(f"  {each.access}: {word_for(each.decision)}, {_by(each.rule)}")
            if each.rule is not None:
                lines.extend(f"    {line}" for line in format_rule(each.rule).splitlines())
            lines.extend(f"    later, not reached: {_by(rule)}" for rule in each.later)
        return "\n".join(lines)


def word_for(decision: Decision) -> str:
    """A decision in a word."""
    if isinstance(decision, Allow):
        return "allow"
    if isinstance(decision, Hide):
        return "hide"
    if isinstance(decision, Ask):
        return f"ask (nobody there: {decision.default})"
    return "deny"


_WHERE = {
    "remembered": "an answer that is remembered",
    "operator": "a rule of the operator",
    "protective": "a shipped rule",
    "kind": "a default of the root's kind",
}


def _by(rule: Rule | None) -> str:
    if rule is None:
        return "because no rule matches"
    line = "" if rule.line is None else f", line {rule.line}"
    return f"by {rule.id} ({_WHERE[rule.origin]}{line})"


def explain(
    rules: Sequence[CompiledRule],
    holder: Holder,
    operation: str,
    access: frozenset[Access],
    path: ScopedPath,
) -> Explanation:
    """Go through all rules without any shortcut."""
    concerned = concerning(rules, holder)
    hidden = first_that_covers(hiding_rules(concerned), path)
    if hidden is not None and hidden.rule.effect != "hide":
        hidden = None

    def said_of(each: Access, *, replaces: bool) -> AccessExplanation:
        matching = [
            candidate
            for candidate in concerned
            if means(candidate.rule, operation, each, replaces=replaces) and candidate.covers(path)
        ]
        first = hidden or next((one for one in matching if one.rule.effect != "hide"), None)
        return AccessExplanation(
            access=each,
            decision=NO_RULE if first is None else first.decision,
            rule=None if first is None else first.rule,
            later=tuple(one.rule for one in matching if one is not first),
        )

    over = REPLACE in access
    accesses = [said_of(each, replaces=over) for each in ACCESSES if each in access]
    decision = most_restrictive([each.decision for each in accesses])
    if "write" in access and not over:
        replacing = said_of("write", replaces=True)
        if replacing.rule not in [each.rule for each in accesses if each.access == "write"]:
            accesses.append(structs.replace(replacing, access=REPLACE))
    return Explanation(
        subject=holder.subject,
        root=str(holder.root),
        operation=operation,
        path=path,
        decision=decision,
        accesses=tuple(accesses),
        command=None if holder.command is None else holder.command.text,
    )
