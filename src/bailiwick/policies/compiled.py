"""Rules made ready for asking: which paths each covers, and for one holder which can apply at all.

Most paths that are asked about are special to no rule. A `Shortlist` knows what is said of those,
and one expression over all patterns tells whether a path is one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bailiwick.errors import ParseError
from bailiwick.operations import REPLACE, Access
from bailiwick.paths import ScopedPath, folded
from bailiwick.policies.rule import ACCESSES, Holder, Rule, concerns, may_mean, means
from bailiwick.policy import Allow, Ask, Decision, Deny, Hide, SiftedPaths
from bailiwick.search.glob import Filter, compile_filter

NO_RULE: Decision = Deny("default", "no rule allows this")


class CompiledRule:
    """A rule, its decision, and its patterns as expressions."""

    __slots__ = ("_exact", "_exempt", "_paths", "allows", "decision", "rule")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.allows = rule.effect == "allow"
        self.decision = _decision_of(rule)
        self._exact = frozenset(rule.exact_path)
        self._paths = compile_filter(rule.path) if rule.path else None
        self._exempt = compile_filter(rule.exempt) if rule.exempt else None

    def covers(self, path: ScopedPath) -> bool:
        """Whether the rule is about ``path``. What is in doubt (is it a directory?) is taken for
        covered by a rule that refuses, and not by one that allows."""
        if self._paths is None:
            return not self._exact or path in self._exact
        if not self._paths.covers(path, not self.allows):
            return False
        if self._exempt is None:
            return True
        if self.allows:
            return not self._exempt.covers(path, True)
        return not self._exempt.matches(path, False)

    def covers_twin(self, path: ScopedPath) -> bool:
        """Whether the rule is about a path that is the same but for case and accents."""
        name = folded(path)
        if self._paths is None:
            return not self._exact or name in map(folded, self._exact)
        if not compile_filter(map(folded, self.rule.path)).covers(name, True):
            return False
        exempt = self.rule.exempt
        return not exempt or not compile_filter(map(folded, exempt)).matches(name, False)

    def covers_all_below(self, directory: ScopedPath) -> bool:
        """Whether the rule is surely about everything beneath ``directory``."""
        if self._paths is None:
            return not self._exact
        return self._exempt is None and self._paths.covers(directory, True)

    def may_cover_below(self, directory: ScopedPath) -> bool:
        """Whether the rule may be about something beneath ``directory``."""
        if self._paths is None:
            return not self._exact or any(
                path != directory and ScopedPath(path).lies_in(directory) for path in self._exact
            )
        return self._paths.covers(directory, True) or self._paths.may_match_below(directory)


def _decision_of(rule: Rule) -> Decision:
    if rule.effect == "allow":
        return Allow(rule.id)
    if rule.effect == "hide":
        return Hide(rule.id)
    if rule.effect == "ask":
        return Ask(rule.id, rule.reason or f"the rule {rule.id} asks", rule.default)
    return Deny(rule.id, rule.reason or f"the rule {rule.id} says no")


def _until_decided(rules: Iterator[CompiledRule]) -> tuple[CompiledRule, ...]:
    """Rules up to the first that is about every path: none behind it is ever reached."""
    reached: list[CompiledRule] = []
    for each in rules:
        reached.append(each)
        if each.rule.everywhere:
            break
    return tuple(reached)


def hiding_rules(rules: Sequence[CompiledRule]) -> tuple[CompiledRule, ...]:
    """The rules that say whether a path exists: those that hide, and those about everything.

    A rule about some operations only cannot bring back to light what is hidden: else a path could
    be read that is in no listing.
    """
    return _until_decided(each for each in rules if each.rule.for_everything)


def rules_for(
    rules: Sequence[CompiledRule], operation: str, access: Access, *, replaces: bool
) -> tuple[CompiledRule, ...]:
    """The rules that say whether an operation may use an access."""
    return _until_decided(
        each
        for each in rules
        if each.rule.effect != "hide" and means(each.rule, operation, access, replaces=replaces)
    )


def first_that_covers(rules: Sequence[CompiledRule], path: ScopedPath) -> CompiledRule | None:
    for each in rules:
        if each.covers(path):
            return each
    return None


def concerning(rules: Sequence[CompiledRule], holder: Holder) -> tuple[CompiledRule, ...]:
    return tuple(each for each in rules if concerns(each.rule, holder))


class Shortlist:
    """For one holder, operation and set of accesses: the rules that can apply, in their order.

    ``decided`` keeps what was said of paths before; who asks looks there first.
    """

    __slots__ = ("_exact", "_hiding", "_lists", "_ordinary", "_special", "decided", "held_by")

    def __init__(
        self,
        rules: Sequence[CompiledRule],
        operation: str,
        access: frozenset[Access],
        held_by: object,
    ) -> None:
        self.held_by = held_by
        self.decided: dict[ScopedPath, Decision] = {}
        self._hiding = hiding_rules(rules)
        self._lists = tuple(
            rules_for(rules, operation, each, replaces=REPLACE in access)
            for each in ACCESSES
            if each in access
        )
        self._ordinary = self._judge_ordinary()
        patterns: dict[str, None] = {}
        exact: set[str] = set()
        for each in (each for listed in (self._hiding, *self._lists) for each in listed):
            patterns.update(dict.fromkeys(each.rule.path))
            exact.update(each.rule.exact_path)
        self._exact = frozenset(exact)
        self._special = _joined(tuple(patterns)) if patterns else None

    def decide(self, path: ScopedPath) -> Decision:
        """What the rules say of a path."""
        special = self._special
        if path not in self._exact and (special is None or not special.covers(path, True)):
            return self._ordinary
        return self._judge(path)

    def sift(self, paths: Sequence[ScopedPath]) -> SiftedPaths:
        """See `bailiwick.policy.Sifts`."""
        special = set[str]() if self._special is None else self._special.covered(paths)
        special |= self._exact.intersection(paths)
        return SiftedPaths(self._ordinary, frozenset(map(ScopedPath, special)))

    def _judge(self, path: ScopedPath) -> Decision:
        first = first_that_covers(self._hiding, path)
        if first is not None and first.rule.effect == "hide":
            return first.decision
        decisions = []
        for listed in self._lists:
            first = first_that_covers(listed, path)
            decisions.append(NO_RULE if first is None else first.decision)
        return most_restrictive(decisions)

    def _judge_ordinary(self) -> Decision:
        """What is said of a path that no pattern matches: the last rule of each list says it."""
        if self._hiding and self._hiding[-1].rule.everywhere:
            last = self._hiding[-1]
            if last.rule.effect == "hide":
                return last.decision
        return most_restrictive(
            [
                listed[-1].decision if listed and listed[-1].rule.everywhere else NO_RULE
                for listed in self._lists
            ]
        )


class _Everything:
    """Stands for patterns that are too many for one expression: each rule has to be tried."""

    def covers(self, relative: str, is_directory: bool) -> bool:
        return True

    def covered(self, paths: Sequence[str]) -> set[str]:
        return set(paths)


def _joined(patterns: tuple[str, ...]) -> Filter | _Everything:
    try:
        return compile_filter(patterns)
    except ParseError:
        return _Everything()


def most_restrictive(decisions: Sequence[Decision]) -> Decision:
    """What holds where each access of an operation has its own decision.

    Where several rules ask, one question names them all. Of an operation that uses nothing there
    is nothing that could be allowed.
    """
    if not decisions:
        return NO_RULE
    worst = max(decisions, key=_severity)
    if not isinstance(worst, Ask):
        return worst
    asks = [each for each in dict.fromkeys(decisions) if isinstance(each, Ask)]
    if len(asks) == 1:
        return worst
    return Ask(
        ", ".join(each.source for each in asks),
        "; ".join(dict.fromkeys(each.prompt for each in asks)),
        worst.default,
    )


def _severity(decision: Decision) -> int:
    if isinstance(decision, Hide):
        return 4
    if isinstance(decision, Deny):
        return 3
    if isinstance(decision, Ask):
        return 2 if decision.default == "deny" else 1
    return 0


class RulesBeneath:
    """For one holder and set of accesses: whether anything beneath a directory may be refused.

    Which operation asks is not known here, so a rule that refuses some operation counts, and one
    that allows some operation does not.
    """

    __slots__ = ("_hiding", "_lists", "decided", "held_by")

    def __init__(
        self, rules: Sequence[CompiledRule], access: frozenset[Access], held_by: object
    ) -> None:
        self.held_by = held_by
        self.decided: dict[ScopedPath, bool] = {}
        self._hiding = hiding_rules(rules)
        self._lists = tuple(
            tuple(each for each in rules if _counts_beneath(each.rule, name))
            for name in ACCESSES
            if name in access
        )

    def may_refuse(self, directory: ScopedPath) -> bool:
        return _may_hide(self._hiding, directory) or any(
            _may_refuse(listed, directory) for listed in self._lists
        )


def _counts_beneath(rule: Rule, access: Access) -> bool:
    if rule.effect == "hide":
        return False
    if rule.effect == "allow" and rule.operation:
        return False
    return may_mean(rule, access)


def _may_hide(rules: Sequence[CompiledRule], directory: ScopedPath) -> bool:
    for each in rules:
        if each.rule.effect == "hide":
            if each.may_cover_below(directory):
                return True
        elif each.covers_all_below(directory):
            return False
    return False


def _may_refuse(rules: Sequence[CompiledRule], directory: ScopedPath) -> bool:
    for each in rules:
        if not each.allows:
            if each.may_cover_below(directory):
                return True
        elif each.covers_all_below(directory):
            return False
    return True
