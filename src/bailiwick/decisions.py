"""What grant, policy and hooks say of the places that a call touches: the stage that decides."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import structs

from bailiwick.approvals import Approvals
from bailiwick.call import Asked, Call, Target
from bailiwick.errors import (
    Busy,
    Closed,
    HashMismatch,
    IoError,
    MissingAccess,
    PathNotFound,
    PolicyDenied,
)
from bailiwick.grant import Grant, parse_subject
from bailiwick.operations import EXEC, READ, Access
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.policy import (
    Allow,
    Ask,
    Context,
    Decision,
    Deny,
    Folds,
    Glances,
    Hide,
    Policy,
    Sifts,
    is_remembered,
    permits,
    strictest,
    strictness,
)
from bailiwick.resolution import named

_ELDERS_KEPT = 1_024
"""Grants whose earlier holders are kept at hand."""


class Judging:
    """Decides by one policy. The policy of a pipeline."""

    def __init__(self, policy: Policy, approvals: Approvals) -> None:
        self.policy = policy
        self.approvals = approvals
        # Looked at by every call: attributes, because an attribute is cheaper than a property.
        self._always = policy.always
        self.discreet = policy.always is None
        self._glance = policy.glance if isinstance(policy, Glances) else None
        self._sift = policy.sift if isinstance(policy, Sifts) else None
        self._elders_known: dict[str, tuple[Grant, ...]] = {}

    def judge(
        self,
        call: Call,
        path: ScopedPath,
        access: frozenset[Access],
        destination: ScopedPath | None = None,
    ) -> Decision:
        """What the policy says of one path. A policy that raises has refused; one that could not
        read what it goes by has decided nothing, and is `Busy`, `Closed` or `IoError`."""
        if self._always is not None:
            return self._always
        try:
            # What a command may do is said by all that is known of it, and never at a glance.
            if self._glance is not None and call.operation is not EXEC:
                there = destination or call.elsewhere
                decision = self._glance(call.grant, call.operation, access, path, there)
                if not call.grant.via and call.past is None and call.past_there is None:
                    return decision
                elders = [
                    self._glance(elder, call.operation, access, path, there)
                    for elder in self._elders(call.grant)
                ]
            else:
                context = self._context_of(call, path, access)
                decision = self.policy.decide(context)
                elders = [
                    self.policy.decide(structs.replace(context, subject=parse_subject(each)))
                    for each in call.grant.via
                ]
        except (Busy, Closed, IoError):
            raise
        except Exception as error:
            return Deny("policy", f"the policy failed: {type(error).__name__}")
        if is_remembered(decision):  # a person knows whom they answered
            if call.past is not None or call.past_there is not None:
                decision = Ask(decision.source, "the answer given before is about what is now")
            elders = [each for each in elders if not isinstance(each, Ask)]
        return strictest((decision, *elders))

    def _elders(self, grant: Grant) -> tuple[Grant, ...]:
        """The grant as those would hold it who passed it on."""
        known = self._elders_known.get(grant.id)
        if known is None:
            if len(self._elders_known) >= _ELDERS_KEPT:
                self._elders_known.clear()
            known = tuple(
                structs.replace(grant, subject=parse_subject(each), via=()) for each in grant.via
            )
            self._elders_known[grant.id] = known
        return known

    def decide(
        self, call: Call, path: ScopedPath, access: frozenset[Access], is_directory: bool
    ) -> Decision:
        """What grant and policy say of one more path. What a grant does not reach is not there."""
        grant = call.grant
        if not grant.whole and not grant.reaches(path, is_directory):
            return Hide("grant")
        destination = call.destination
        if destination is not None and destination.handle is not None:
            return self.judge(call, path, access, destination.handle.path)
        decision = self.judge(call, path, access)
        asked = call.approved and isinstance(decision, Ask) and not call.operation.changes
        if asked and any(path.lies_in(place) for place in call.approved):
            # A person who lets a directory be searched lets what lies in it be searched.
            return Allow(decision.source)
        return decision

    def left_out(
        self, call: Call, paths: Sequence[ScopedPath], access: frozenset[Access], is_directory: bool
    ) -> set[ScopedPath]:
        """Those of many paths that a bulk read does not include, by what `decide` says of each."""
        grant, reached, left_out = call.grant, paths, set[ScopedPath]()
        if not grant.whole:
            reached = [path for path in paths if grant.reaches(path, is_directory)]
            left_out.update(set(paths).difference(reached))
        judged, refused = self._sifted(call, reached, access)
        left_out.update(refused)
        for path in judged:
            if not permits(self.decide(call, path, access, is_directory)):
                left_out.add(path)
        return left_out

    def _sifted(
        self, call: Call, paths: Sequence[ScopedPath], access: frozenset[Access]
    ) -> tuple[Collection[ScopedPath], Collection[ScopedPath]]:
        """Which of many paths have to be judged, and which of the others are left out."""
        if self._sift is None or call.destination is not None or call.approved:
            return paths, ()
        special, refused = set[ScopedPath](), set[ScopedPath]()
        try:
            for holder in (call.grant, *self._elders(call.grant)):
                sifted = self._sift(holder, call.operation, access, paths)
                special |= sifted.special
                if not permits(sifted.ordinary):
                    refused.update(paths)
        except (Busy, Closed, IoError):
            raise
        except Exception:
            return paths, ()  # then each is refused, by what it fails of
        return special, refused - special

    def reveals(self, call: Call, path: ScopedPath) -> bool:
        """Whether the caller may read what stands at ``path``, with nobody to be asked: only then
        may the hash of it be told, which is enough to find out what it is, bit by bit."""
        grant = call.grant
        if not READ.access <= grant.access:
            return False
        if self._always is not None:
            return type(self._always) is Allow
        reading = structs.replace(call, operation=READ, destination=None, elsewhere=None)
        return isinstance(self.judge(reading, path, READ.ruled), Allow)

    def hides_twin(self, grant: Grant, path: ScopedPath) -> str | None:
        """What hides a path that is the same as ``path`` but for case and accents, if anything."""
        return self.policy.hides_twin(grant, path) if isinstance(self.policy, Folds) else None

    def _context_of(self, call: Call, path: ScopedPath, access: frozenset[Access]) -> Context:
        caller = call.caller
        interactive = caller.asker is not None or self.approvals.interactive(caller.front)
        return call.context_at(path, access, interactive)

    def _keep_hash(self, call: Call, error: HashMismatch) -> None:
        """Leave out of an error the hash of what the caller may not read."""
        for target in (call.target, call.destination):
            place = None if target is None else target.handle
            if place is not None and not self.reveals(call, place.path):
                error.details.pop("current_sha256", None)

    def may_refuse_below(
        self, grant: Grant, access: frozenset[Access], directory: ScopedPath
    ) -> bool:
        return self._always is None and any(
            self.policy.may_refuse_below(each, access, directory)
            for each in (grant, *self._elders(grant))
        )

    def obey(
        self, call: Call, decision: Decision, target: Target, path: ScopedPath | None = None
    ) -> None:
        """Go on or raise, as was decided about ``path`` or what the target was resolved to. What is
        to be asked is kept until all questions of the call are known."""
        strict = strictness(decision)
        if call.policy_source is None or strict > call.strictness:
            call.policy_source, call.strictness = decision.source, strict
        if isinstance(decision, Allow):
            return
        if isinstance(decision, Hide):
            # By the name the caller gave: the canonical one would tell where their link leads.
            path = path or named(call, target)
            if target.creates:
                raise PolicyDenied("a rule keeps this name", path=path, decided_by=decision.source)
            raise PathNotFound("no such file or directory", path=path)
        if path is None:
            path = target.handle.path if target.handle is not None else ROOT
        if isinstance(decision, Ask):
            if call.questions is None:
                call.questions = []
            call.questions.append(Asked(decision, path))
            return
        raise PolicyDenied(decision.reason, path=path, decided_by=decision.source)

    def check_access(self, grant: Grant, needed: frozenset[Access]) -> None:
        if not needed <= grant.access:
            missing = ", ".join(sorted(needed - grant.access))
            raise MissingAccess(
                f"the grant does not hold: {missing}", hint="ask for it when requesting the root"
            )
