"""The composition root: the only place that picks stores, lends clocks and joins the parts.

`bailiwick.open` and `bailiwick.open_sync` are the shortest way in: one scope on one place, for the
local user, who trusts what they named.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypedDict, Unpack

import msgspec

from bailiwick.audit import AuditRing, Ledger
from bailiwick.errors import ParseError, Unsupported
from bailiwick.events import Changes
from bailiwick.grant import Grant, Root, User
from bailiwick.hook import Hooks
from bailiwick.model import Containment, Durability, Hardlinks, Limits, NewFileMode, Symlinks
from bailiwick.operations import ALL_ACCESS, Access
from bailiwick.paths import NameRule
from bailiwick.pipeline import Machine, Pipeline
from bailiwick.policy import AllowAll, Policy
from bailiwick.portal import Portal, SyncScope
from bailiwick.scope import Scope
from bailiwick.store import Store
from bailiwick.verbs.ignoring import IGNORE_FILE_NAMES, Ignores


class OpenOptions(TypedDict, total=False):
    """The options of `open` and `open_sync`, for type checkers; `Options` has the defaults."""

    trusted: bool
    access: Iterable[Access]
    mount_point: str
    names: NameRule
    limits: Limits
    symlinks: Symlinks
    hardlinks: Hardlinks
    cross_mounts: bool
    containment: Containment
    durability: Durability
    new_file_mode: NewFileMode
    copy_in: Iterable[str]
    ignore_files: Iterable[str]
    state_dir: str


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a place is opened. None means the place's own default."""

    trusted: bool = True
    access: frozenset[Access] = ALL_ACCESS
    mount_point: str | None = None
    names: NameRule = "posix"
    limits: Limits = Limits()
    symlinks: Symlinks = "in-root"
    hardlinks: Hardlinks | None = None
    cross_mounts: bool | None = None
    containment: Containment | None = None
    durability: Durability | None = None
    new_file_mode: NewFileMode = "private"
    copy_in: tuple[str, ...] = ()
    ignore_files: tuple[str, ...] = IGNORE_FILE_NAMES
    state_dir: str | None = None


_DISK_ONLY = ("hardlinks", "cross_mounts", "containment", "durability", "copy_in", "state_dir")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:").match


class Opening:
    """A place about to be opened: ``async with bailiwick.open(…) as fs``."""

    def __init__(self, place: str | os.PathLike[str], options: Options) -> None:
        self._place = _place(place)
        self._options = options
        self._scope: Scope | None = None

    async def __aenter__(self) -> Scope:
        self._scope = scope = await open_scope(self._place, self._options)
        return scope

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._scope is not None:
            await self._scope.aclose()


class SyncOpening:
    """The same for blocking code: ``with bailiwick.open_sync(…) as fs``."""

    def __init__(self, place: str | os.PathLike[str], options: Options) -> None:
        self._place = _place(place)
        self._options = options
        self._portal: Portal | None = None
        self._scope: Scope | None = None

    def __enter__(self) -> SyncScope:
        portal = Portal.borrow()
        try:
            self._scope = portal.run(open_scope(self._place, self._options))
        except BaseException:
            portal.give_back()
            raise
        self._portal = portal
        return SyncScope(self._scope, portal)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._portal is not None and self._scope is not None:
            try:
                self._portal.run(self._scope.aclose())
            finally:
                self._portal.give_back()


def open(place: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Opening:
    """Open a place for the local user: ``async with bailiwick.open("./project") as fs``.

    ``place`` is a directory, or ``"memory:"``. Options:

    - ``trusted`` (True): whether it may be changed at all.
    - ``access``: what the scope may do, for example ``{"read", "list", "metadata"}``.
    - ``mount_point``: where absolute paths begin (the directory itself; ``/`` in memory).
    - ``names``: ``"posix"``, or ``"portable"`` to refuse names that Windows or macOS would alias.
    - ``limits``: a `Limits`.
    - ``symlinks``: ``"in-root"`` follows links that stay inside, ``"reject"`` follows none.
    - ``new_file_mode``: ``"private"`` (0600), ``"umask"``, or permission bits.
    - ``ignore_files``: the names of files that hold ignore rules.

    For a directory also ``hardlinks`` (``"allow"``, ``"reject"``), ``cross_mounts``,
    ``containment`` (``"auto"``, ``"require-kernel"``, ``"walk"``), ``durability`` (``"full"``,
    ``"rename"``), ``copy_in`` (host directories that `Scope.copy_in` may copy from) and
    ``state_dir`` (where the journal of unfinished writes is kept).
    """
    return Opening(place, _options(dict(options)))


def open_sync(place: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> SyncOpening:
    """`open` for blocking code: the same options, the same verbs, no ``await``."""
    return SyncOpening(place, _options(dict(options)))


def _options(given: dict[str, Any]) -> Options:
    """Check options strictly: an option that is not enforced is refused, not ignored."""
    known = {field.name for field in msgspec.structs.fields(Options)}
    for name in given:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            raise ParseError(
                f"there is no option {name!r}", hint=f"did you mean {near[0]!r}?" if near else None
            )
    wanted = dict(given)
    for name, collection in (("access", frozenset), ("copy_in", tuple), ("ignore_files", tuple)):
        if name in wanted:
            # A text is a collection too, of its letters: the one that is meant is a list of one.
            if isinstance(wanted[name], (str, bytes)) or not isinstance(wanted[name], Iterable):
                raise ParseError(f"the option {name!r} takes a list")
            wanted[name] = collection(wanted[name])
    options = Options(**wanted)
    try:
        msgspec.convert(msgspec.to_builtins(options), Options)
    except (msgspec.ValidationError, TypeError) as error:
        raise ParseError(f"an option is wrong: {error}") from None
    _check_values(options)
    return options


def _check_values(options: Options) -> None:
    """What the types alone do not say."""
    if not isinstance(options.limits, Limits):
        raise ParseError("the option 'limits' takes a bailiwick.Limits")
    for default, largest in (
        ("glob_default", "glob_max"), ("grep_matches_default", "grep_matches_max"),
    ):  # fmt: skip
        if getattr(options.limits, default) > getattr(options.limits, largest):
            raise ParseError(f"the limit {default!r} is larger than {largest!r}")
    mode = options.new_file_mode
    if isinstance(mode, int) and (isinstance(mode, bool) or not 0 <= mode <= 0o777):
        raise ParseError("the option 'new_file_mode' takes permission bits from 0 to 0o777")
    mount_point = options.mount_point
    if mount_point is not None:
        parts = mount_point.split("/")
        if not mount_point.startswith("/") or ".." in parts or "." in parts:
            raise ParseError("the option 'mount_point' takes an absolute path, such as /workspace")
    if any(not name or "/" in name for name in options.ignore_files):
        raise ParseError("the option 'ignore_files' takes names of files")
    if options.state_dir == "" or "" in options.copy_in:
        raise ParseError("a directory of the host has a name")


def _place(place: object) -> str:
    text = os.fspath(place) if isinstance(place, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ParseError("a place is a directory such as ./project, or memory:")
    return text


async def open_scope(place: str, options: Options) -> Scope:
    """Make the store of a place and join everything to a scope with a full grant."""
    if place.startswith("memory:"):
        _refuse_disk_options(options)
        if place != "memory:":
            raise ParseError("a memory place has no name", hint='write "memory:"')
        return _join(_memory_store(options), options, "memory", "/")
    directory = _host_directory(place)
    name = directory.rpartition("/")[2] or "root"
    store = _disk_store(directory, options)
    sources: list[Scope] = []
    try:
        for source in options.copy_in:
            only_read = Options(trusted=False, state_dir=options.state_dir, limits=options.limits)
            sources.append(await open_scope(_host_directory(source), only_read))
    except BaseException:
        for scope in sources:
            await scope.aclose()
        await store.aclose()
        raise
    return _join(store, options, name, directory, tuple(sources))


def _host_directory(place: str) -> str:
    if _SCHEME(place) and not os.path.lexists(place):
        raise ParseError(
            "no such kind of place", hint='give a directory such as "./project", or "memory:"'
        )
    return os.path.abspath(os.path.expanduser(place))


def _join(
    store: Store,
    options: Options,
    root_id: str,
    mount_point: str,
    copy_in: tuple[Scope, ...] = (),
    *,
    policy: Policy | None = None,
    ledger: Ledger | None = None,
) -> Scope:
    machine = _machine()
    root = Root(
        kind="workspace",
        id=root_id,
        mount_point=options.mount_point or mount_point,
        trusted=options.trusted,
        names=options.names,
    )
    grant = Grant(
        id=machine.new_request_id(),
        subject=User("local"),
        root=root,
        access=options.access,
        reason="opened by the local user",
        limits=options.limits,
    )
    pipeline = Pipeline(
        store=store,
        policy=policy or AllowAll(),
        hooks=Hooks(seconds_max=options.limits.hook_seconds_max),
        ledger=ledger or AuditRing(options.limits.audit_ring_records),
        changes=Changes(),
        machine=machine,
    )
    ignores = Ignores(names=options.ignore_files, monotonic_ns=machine.monotonic_ns)
    return Scope(pipeline, grant, ignores=ignores, copy_in_scopes=copy_in)


def _machine() -> Machine:
    prefix = secrets.token_hex(6) + "-"
    count = itertools.count(1).__next__
    return Machine(
        time_ns=time.time_ns,
        monotonic_ns=time.monotonic_ns,
        new_request_id=lambda: prefix + str(count()),
    )


def _memory_store(options: Options) -> Store:
    from bailiwick.stores.memory import MemoryStore

    return MemoryStore(
        symlinks=options.symlinks,
        limits=options.limits,
        new_file_mode=options.new_file_mode,
        clock_ns=time.time_ns,
    )


def _disk_store(directory: str, options: Options) -> Store:
    from bailiwick.stores.disk import DiskStore

    return DiskStore.open(
        directory,
        symlinks=options.symlinks,
        hardlinks=options.hardlinks or ("allow" if options.trusted else "reject"),
        cross_mounts=True if options.cross_mounts is None else options.cross_mounts,
        containment=options.containment or "auto",
        durability=options.durability or "full",
        new_file_mode=options.new_file_mode,
        limits=options.limits,
        state_dir=options.state_dir or default_state_dir(),
    )


def _refuse_disk_options(options: Options) -> None:
    default = Options()
    for name in _DISK_ONLY:
        if getattr(options, name) != getattr(default, name):
            raise Unsupported(f"the option {name!r} is for directories, not for memory")


def default_state_dir() -> str:
    """Where unfinished writes are noted: the user's state directory, else a private temp one."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local/state")
    state = os.path.join(home, "bailiwick")
    try:
        os.makedirs(state, mode=0o700, exist_ok=True)
        if os.access(state, os.W_OK | os.X_OK):
            return state
    except OSError:
        pass
    fallback = os.path.join(tempfile.gettempdir(), f"bailiwick-{os.getuid()}")
    os.makedirs(fallback, mode=0o700, exist_ok=True)
    if os.lstat(fallback).st_uid != os.getuid():
        raise Unsupported(
            "there is no private place to note unfinished writes", hint="pass state_dir"
        )
    return fallback
