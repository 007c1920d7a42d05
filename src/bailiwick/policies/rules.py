"""The policy that decides by rules. Pure: no I/O, no clock.

The order is: remembered answers, the operator's rules, the shipped protective rules, the defaults
of the root's kind. For each access that an operation uses at a path the first rule that matches
decides, and the most restrictive decision over the accesses holds: hide, deny, ask, allow. So what
may be read but not written cannot be edited. Where no rule matches, the answer is no.

Whether a path is hidden does not depend on the operation: see `compiled.hiding_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from bailiwick.errors import ParseError
from bailiwick.grant import Grant, Root, Subject
from bailiwick.operations import ALL_ACCESS, EXEC, Access, Command, Operation
from bailiwick.paths import ScopedPath
from bailiwick.policies.compiled import (
    CompiledRule,
    RulesBeneath,
    Shortlist,
    concerning,
    hiding_rules,
)
from bailiwick.policies.explanation import Explanation, explain
from bailiwick.policies.kinds import KINDS
from bailiwick.policies.nearness import quoted
from bailiwick.policies.protective import protective_rules
from bailiwick.policies.remembered import Remembered, remembered_rules
from bailiwick.policies.rule import Holder, Rule, check_rule
from bailiwick.policy import Context, Decision, SiftedPaths

RememberedAnswers = Callable[[], Sequence[Remembered]]
"""What people answered before: the same object for as long as nothing has changed. Called before
every decision, so it must be quick; the answers are looked at only when it is a new one."""

_ELSEWHERE = ""
"""Stands for every destination that no remembered answer names."""

_KEPT_MAX = 65_536
"""Decisions and shortlists kept in all: some megabytes. Then all are forgotten and made anew."""

_SHORTLIST_WEIGHT = 32
"""How many decisions a shortlist is as large as."""


def nothing_remembered() -> Sequence[Remembered]:
    """For a policy whose answers nobody keeps."""
    return ()


class _KeptRules:
    """The rules of one version of the remembered answers, and what was decided by them.

    Whatever is looked up or added belongs to one of these: where another thread puts a new one in
    its place meanwhile, what is added to the old one is lost with it, and never taken for new.
    """

    __slots__ = (
        "answers", "beneath", "commanded", "count", "destinations", "recent", "rules", "shortlists",
    )  # fmt: skip

    def __init__(self, answers: Sequence[Remembered], rules: tuple[CompiledRule, ...]) -> None:
        self.answers = answers
        self.rules = rules
        named = (each.rule.destination for each in rules)
        self.destinations = frozenset(each for each in named if each is not None)
        self.shortlists: dict[tuple[Hashable, str, frozenset[Access]], Shortlist] = {}
        self.beneath: dict[tuple[int, frozenset[Access]], RulesBeneath] = {}
        self.count = 0
        # The shortlist used last, and what it is for: most calls come in runs of the same.
        self.recent: tuple[Grant | None, frozenset[Access], str, Shortlist | None] = (
            None, frozenset(), "", None,
        )  # fmt: skip

        self.commanded: tuple[Holder | None, dict[object, Shortlist]] = (None, {})

    def shortlist_for_command(
        self, holder: Holder, operation: str, access: frozenset[Access]
    ) -> Shortlist:
        """Kept until another command comes: all that lies in a tree is judged for one."""
        last, lists = self.commanded
        if last != holder:
            lists = {}
            self.commanded = (holder, lists)
        found = lists.get((operation, access))
        if found is None:
            found = Shortlist(concerning(self.rules, holder), operation, access, holder)
            lists[operation, access] = found
        return found

    def shortlist_of(self, grant: Grant, operation: str, access: frozenset[Access]) -> Shortlist:
        # A grant is known by its identity: two with one id need not hold the same. The shortlist
        # keeps it alive, so that its address is nobody else's meanwhile.
        shortlist = self.shortlists.get((id(grant), operation, access))
        if shortlist is None:
            shortlist = self.make(id(grant), operation, access, holder_of(grant), grant)
        self.recent = (grant, access, operation, shortlist)
        return shortlist

    def bound_to(self, destination: str | None) -> str | None:
        """What of a destination matters to any rule."""
        if destination is None or not self.destinations:
            return None
        return destination if destination in self.destinations else _ELSEWHERE

    def make(
        self,
        name: Hashable,
        operation: str,
        access: frozenset[Access],
        holder: Holder,
        held_by: object,
    ) -> Shortlist:
        made = Shortlist(concerning(self.rules, holder), operation, access, held_by)
        self.shortlists[name, operation, access] = made
        self.count += _SHORTLIST_WEIGHT
        return made


class RulePolicy:
    """Decides by rules; implements `policy.Policy`, `policy.Glances` and `policy.Sifts`."""

    always: Decision | None = None

    def __init__(
        self,
        operator: Iterable[Rule] = (),
        *,
        off: Iterable[str] = (),
        remembered: RememberedAnswers = nothing_remembered,
    ) -> None:
        """Raises `ParseError` for a rule that makes no sense, or an unknown id in ``off``."""
        own = tuple(operator)
        _check_operator_rules(own)
        self._standing = tuple(map(CompiledRule, (*own, *protective_rules(off), *KINDS)))
        self._remembered = remembered
        self._kept = self._refreshed()

    # --- deciding ----------------------------------------------------------------------------

    def glance(
        self,
        grant: Grant,
        operation: Operation,
        access: frozenset[Access],
        path: ScopedPath,
        destination: str | None = None,
    ) -> Decision:
        """Decide without a context: a path seen before costs a lookup or two."""
        kept = self._kept
        if self._remembered() is not kept.answers:
            kept = self._refreshed()
        if destination is not None and kept.destinations:
            return self._glance_at_both_ends(kept, grant, operation, access, path, destination)
        for_grant, for_access, for_operation, shortlist = kept.recent
        if (
            shortlist is None
            or for_grant is not grant
            or for_access is not access
            or for_operation is not operation.name
        ):
            shortlist = kept.shortlist_of(grant, operation.name, access)
        decision = shortlist.decided.get(path)
        return self._decided(kept, shortlist, path) if decision is None else decision

    def sift(
        self,
        grant: Grant,
        operation: Operation,
        access: frozenset[Access],
        paths: Sequence[ScopedPath],
    ) -> SiftedPaths:
        """Which command is run decides about running it alone: see `rule.means`."""
        return self._current().shortlist_of(grant, operation.name, access).sift(paths)

    def _glance_at_both_ends(
        self,
        kept: _KeptRules,
        grant: Grant,
        operation: Operation,
        access: frozenset[Access],
        path: ScopedPath,
        destination: str,
    ) -> Decision:
        bound = kept.bound_to(destination)
        key = ((id(grant), bound), operation.name, access)
        shortlist = kept.shortlists.get(key)
        if shortlist is None:
            shortlist = kept.make(*key, holder_of(grant)._replace(destination=bound), grant)
        decision = shortlist.decided.get(path)
        return self._decided(kept, shortlist, path) if decision is None else decision

    def decide(self, context: Context) -> Decision:
        """What the rules say. The same for the same subject, root, grant, operation, access and
        path, and of the destination of a move or copy: nothing else is looked at. But for a
        command: what is said of that one is never kept for another."""
        kept = self._current()
        bound = kept.bound_to(context.destination)
        command = context.command if context.operation == EXEC.name else None
        holder = Holder(
            str(context.subject), context.root, context.held, context.explicit, context.grant_id,
            bound, command,
        )  # fmt: skip
        if command is not None:
            judging = kept.shortlist_for_command(holder, context.operation, context.access)
            return judging.decide(context.path)
        key = ((context.grant_id, bound), context.operation, context.access)
        shortlist = kept.shortlists.get(key)
        if shortlist is None or shortlist.held_by != holder:
            shortlist = kept.make(*key, holder, holder)
        decision = shortlist.decided.get(context.path)
        return self._decided(kept, shortlist, context.path) if decision is None else decision

    def _decided(self, kept: _KeptRules, shortlist: Shortlist, path: ScopedPath) -> Decision:
        decision = shortlist.decided[path] = shortlist.decide(path)
        kept.count += 1
        if kept.count > _KEPT_MAX:
            self._forget(kept)
        return decision

    def may_refuse_below(
        self, grant: Grant, access: frozenset[Access], directory: ScopedPath
    ) -> bool:
        kept = self._current()
        beneath = kept.beneath.get((id(grant), access))
        if beneath is None:
            beneath = RulesBeneath(concerning(kept.rules, holder_of(grant)), access, grant)
            kept.beneath[id(grant), access] = beneath
            kept.count += _SHORTLIST_WEIGHT
        known = beneath.decided.get(directory)
        if known is None:
            known = beneath.decided[directory] = beneath.may_refuse(directory)
            kept.count += 1
            if kept.count > _KEPT_MAX:
                self._forget(kept)
        return known

    def hides_twin(self, grant: Grant, path: ScopedPath) -> str | None:
        """See `bailiwick.policy.Folds`. For names that are about to be made, so nothing is kept."""
        for each in hiding_rules(concerning(self._current().rules, holder_of(grant))):
            if each.covers_twin(path):
                return each.rule.id if each.rule.effect == "hide" else None
        return None

    def _current(self) -> _KeptRules:
        kept = self._kept
        return kept if self._remembered() is kept.answers else self._refreshed()

    def _refreshed(self) -> _KeptRules:
        """Take up what people answered meanwhile, and forget what was decided without it."""
        answers = self._remembered()
        rules = (*map(CompiledRule, remembered_rules(answers)), *self._standing)
        self._kept = kept = _KeptRules(answers, rules)
        return kept

    def _forget(self, kept: _KeptRules) -> None:
        """What was decided is too much to be kept, unless it was forgotten meanwhile."""
        if self._kept is kept:
            self._kept = _KeptRules(kept.answers, kept.rules)

    # --- for people --------------------------------------------------------------------------

    def show(self) -> tuple[Rule, ...]:
        """All rules, in the order in which they are consulted."""
        return tuple(each.rule for each in self._current().rules)

    def explain(
        self,
        subject: Subject,
        root: Root,
        operation: Operation,
        path: ScopedPath,
        *,
        access: frozenset[Access] | None = None,
        held: frozenset[Access] = ALL_ACCESS,
        explicit: bool = False,
        grant_id: str = "",
        destination: ScopedPath | None = None,
        command: Command | None = None,
    ) -> Explanation:
        """Which rules decide, and which matched but came later.

        ``access`` is what is used at ``path``; by default what the operation uses at the path it
        names. Of running programs without a ``command`` is said what holds for any of them.
        ``held``, ``explicit`` and ``grant_id`` are those of the grant in question.
        """
        if command is not None and operation is not EXEC:
            raise ParseError(f"only the operation {EXEC.name} runs a command")
        holder = Holder(str(subject), root, held, explicit, grant_id, destination, command)
        if access is None:
            access = operation.ruled or operation.destination_access
        return explain(self._current().rules, holder, operation.name, access, path)


def holder_of(grant: Grant) -> Holder:
    """All of a grant that rules look at."""
    return Holder(str(grant.subject), grant.root, grant.access, grant.explicit, grant.id)


def _check_operator_rules(rules: Sequence[Rule]) -> None:
    seen: set[str] = set()
    for rule in rules:
        check_rule(rule)
        if rule.id in seen:
            raise ParseError(f"two rules have the id {quoted(rule.id)}")
        seen.add(rule.id)
