"""Who acts, where, and with what access: subjects, roots and grants as frozen values.

A grant is the whole of a caller's power over one root. It can be narrowed, never widened.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal, get_args

import msgspec

from bailiwick.errors import MissingAccess, ParseError
from bailiwick.limits import Amount, Limits
from bailiwick.model import Hardlinks, Symlinks, Value
from bailiwick.operations import ALL_ACCESS, FILE_ACCESS, Access
from bailiwick.paths import ROOT, NameRule, ScopedPath
from bailiwick.search.glob import compile_filter

RootKind = Literal[
    "workspace", "extension-storage", "artifact", "temp", "knowledge", "downloads", "secret"
]

ROOT_KINDS: tuple[RootKind, ...] = get_args(RootKind)

GrantSource = Literal["manifest", "conversation", "user-approval", "core", "delegation"]


class Core(Value, frozen=True):
    """The host program itself."""

    id: str

    def __str__(self) -> str:
        return f"core:{self.id}"


class AgentRun(Value, frozen=True):
    """One run of an agent in one conversation."""

    conversation_id: str
    run_id: str

    def __post_init__(self) -> None:
        # Two runs would be written alike, and rules go by what is written.
        if not isinstance(self.run_id, str) or "/" in self.run_id:
            raise ParseError("the id of a run is text without a slash in it")

    def __str__(self) -> str:
        return f"agent_run:{self.conversation_id}/{self.run_id}"


class Extension(Value, frozen=True):
    """An extension of the host program."""

    extension_id: str

    def __str__(self) -> str:
        return f"extension:{self.extension_id}"


class Automation(Value, frozen=True):
    """A task that runs without anyone watching."""

    task_id: str

    def __str__(self) -> str:
        return f"automation:{self.task_id}"


class User(Value, frozen=True):
    """A person."""

    id: str

    def __str__(self) -> str:
        return f"user:{self.id}"


Subject = Core | AgentRun | Extension | Automation | User

SUBJECT_KINDS: dict[str, type[Core | AgentRun | Extension | Automation | User]] = {
    "core": Core, "agent_run": AgentRun, "extension": Extension, "automation": Automation,
    "user": User,
}  # fmt: skip

_ID_CHARACTERS_MAX = 256

REASON_CHARACTERS_MAX = 1_000
"""A reason is a sentence: it stands on the grant, in every record, and before a person."""


STANDING_ABOVE: Final = ("user:", "core:")
"""How subjects begin that are persons or the host."""


def subject_stands_above(text: str) -> bool:
    """Whether a subject, as text, is a person or the host, who hand out what others may do."""
    return text.startswith(STANDING_ABOVE)


def parse_subject(text: str) -> Subject:
    """The subject that a text such as ``agent_run:c1/r7`` names: the inverse of ``str``."""
    if not isinstance(text, str):
        raise ParseError("a subject is named by text, such as user:ann")
    kind, colon, name = text.partition(":")
    if not colon:
        raise ParseError(
            f"{text[:80]!r} names no subject",
            hint=f"it is written KIND:NAME, such as agent_run:chat/1: {', '.join(SUBJECT_KINDS)}",
        )
    _check_id(name, f"{text[:80]!r} names no subject")
    if kind == "agent_run":
        conversation, _, run = name.rpartition("/")
        if conversation and run:
            return AgentRun(conversation, run)
        raise ParseError("an agent run is written agent_run:CONVERSATION/RUN")
    for known in (Core, Extension, Automation, User):
        if SUBJECT_KINDS.get(kind) is known:
            return known(name)
    raise ParseError(
        f"{text[:80]!r} names no subject", hint=f"a subject is one of {', '.join(SUBJECT_KINDS)}"
    )


def check_subject(subject: Any) -> Subject:
    """The subject, if it is one that can be named: nobody grants anything to another."""
    if type(subject) not in _SUBJECTS:
        raise ParseError("a subject is Core, User, AgentRun, Extension or Automation")
    if parse_subject(str(subject)) != subject:
        raise ParseError("a subject has ids of text")
    return subject  # type: ignore[no-any-return]


_SUBJECTS = frozenset(SUBJECT_KINDS.values())


def parse_root_name(text: str) -> tuple[RootKind, str]:
    """The kind and id in a name such as ``workspace:demo``."""
    if not isinstance(text, str):
        raise ParseError("a root is named by text, such as workspace:demo")
    kind, _, name = text.partition(":")
    for known in ROOT_KINDS:
        if kind == known:
            _check_id(name, f"{text[:80]!r} names no root")
            return known, name
    raise ParseError(
        f"{text[:80]!r} names no root", hint=f"a root is one of {', '.join(ROOT_KINDS)}, and an id"
    )


def _check_id(name: str, why: str) -> None:
    if not 1 <= len(name) <= _ID_CHARACTERS_MAX or not name.isprintable() or "*" in name:
        raise ParseError(why, hint="an id is 1 to 256 printable characters, without *")


def check_access(given: Any) -> frozenset[Access]:
    """The accesses in a collection. A text is one too, of its letters: it is refused."""
    if not _is_list(given) or not all(
        isinstance(each, str) and each in ALL_ACCESS for each in given
    ):
        raise ParseError(f"access is a list of {', '.join(sorted(ALL_ACCESS))}")
    return frozenset(given)


def check_globs(given: Any, what: str) -> tuple[str, ...]:
    """The globs in a collection, each of which means something. Taken for a collection a text
    would be its letters, and what is to be denied would be allowed."""
    if not _is_list(given) or not all(isinstance(each, str) for each in given):
        raise ParseError(f"{what} takes a list of globs")
    globs = tuple(given)
    if globs:
        compile_filter(globs)
    return globs


def check_reason(reason: Any) -> str:
    """Why something is asked for, if it is text that can be kept and shown."""
    if not isinstance(reason, str) or len(reason) > REASON_CHARACTERS_MAX:
        raise ParseError(f"a reason is text of at most {REASON_CHARACTERS_MAX} characters")
    try:
        reason.encode()
    except UnicodeEncodeError:
        raise ParseError("a reason holds half a character (a lone surrogate)") from None
    return reason


def _is_list(given: Any) -> bool:
    return isinstance(given, Collection) and not isinstance(given, (str, bytes, bytearray, dict))


class Quota(Value, frozen=True, kw_only=True):
    """How much of a root may be used: None means no bound.

    On a root ``bytes`` and ``files`` bound the whole tree; on a grant what it has added to it.
    """

    bytes: Amount | None = None
    files: Amount | None = None
    operations_per_minute: Amount | None = None

    @property
    def measures_content(self) -> bool:
        return self.bytes is not None or self.files is not None


class Root(Value, frozen=True, kw_only=True):
    """A tree that grants can be given on, as callers know it: by kind and id, never by host path.

    ``mount_point`` is where absolute paths of this root begin; ``trusted`` says whether it may be
    changed at all; ``owner`` is the subject that made a temporary root. ``branch`` is the line of
    versions, where it is not the root's own: a fork, or ``transaction:`` and the id of its request,
    after the fork and a slash where it is a transaction of a fork.
    """

    kind: RootKind
    id: str
    mount_point: str = "/"
    trusted: bool = False
    names: NameRule = "posix"
    display_name: str | None = None
    labels: dict[str, str] = {}
    quota: Quota | None = None
    owner: str | None = None
    branch: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"

    @property
    def line(self) -> str:
        """The fork in which what is done here ends up, empty for the root's own branch: a
        transaction is of the branch that it was begun in. Names of forks hold no colon."""
        before, is_transaction, _ = self.branch.partition("transaction:")
        return before.rstrip("/") if is_transaction else before


class Grant(Value, frozen=True, kw_only=True):
    """What one subject may do in one root. Paths and globs are relative to the root.

    ``explicit`` says that someone named this subject and this root, not a pattern. ``via`` names
    those who passed it on: what a rule keeps from them, their heirs do not get. ``base`` is
    what the holder sees as ``.``: the root, or a directory a delegation was rebased to.
    ``allowed`` holds one list of globs for each hand it went through, every one of which must let a
    path pass. ``symlinks`` and ``hardlinks`` are what the grant narrows the root's own setting to.
    """

    id: str
    subject: Subject
    root: Root
    access: frozenset[Access] = FILE_ACCESS
    path: ScopedPath = ROOT
    allowed: tuple[tuple[str, ...], ...] = ()
    denied: tuple[str, ...] = ()
    reason: str = ""
    source: GrantSource = "core"
    parent: str | None = None
    expires_at: float | None = None
    explicit: bool = False
    via: tuple[str, ...] = ()
    base: ScopedPath = ROOT
    symlinks: Symlinks | None = None
    hardlinks: Hardlinks | None = None
    quota: Quota | None = None
    limits: Limits = msgspec.field(default_factory=Limits)

    @property
    def whole(self) -> bool:
        """Whether every path of the root is within reach."""
        return self.path == "." and not self.allowed and not self.denied

    def reaches(self, path: ScopedPath, is_directory: bool) -> bool:
        """Whether ``path`` is within reach: beneath the sub-path, allowed, and not denied.

        A directory that only leads to what is allowed is within reach too; what lies in it is
        judged by itself.
        """
        if not path.lies_in(self.path):
            return False
        if self.denied and compile_filter(self.denied).covers(path, is_directory):
            return False
        for globs in self.allowed:
            allowed = compile_filter(globs)
            leads_there = is_directory and allowed.may_match_below(path)
            if not leads_there and not allowed.covers(path, is_directory):
                return False
        return True


class StandingGrant(Value, frozen=True, kw_only=True):
    """What someone may ask for: a grant before it is handed out, to a subject or a pattern of them.

    ``subject`` and ``root`` are names, or patterns that end in ``*`` (``agent_run:*``). A scope is
    handed out under a `Grant` whose parent is one of these: it holds what was asked for, no more.
    ``expires_in`` is how many seconds it was to hold when it was listed in a configuration;
    ``expires_at`` is when that is over.
    """

    id: str
    subject: str
    root: str
    access: frozenset[Access]
    path: ScopedPath = ROOT
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    reason: str = ""
    source: GrantSource = "core"
    expires_at: float | None = None
    expires_in: float | None = None
    quota: Quota | None = None

    @property
    def explicit(self) -> bool:
        """Whether it names one subject and one root, not a pattern."""
        return not self.subject.endswith("*") and not self.root.endswith("*")

    def is_for(self, subject: Subject, root: Root) -> bool:
        return matches_name(self.subject, str(subject)) and matches_name(self.root, str(root))


def matches_name(pattern: str, name: str) -> bool:
    """Whether a name is the one in ``pattern``, or begins with what stands before its ``*``."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def covering(
    candidates: list[StandingGrant], access: frozenset[Access], place: ScopedPath
) -> StandingGrant:
    """The first standing grant that holds all that is asked."""
    for each in candidates:
        if access <= each.access and (place.is_root or place.lies_in(each.path)):
            return each
    held: frozenset[Access] = frozenset().union(*(each.access for each in candidates))
    missing = ", ".join(sorted(access - held))
    if missing:
        raise MissingAccess(f"nobody granted this subject: {missing}", hint="ask for less")
    raise MissingAccess("no single grant holds all of this", hint="ask for less at a time")


def _hands(parent: Grant, heir: Subject) -> tuple[str, ...]:
    """Through whose hands a grant has come, as far as rules may be against them. What a person or
    the host passes on is theirs to decide about."""
    if isinstance(parent.subject, (Core, User)) or parent.subject == heir:
        return parent.via
    return (*parent.via, str(parent.subject))


class Narrowing(Value, frozen=True, kw_only=True):
    """What a request or a delegation gives up of what it could have had. None gives up nothing.

    Globs are relative to the root. Raises `ParseError` for what would not narrow as it reads.
    """

    symlinks: Literal["reject"] | None = None
    hardlinks: Literal["reject"] | None = None
    max_file_bytes: Amount | None = None
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("allowed", "denied"):
            msgspec.structs.force_setattr(self, name, check_globs(getattr(self, name), name))
        for name in ("symlinks", "hardlinks"):
            if getattr(self, name) not in (None, "reject"):
                raise ParseError(f"{name} can be narrowed to 'reject' only")
        most: object = self.max_file_bytes
        if most is not None and (type(most) is not int or not 1 <= most < 2**62):
            raise ParseError("max_file_bytes is a number of bytes, at least one")


def narrowed(
    parent: Grant,
    *,
    id: str,
    subject: Subject,
    access: frozenset[Access] | None = None,
    path: ScopedPath | None = None,
    rebase: bool = False,
    narrowing: Narrowing | None = None,
    expires_at: float | None = None,
    reason: str = "",
    source: GrantSource = "delegation",
) -> Grant:
    """A grant for ``subject`` that holds what ``parent`` does, less whatever is given. To run
    programs is passed on only where ``access`` says so.

    Raises `MissingAccess` for what the parent does not hold. The answer is never wider, in access,
    place, globs, time or limits.
    """
    check_subject(subject)
    check_reason(reason)
    if narrowing is not None and not isinstance(narrowing, Narrowing):
        raise ParseError("a request gives up more by a bailiwick.Narrowing")
    wanted = parent.access & FILE_ACCESS if access is None else access
    if not wanted <= parent.access:
        missing = ", ".join(sorted(wanted - parent.access))
        raise MissingAccess(f"the grant does not hold: {missing}", hint="a grant only narrows")
    place = parent.path if path is None else path
    if not parent.reaches(place, is_directory=True):
        raise MissingAccess("the grant does not reach this path", path=place)
    less = narrowing or Narrowing()
    ends = [each for each in (parent.expires_at, expires_at) if each is not None]
    limits = parent.limits
    if less.max_file_bytes is not None and less.max_file_bytes < limits.max_file_bytes:
        limits = msgspec.structs.replace(limits, max_file_bytes=less.max_file_bytes)
    return msgspec.structs.replace(
        parent, id=id, subject=subject, access=wanted, path=place,
        base=place if rebase else parent.base,
        allowed=(*parent.allowed, less.allowed) if less.allowed else parent.allowed,
        denied=(*parent.denied, *less.denied), expires_at=min(ends) if ends else None,
        symlinks=less.symlinks or parent.symlinks, hardlinks=less.hardlinks or parent.hardlinks,
        via=_hands(parent, subject), limits=limits,
        reason=reason or parent.reason, source=source, parent=parent.id, quota=None,
    )  # fmt: skip
