"""What a configuration says, checked and with its defaults filled in. Frozen, plain, without power.

Paths of the host stand as they were written: whoever opens them knows where they start.
"""

from __future__ import annotations

from typing import Literal

from bailiwick.config.places import VolumePlace
from bailiwick.grant import Quota, RootKind
from bailiwick.limits import Limits
from bailiwick.model import Containment, Durability, Hardlinks, NewFileMode, Switch, Symlinks, Value
from bailiwick.operations import Access, Network
from bailiwick.paths import ROOT, NameRule, ScopedPath
from bailiwick.policies.manifest import parse_permissions
from bailiwick.policies.rule import Rule
from bailiwick.sandbox import SandboxName

Surface = Literal["console", "cli", "none"]
AuditPaths = Literal["raw", "keyed-hash"]


class TlsConfig(Value, frozen=True, kw_only=True):
    """The files of a certificate and its key."""

    certificate: str
    key: str


class RateConfig(Value, frozen=True, kw_only=True):
    """How often a token may call. None: the default of the front."""

    reads_per_minute: int | None = None
    changes_per_minute: int | None = None


class ServerConfig(Value, frozen=True, kw_only=True):
    """Where and how the server listens."""

    host: str = "127.0.0.1"
    port: int = 4180
    workers: int = 1
    tls: TlsConfig | None = None
    rates: RateConfig = RateConfig()


class StateConfig(Value, frozen=True, kw_only=True):
    """Where the authority keeps grants, approvals and the ledger.

    Without a ``path`` in the user's state directory; with ``memory`` nowhere but in the process.
    With a ``url`` in PostgreSQL, where all servers have it together; the ``path`` is then for what
    stays on each machine.
    """

    path: str | None = None
    url: str | None = None
    memory: bool = False
    durability: Durability = "full"


class AskConfig(Value, frozen=True, kw_only=True):
    """How long a question waits, and where a person can be asked when the front cannot ask. Where
    nothing is said about that, in the console if one is served, and nowhere else. With ``roots`` a
    root that nobody granted is asked for, too."""

    timeout_s: float = 300.0
    surface: Surface | None = None
    roots: bool = False


class NotifyConfig(Value, frozen=True, kw_only=True):
    """Who else is told that a question waits: a webhook, by its address and the file of the secret
    that signs what it is sent, and the ``desktop``. Where nothing is said about that, the desktop
    is told where questions wait elsewhere than at the front that asks."""

    url: str | None = None
    secret_file: str | None = None
    desktop: bool | None = None


class AuditConfig(Value, frozen=True, kw_only=True):
    """What the ledger holds. Without ``retention_days`` everything is kept."""

    paths: AuditPaths = "raw"
    retention_days: int | None = None
    otel: bool = False


class MountConfig(Value, frozen=True, kw_only=True):
    """A place in a tree of mounts: a directory, ``memory:`` or a volume, by its text."""

    place: str
    mode: Literal["read-write", "read-only"] = "read-write"


class RootConfig(Value, frozen=True, kw_only=True):
    """One root: a directory (``path``), a ``volume``, ``memory``, or ``mounts`` under one tree, by
    their names there. With ``over`` it is an overlay of the directory or volume.

    What only a directory, or only a volume, has is None for the others. ``limits`` are all of them,
    whether the file sets them or not. ``networks`` are those that commands may ask for,
    ``sandbox`` is what they are run in.
    """

    kind: RootKind
    id: str
    path: str | None = None
    volume: VolumePlace | None = None
    memory: bool = False
    mounts: dict[str, MountConfig] = {}
    over: bool = False
    mount_point: str | None = None
    trusted: bool = False
    symlinks: Symlinks = "reject"
    hardlinks: Hardlinks | None = None
    cross_mounts: bool | None = None
    names: NameRule = "posix"
    containment: Containment | None = None
    durability: Durability | None = None
    new_file_mode: NewFileMode = "private"
    history: Switch = "off"
    keep_versions_days: int | None = None
    copy_in: tuple[str, ...] = ()
    ignore_files: tuple[str, ...] | None = None
    display_name: str | None = None
    labels: dict[str, str] = {}
    limits: Limits = Limits()
    networks: frozenset[Network] = frozenset(("none",))
    sandbox: SandboxName = "bubblewrap"
    quota: Quota | None = None
    line: int = 1

    @property
    def name(self) -> str:
        """How callers name it: ``workspace:demo``."""
        return f"{self.kind}:{self.id}"


class GrantConfig(Value, frozen=True, kw_only=True):
    """What a subject, or a pattern of them, may ask for. ``expires_in_s`` counts from when the
    grant is first made. ``id`` is what it is known by; without one, what it says."""

    subject: str
    root: str
    access: frozenset[Access]
    path: ScopedPath = ROOT
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    expires_in_s: float | None = None
    reason: str = ""
    quota: Quota | None = None
    id: str | None = None
    line: int = 1


class TokenConfig(Value, frozen=True, kw_only=True):
    """A token, by the name under which it is kept, and who its bearer is. Never the token."""

    name: str
    subject: str
    line: int = 1


class ExtensionConfig(Value, frozen=True, kw_only=True):
    """What the manifest of an extension asks for."""

    id: str
    permissions: tuple[str, ...]
    line: int = 1

    @property
    def access(self) -> dict[RootKind, frozenset[Access]]:
        """The access its permissions give, by kind of root."""
        return parse_permissions(self.permissions)


class Config(Value, frozen=True, kw_only=True):
    """A whole configuration. ``off`` are the shipped rules that are switched off."""

    source: str
    server: ServerConfig | None = None
    state: StateConfig = StateConfig()
    ask: AskConfig = AskConfig()
    notify: NotifyConfig = NotifyConfig()
    audit: AuditConfig = AuditConfig()
    roots: tuple[RootConfig, ...] = ()
    grants: tuple[GrantConfig, ...] = ()
    tokens: tuple[TokenConfig, ...] = ()
    extensions: tuple[ExtensionConfig, ...] = ()
    rules: tuple[Rule, ...] = ()
    off: tuple[str, ...] = ()
