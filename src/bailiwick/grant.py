"""Who acts, where, and with what access: subjects, roots and grants as frozen values.

A grant is the whole of a caller's power over one root. It can be narrowed, never widened.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bailiwick.model import Limits, Value
from bailiwick.operations import ALL_ACCESS, Access
from bailiwick.paths import ROOT, NameRule, ScopedPath

RootKind = Literal[
    "workspace", "extension-storage", "artifact", "temp", "knowledge", "downloads", "secret"
]

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


class Root(Value, frozen=True, kw_only=True):
    """A tree that grants can be given on, as callers know it: by kind and id, never by host path.

    ``mount_point`` is where absolute paths of this root begin; ``trusted`` says whether it may be
    changed at all.
    """

    kind: RootKind
    id: str
    mount_point: str = "/"
    trusted: bool = False
    names: NameRule = "posix"
    display_name: str | None = None
    labels: dict[str, str] = {}

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


class Grant(Value, frozen=True, kw_only=True):
    """What one subject may do in one root. Paths are relative to the root."""

    id: str
    subject: Subject
    root: Root
    access: frozenset[Access] = ALL_ACCESS
    path: ScopedPath = ROOT
    reason: str = ""
    source: GrantSource = "core"
    parent: str | None = None
    expires_at: float | None = None
    limits: Limits = msgspec.field(default_factory=Limits)
