"""What people answered before, as rules: consulted first, and about nothing but what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from bailiwick.operations import EXEC, Access
from bailiwick.policies.rule import ACCESSES, Rule


class Remembered(Protocol):
    """An answer that holds for more than one call, as state keeps it.

    ``paths`` are exact, and meant for the ``destination``, ``command`` and ``branch`` that were
    asked about.
    With a ``grant_id`` it holds for that grant only.
    """

    @property
    def id(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def grant_id(self) -> str | None: ...
    @property
    def operation(self) -> str: ...
    @property
    def access(self) -> tuple[str, ...]: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def destination(self) -> str | None: ...
    @property
    def command(self) -> str | None: ...
    @property
    def branch(self) -> str: ...
    @property
    def effect(self) -> Literal["allow", "deny"]: ...
    @property
    def reason(self) -> str: ...


def remembered_rules(answers: Sequence[Remembered]) -> tuple[Rule, ...]:
    """The answers as rules: those for one grant before those for always, else in their order.

    An answer that allows and names no path or no access allows nothing: it must never come to mean
    everything; nor does one to run a command that does not say which.
    """
    usable = [each for each in answers if each.paths and each.access and _says_what(each)]
    ordered = sorted(usable, key=lambda answer: answer.grant_id is None)
    return tuple(_rule_of(answer) for answer in ordered)


def _says_what(answer: Remembered) -> bool:
    return answer.operation != EXEC.name or answer.command is not None


def _rule_of(answer: Remembered) -> Rule:
    access: tuple[Access, ...] = tuple(each for each in ACCESSES if each in answer.access)
    paths = answer.paths
    if answer.effect == "allow" and answer.destination is not None:
        # What was allowed is the whole of it, also what arrives where it goes to.
        paths = (*paths, answer.destination)
    return Rule(
        id=answer.id,
        effect="allow" if answer.effect == "allow" else "deny",
        subject=(answer.subject,),
        root=(answer.root,),
        operation=(answer.operation,),
        access=access,
        exact_path=tuple(dict.fromkeys(paths)),
        grant=answer.grant_id,
        destination=answer.destination,
        exact_command=answer.command,
        branch=answer.branch,
        reason=answer.reason,
        origin="remembered",
    )
