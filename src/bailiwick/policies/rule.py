"""One rule: whom, where and what it is about, and what it says. A plain value.

Every condition that a rule names must hold; one that it does not name holds for all.

**Paths.** Patterns are globs relative to the root, and one without a slash means a name at any
depth. A rule about a directory is about everything beneath it: ``**/.git`` covers the directory
itself, so that it can be neither moved nor removed past the rule, and all it holds. The root itself
is covered only by a rule without ``path``.

**Operations.** Policy judges each access that an operation uses by itself. A rule that refuses or
asks and names the operation ``write`` is about every use of write access, in an edit or at the
destination of a copy too: else a rule against writing would let an edit through. A rule that allows
means no more than it says: the operation of that name, and the access that operation needs.
In the same way a trailing slash, which means directories only, narrows a rule that allows and is
without meaning in one that refuses: nobody can know beforehand what a new name will be.

**Commands.** A rule that names a ``command`` is about running programs and nothing else, and which
ones `bailiwick.policies.commands` says. To run programs is allowed only by a rule that says so, by
``command``, the operation ``exec`` or the access ``execute``: one that allows everything does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, get_args

from bailiwick.errors import BailiwickError, ParseError
from bailiwick.grant import (
    ROOT_KINDS,
    SUBJECT_KINDS,
    Root,
    matches_name,
    parse_root_name,
    parse_subject,
)
from bailiwick.model import Value
from bailiwick.operations import EXEC, OPERATIONS, REPLACE, Access, Command
from bailiwick.paths import parse
from bailiwick.policies.commands import check_command_glob, matches_command
from bailiwick.policies.nearness import hint_for, quoted
from bailiwick.search.glob import compile_filter

Effect = Literal["allow", "deny", "ask", "hide"]

Holds = Literal["any", "explicit", "write", "owner", "own-id"]
"""What must hold of the grant: nothing; that someone named this subject and this root in it; that
it holds write; that its subject made this (temporary) root; that its subject is the extension
whose id the root has."""

Origin = Literal["remembered", "operator", "protective", "kind"]

EFFECTS: tuple[Effect, ...] = get_args(Effect)
ACCESSES: tuple[Access, ...] = get_args(Access)
RULED: tuple[Access, ...] = (*ACCESSES, REPLACE)
"""What a rule may name: ``replace`` is write access used on what stands there already."""
HOLDS: tuple[Holds, ...] = get_args(Holds)

RESERVED_IDS = ("protect.", "kind.", "default", "grant", "remembered.")
"""What ids of an operator's rules may not begin with: a record must name one rule only."""


class Rule(Value, frozen=True, kw_only=True):
    """A rule. An empty condition holds for everything.

    ``path`` are patterns, ``exempt`` patterns that are taken out of them again (a rule that
    refuses spares only the very names, not what lies beneath); ``exact_path`` are paths taken
    literally, without what lies beneath. ``destination`` is where a move or copy must go; where
    that is not told, a rule that refuses matches and one that allows does not. So it is with
    ``command``, which are globs, and ``exact_command``, one as a question shows it. ``branch`` is
    the line of versions that it is about, empty for the root's own. ``default`` is what an ask
    comes to when nobody answers. ``line`` is where an operator's rule stands in its file.
    """

    id: str
    effect: Effect
    subject: tuple[str, ...] = ()
    root: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    operation: tuple[str, ...] = ()
    access: tuple[Access, ...] = ()
    path: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()
    exact_path: tuple[str, ...] = ()
    holds: Holds = "any"
    grant: str | None = None
    destination: str | None = None
    command: tuple[str, ...] = ()
    exact_command: str | None = None
    branch: str | None = None
    default: Literal["allow", "deny"] = "deny"
    reason: str = ""
    origin: Origin = "operator"
    line: int | None = None

    @property
    def everywhere(self) -> bool:
        """Whether it is about every path."""
        return not self.path and not self.exact_path

    @property
    def for_everything(self) -> bool:
        """Whether it is about every operation."""
        return not (
            self.operation or self.access or self.destination is not None or self.for_commands
        )

    @property
    def for_commands(self) -> bool:
        """Whether it is about some commands, and nothing else."""
        return bool(self.command) or self.exact_command is not None


class Holder(NamedTuple):
    """Who asks: all of a grant that rules look at."""

    subject: str
    root: Root
    held: frozenset[Access]
    explicit: bool
    grant_id: str
    destination: str | None = None
    """Where what is done goes to, if it goes anywhere and that is told."""
    command: Command | None = None
    """What is run, if anything is and that is told."""


def concerns(rule: Rule, holder: Holder) -> bool:
    """Whether a rule is about whoever asks, in this root."""
    if rule.grant is not None and rule.grant != holder.grant_id:
        return False
    if rule.destination not in (None, holder.destination) and (
        rule.effect == "allow" or holder.destination is not None
    ):
        return False
    if rule.for_commands and not _runs(rule, holder.command):
        return False
    if rule.subject and not any(matches_name(each, holder.subject) for each in rule.subject):
        return False
    root = holder.root
    if rule.branch is not None and rule.branch != root.line:
        return False
    if rule.root and not any(matches_name(each, str(root)) for each in rule.root):
        return False
    if any(root.labels.get(label) != value for label, value in rule.labels.items()):
        return False
    return _holds(rule.holds, holder)


def _runs(rule: Rule, command: Command | None) -> bool:
    """Whether a rule about commands is about this one."""
    allows = rule.effect == "allow"
    if command is None:
        return not allows
    if rule.exact_command not in (None, command.text):
        return False
    return not rule.command or matches_command(rule.command, command, allows=allows)


def _holds(condition: Holds, holder: Holder) -> bool:
    if condition == "any":
        return True
    if condition == "explicit":
        return holder.explicit
    if condition == "write":
        return "write" in holder.held
    if condition == "owner":
        return holder.root.owner == holder.subject
    return holder.subject == f"extension:{holder.root.id}"


def means(rule: Rule, operation: str, access: Access, *, replaces: bool = False) -> bool:
    """Whether a rule is about one access that an operation uses; write access may be one that
    ``replaces`` what stands there."""
    if (rule.for_commands and operation != EXEC.name) or not _may_be_about(rule, access):
        return False
    if rule.access and access not in rule.access:
        named = replaces and access == "write" and REPLACE in rule.access
        if not named:
            return False
    if not rule.operation:
        return True
    if rule.effect != "allow":
        return operation in rule.operation or access in rule.operation
    return operation in rule.operation and (bool(rule.access) or access in _needed(operation))


def may_mean(rule: Rule, access: Access) -> bool:
    """Whether a rule is about some operation's use of an access."""
    if not _may_be_about(rule, access):
        return False
    if rule.access and access not in rule.access:
        return access == "write" and REPLACE in rule.access and rule.effect != "allow"
    return not rule.operation or any(
        means(rule, operation, access) for operation in OPERATIONS if access in _may_use(operation)
    )


def _may_be_about(rule: Rule, access: Access) -> bool:
    """What is said of running programs is said by name: what is about everything allows none."""
    if access not in EXEC.access:
        return not rule.for_commands
    named = rule.for_commands or EXEC.name in rule.operation or access in rule.access
    return named or rule.effect != "allow"


def _may_use(operation: str) -> frozenset[Access]:
    """The access an operation may come to use: its source may count as read, what it makes as
    written, and what it replaces as deleted. Everything, for an operation that is not known."""
    known = OPERATIONS.get(operation)
    if known is None:
        return frozenset(ACCESSES)
    others = known.changes and known is not EXEC  # which uses nothing by itself
    return known.needed | ({"read", "write", "delete"} if others else set())


def _needed(operation: str) -> frozenset[Access]:
    known = OPERATIONS.get(operation)
    return frozenset() if known is None else known.needed


# --- what can be wrong with a rule -----------------------------------------------------------


class RuleFault(NamedTuple):
    """A mistake in a rule: in which field, at which place of a list, and what to do."""

    field: str
    at: int | None
    message: str
    hint: str | None


def faults_of(rule: Rule) -> Iterator[RuleFault]:
    """Everything that would make a rule mean something else than its author thinks."""
    for index, pattern in enumerate(rule.subject):
        yield from _fault("subject", index, check_subject_pattern, pattern)
    for index, pattern in enumerate(rule.root):
        yield from _fault("root", index, check_root_pattern, pattern)
    for index, name in enumerate(rule.operation):
        if name not in OPERATIONS:
            hint = hint_for(name, OPERATIONS)
            yield RuleFault("operation", index, f"{quoted(name)} is no operation", hint)
    for index, access in enumerate(rule.access):
        if access not in RULED:
            hint = hint_for(access, RULED)
            yield RuleFault("access", index, f"{quoted(access)} is no access", hint)
    for field, patterns in (("path", rule.path), ("exempt", rule.exempt)):
        for index, pattern in enumerate(patterns):
            yield from _fault(field, index, check_glob, pattern)
    for index, path in enumerate(rule.exact_path):
        yield from _fault("exact_path", index, _check_exact_path, path)
    for index, pattern in enumerate(rule.command):
        yield from _fault("command", index, check_command_glob, pattern)
    if rule.destination is not None:
        yield from _fault("destination", None, _check_exact_path, rule.destination)
    yield from _choice_faults(rule)
    yield from _combination_faults(rule)


def _choice_faults(rule: Rule) -> Iterator[RuleFault]:
    chosen: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("effect", rule.effect, EFFECTS),
        ("holds", rule.holds, HOLDS),
        ("default", rule.default, ("allow", "deny")),
    )
    for field, value, known in chosen:
        if value not in known:
            message = f"{quoted(value)} is no {field} of a rule"
            yield RuleFault(field, None, message, hint_for(value, known))


def _combination_faults(rule: Rule) -> Iterator[RuleFault]:
    if rule.effect == "hide" and (rule.operation or rule.access):
        field = "operation" if rule.operation else "access"
        yield RuleFault(
            field, None, f"a rule that hides cannot name an {field}",
            "what is hidden does not exist for anything: leave it out, or use effect = 'deny'",
        )  # fmt: skip
    if rule.default == "allow" and rule.effect != "ask":
        yield RuleFault("default", None, "only a rule that asks has a default", "leave it out")
    if rule.destination is not None and rule.effect == "hide":
        hint = "leave it out"
        yield RuleFault("destination", None, "what is hidden is hidden from everything", hint)
    if rule.path and rule.exact_path:
        hint = "use two rules"
        yield RuleFault("exact_path", None, "a rule has either path or exact_path", hint)
    if rule.exempt and not rule.path:
        hint = 'for everything but these, write path = "**"'
        yield RuleFault("exempt", None, "there is no path to take these out of", hint)
    yield from _command_faults(rule)
    used = [access for name in rule.operation for access in _may_use(name)]
    if rule.access and rule.operation and not set(rule.access).intersection(used):
        hint = "leave out one of the two"
        yield RuleFault(
            "access", None, "none of the operations of this rule uses this access", hint
        )


def _command_faults(rule: Rule) -> Iterator[RuleFault]:
    field = "command" if rule.command else "exact_command"
    if not rule.for_commands:
        return
    if rule.effect == "hide":
        hint = "use effect = 'deny'"
        yield RuleFault(field, None, "a command cannot be hidden", hint)
    if rule.command and rule.exact_command is not None:
        hint = "use two rules"
        yield RuleFault("exact_command", None, "a rule has either command or exact_command", hint)
    others = set(rule.operation) - {EXEC.name} or set(rule.access) - EXEC.access
    if others:
        hint = f"operation = {EXEC.name!r}, or leave it out"
        yield RuleFault(field, None, "a rule about commands is about running them, no more", hint)


def _fault(
    field: str, index: int | None, check: Callable[[str], None], text: str
) -> Iterator[RuleFault]:
    try:
        check(text)
    except BailiwickError as error:
        yield RuleFault(field, index, error.message, error.hint)


def check_rule(rule: Rule) -> None:
    """Raise `ParseError` for the first mistake in a rule."""
    for fault in faults_of(rule):
        raise ParseError(f"rule {quoted(rule.id)}: {fault.message}", hint=fault.hint)


def check_subject_pattern(text: str) -> None:
    """Refuse what is neither a subject, nor a beginning of one followed by ``*``, nor ``*``."""
    if _check_pattern(text, tuple(SUBJECT_KINDS), "subject"):
        parse_subject(text)


def check_root_pattern(text: str) -> None:
    """Refuse what is neither a root's name, nor a beginning of one followed by ``*``, nor ``*``."""
    if _check_pattern(text, ROOT_KINDS, "root"):
        parse_root_name(text)


def _check_pattern(text: str, kinds: tuple[str, ...], what: str) -> bool:
    """Whether ``text`` must still be a whole name."""
    if not isinstance(text, str):
        raise ParseError(f"a {what} is named by text")
    if text == "*":
        return False
    kind, colon, name = text.partition(":")
    if kind not in kinds or not colon:
        hint = hint_for(kind.rstrip("*"), kinds)
        raise ParseError(
            f"{quoted(text)} names no {what}",
            hint=f"{hint}, then a colon and an id or *" if not colon else hint,
        )
    if not name.endswith("*"):
        return True
    if "*" in name[:-1] or not text.isprintable():
        raise ParseError(f"{quoted(text)} names no {what}", hint="a * can only stand at the end")
    return False


def check_glob(pattern: str) -> None:
    """Refuse what is no pattern relative to a root."""
    compile_filter((pattern,))


def _check_exact_path(text: str) -> None:
    canonical = parse(text).path
    if canonical != text:
        raise ParseError(f"{quoted(text)} is not how this path is written", hint=f"{canonical!r}")
