"""Composing an authority: its state, its rules, its roots."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from bailiwick.authority import Books, CoreAuthority, Services
from bailiwick.build.announcements import Announcements, open_announcements
from bailiwick.build.books import open_books
from bailiwick.build.commands import RootCommands, check_share, finish_publishing
from bailiwick.build.configured import (
    ConfigSource,
    ConfiguredPlaces,
    below,
    listed_grants,
    places_of,
    read_source,
    refuse_elsewhere,
    state_directory,
    synchronise,
)
from bailiwick.build.entry_points import open_sources
from bailiwick.build.homes import Homes, Kept, default_state_dir
from bailiwick.build.interpreters import interpreter_for
from bailiwick.build.log_feed import StoreFeed
from bailiwick.build.mounts.named_mounts import configured_mounts
from bailiwick.build.mounts.opened_mounts import open_mounts
from bailiwick.build.note_drain import Draining, drain_once
from bailiwick.build.options import Options, read_options
from bailiwick.build.overlay import OverlayBeneath, open_beneath
from bailiwick.build.own import own_machine
from bailiwick.build.places import Background, NamedPlace, on_host, open_volume, read_place
from bailiwick.build.probes.readiness import Readiness
from bailiwick.build.root_feeds import RootFeed, feed_of_branch, tell_interrupted
from bailiwick.build.state import Configured, open_state, refuse_on_this_machine
from bailiwick.build.stores import (
    disk_store,
    let_go,
    memory_store,
    remembered,
    remove_temp,
    temp_kept,
    temp_roots,
    temp_store,
)
from bailiwick.build.views import Views
from bailiwick.call import Caller, Machine
from bailiwick.change_log import Logs
from bailiwick.commands import HostShare, LendsCommands
from bailiwick.config.values import RootConfig, Surface
from bailiwick.errors import ParseError, Unsupported
from bailiwick.finishing import in_thread
from bailiwick.grant import Quota, Root, StandingGrant, Subject, check_subject, parse_root_name
from bailiwick.hook import Hooks
from bailiwick.limits import Limits
from bailiwick.operations import ALL_ACCESS, Access
from bailiwick.pipeline import LowerTree, Pipeline
from bailiwick.policies.rules import RulePolicy
from bailiwick.portal import Opening
from bailiwick.root_plans import OpenedRoot, RootPlan
from bailiwick.scope import Scope
from bailiwick.state import idempotency
from bailiwick.state.database import Database
from bailiwick.state.feed import DurableFeed
from bailiwick.state.grants import book, tokens
from bailiwick.state.grants.budgets import accountable
from bailiwick.state.grants.rows import revoked
from bailiwick.state.grants.status import StateStanding
from bailiwick.state.notices.board import NoticeBoard
from bailiwick.state.notices.book import NoticeBook
from bailiwick.state.runs import index as run_index
from bailiwick.state.usage import meter
from bailiwick.state.usage.rates import Rates
from bailiwick.store import Store, Watches
from bailiwick.verbs.walks.ignore_files import IGNORE_FILE_NAMES, Ignores
from bailiwick.verbs.walks.tree_size import measure
from bailiwick.versions import branches


class Authority(CoreAuthority):
    """Roots, grants and policy of one host, and the only way to a scope on them."""

    synchronised = True
    """Whether what the configuration grants is what stands: not always where it was only looked
    at."""

    tokens: tokens.TokenBook
    """Who calls from elsewhere: see `bailiwick.state.grants.tokens`."""

    notices: NoticeBoard
    """Who follows questions, runs and verdicts: see `bailiwick.state.notices.board`."""

    accountable: Callable[[str], str | None]
    """Whose budget a grant counts against, by its id: see `bailiwick.state.grants.budgets`."""

    idempotency: idempotency.IdempotencyBook
    """What was answered under a key: see `bailiwick.state.idempotency`."""

    rates: Rates
    """How often in a minute: see `bailiwick.state.usage.rates`."""

    is_shared: bool
    """Whether servers on other machines have the same state."""

    shared_key: bytes
    """What they all have and nobody else."""

    readiness: Readiness
    """Whether what keeps state and roots answers: see `bailiwick.build.probes.readiness`."""

    configured: Configured
    """What the configuration says about being served."""

    async def take_root(self, name: str, place: Any, *, noted: bool, **options: Any) -> Root:
        """As `add_root`; where it is only for a moment, it need not be ``noted``."""
        if noted:
            return await self.add_root(name, place, **options)
        plan = self._services.plan_root(name, place, options)
        self.register(plan)
        return plan.root

    def holdings(self, subject: Subject, root: str) -> list[StandingGrant]:
        """What a subject could ask for on a root, what names both before what is a pattern."""
        return self._candidates(check_subject(subject), self.root(root))

    @property
    def standing_state(self) -> object:
        """Another object once what stands has changed: to be compared by identity."""
        return self._books.grants.state

    @property
    def first_root(self) -> str | None:
        """The root that was registered first: the one that is meant where none is named."""
        return next(iter(self._plans), None)

    async def resume(self, grant_id: str, *, front: str) -> Scope:
        """A scope under a grant that was handed out earlier and holds still: for whoever shows the
        token of a grant. Raises `GrantRevoked`."""
        self._refuse_closed()
        grant = self._books.grants.load(grant_id)
        if grant is None:
            raise revoked()
        # It goes on without this scope: what is lent here is not what the grant was made for.
        return Scope(self._lent(await self._open(str(grant.root)), grant, Caller(front=front)))

    async def share_root(
        self,
        subject: Subject,
        root: str,
        access: frozenset[Access],
        reason: str,
        *,
        grant_id: str,
        path: str,
        front: str,
        wait_s: float,
    ) -> Scope:
        """As `request_root`, under the grant of an id which whoever asks first puts into the book:
        for processes that serve together. It goes on when a scope is closed, until `end_sharing`.
        Raises `GrantRevoked` or `GrantExpired`."""
        self._refuse_closed()
        grant = self._books.grants.shared(grant_id)
        if grant is None:
            grant = self._grant_for(subject, root, access, reason, path, None, None)
            grant = msgspec.structs.replace(grant, id=grant_id)
            grant = await self._books.grants.hand_out(grant, front=front, shared=True)
        opened = await self._open(str(grant.root))
        return Scope(self._lent(opened, grant, Caller(front=front, wait_s=wait_s)))

    async def end_sharing(self, front: str) -> None:
        """Let go of the shared grants whose ids begin with ``front``."""
        await self._books.grants.release_shared(front)

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        state_dir: str | None = None,
        *,
        synchronise: bool = True,
        surface: Surface = "none",
    ) -> Opening[Authority]:
        """The authority that a ``bailiwick.toml`` describes, to be opened by ``async with``.

        What the file grants stands from then on, and what it does not grant any more ends. With
        ``synchronise=False`` the grants are left as they are: for looking at them. ``surface`` is
        where people are asked if the file does not say.
        """
        opened = partial(_compose, os.fspath(path), state_dir, synchronise, surface)
        return Opening(opened)

    @classmethod
    def open(cls, *, state_dir: str | None = None, surface: Surface = "none") -> Opening[Authority]:
        """An authority without a configuration, whose roots are added by `add_root`. Without a
        ``state_dir`` what it remembers is gone with the process. ``surface`` is where people are
        asked when the front cannot ask."""
        return Opening(partial(_compose, None, state_dir, True, surface))


async def _compose(
    path: str | None, state_dir: str | None, synchronising: bool, surface: Surface
) -> Authority:
    source = read_source(path)
    directory = state_directory(source, state_dir)
    machine, places = own_machine(), places_of(source, directory)
    database = await in_thread(open_state, source, directory, let_go=Database.aclose)
    if database.is_shared:
        machine = msgspec.structs.replace(machine, time_ns=database.time_ns)
    try:
        return await _compose_on(database, source, machine, places, synchronising, surface)
    except BaseException:
        await database.aclose()
        raise


async def _compose_on(
    database: Database,
    source: ConfigSource,
    machine: Machine,
    places: ConfiguredPlaces,
    synchronising: bool,
    surface: Surface,
) -> Authority:
    config = source.config
    notice_book = NoticeBook(database)
    books = await open_books(database, notice_book, source, machine, surface)
    ledger, time_ns = books.ledger, machine.time_ns
    policy = RulePolicy(config.rules, off=config.off, remembered=books.rules.rules)
    joiner = _Joiner(database, books, notice_book, policy, machine, source, places)
    # Before anything is granted: what cannot be served is refused as a whole.
    plans = [joiner.plan_configured(root) for root in config.roots]
    listed = listed_grants(source, machine.time_ns() / 1e9)
    token_book = tokens.TokenBook(database, ledger.chain_in, time_ns=time_ns)
    listed_tokens = tokens.listed_tokens((each.name, each.subject) for each in config.tokens)
    joiner.announcements = await open_announcements(
        source, books.approvals, directories=joiner.directories, time_ns=time_ns
    )
    if synchronising:
        await synchronise(books.grants, source, listed)
        await token_book.sync_configured(listed_tokens, origin=source.origin)
    authority = Authority(books, policy, joiner.services())
    authority.ask_roots = config.ask.roots
    authority.synchronised = books.grants.is_synchronised(listed, origin=source.origin)
    authority.tokens = token_book
    authority.notices = joiner.notices = NoticeBoard(
        database, notice_book, books.approvals, joiner.runs, time_ns=time_ns
    )
    authority.rates = joiner.rates
    authority.rates.servers = lambda: database.servers
    authority.is_shared = database.is_shared
    authority.shared_key = ledger.shared_key
    authority.readiness = joiner.readiness
    authority.accountable = partial(accountable, database.read)
    authority.idempotency = idempotency.IdempotencyBook(database, time_ns=time_ns)
    authority.configured = Configured(
        file=source.file, server=config.server, tokens=listed_tokens, origin=source.origin
    )
    joiner.authority = authority
    for plan in plans:
        authority.register(plan)
    await joiner.take_over_notes()
    return authority


class _Joiner:
    """Joins stores, state and rules to the roots of one authority."""

    def __init__(
        self,
        database: Database,
        books: Books,
        notices: NoticeBook,
        policy: RulePolicy,
        machine: Machine,
        source: ConfigSource,
        places: ConfiguredPlaces,
    ) -> None:
        self._database = database
        self._books = books
        self._policy = policy
        self._machine = machine
        self._config = source.config
        self._base = source.base
        self._state = database.directory or default_state_dir()
        self._places = places
        self._stores: dict[str, Store] = {}
        self._temps = temp_roots(self._state)
        self._standing = StateStanding(
            database, books.grants, books.trust, time_ns=machine.time_ns,
            monotonic_ns=machine.monotonic_ns,
        )  # fmt: skip
        self.rates = self._standing.rates
        self.runs = run_index.RunIndex(database, books, notices, time_ns=machine.time_ns)
        self.readiness = Readiness(database)
        self._meter = meter.UsageMeter(database, books.grants, self._measure, self._forks)
        self.hooks = Hooks(
            seconds_max=Limits().hook_seconds_max, failed=partial(books.faults.note, "hook")
        )
        if source.config.audit.otel:
            from bailiwick.hooks.tracing import Tracing

            self.hooks.register(Tracing())
        self.authority: Authority | None = None
        self.notices: NoticeBoard | None = None
        self.announcements: Announcements | None = None
        self.directories: list[str] = []

    def services(self) -> Services:
        return Services(
            machine=self._machine, hooks=self.hooks, plan_root=self.plan_given,
            plan_temp=self.plan_temp, keep_house=self.keep_house, close=self.close,
        )  # fmt: skip

    # --- planning ----------------------------------------------------------------------------

    def plan_configured(self, config: RootConfig) -> RootPlan:
        """A root as the configuration describes it."""
        options = Options(
            trusted=config.trusted, mount_point=config.mount_point, names=config.names,
            limits=config.limits, symlinks=config.symlinks, hardlinks=config.hardlinks,
            cross_mounts=config.cross_mounts, containment=config.containment,
            durability=config.durability, new_file_mode=config.new_file_mode,
            copy_in=tuple(self._below_base(each) for each in config.copy_in),
            ignore_files=IGNORE_FILE_NAMES if config.ignore_files is None else config.ignore_files,
            keep_versions_days=config.keep_versions_days, history=config.history,
            commands=HostShare(networks=config.networks, sandbox=config.sandbox),
        )  # fmt: skip
        place = NamedPlace()
        if config.volume is not None:
            place = NamedPlace(volume=on_host(config.volume, self._base), over=config.over)
        elif config.mounts:
            place = NamedPlace(mounts=configured_mounts(config.mounts, self._base))
        elif not config.memory:
            directory = os.path.abspath(self._below_base(config.path or "."))
            place = NamedPlace(directory=directory, over=config.over)
        return self._plan(
            config.name, place, options, labels=config.labels, display_name=config.display_name,
            quota=config.quota,
        )  # fmt: skip

    def plan_given(self, name: str, given_place: str | Store, given: dict[str, Any]) -> RootPlan:
        """A root as a program describes it."""
        own = {key: given.pop(key) for key in ("labels", "display_name", "quota") if key in given}
        kind, _ = parse_root_name(name)
        place = read_place(given_place)
        defaults: dict[str, Any] = {"trusted": False}
        if kind != "workspace":
            defaults["symlinks"] = "reject"
            if place.directory is not None:
                defaults["hardlinks"] = "reject"
        options = read_options({**defaults, **given})
        if options.state_dir is not None:
            raise Unsupported("the state of a root lies with its authority's")
        if options.access != ALL_ACCESS:
            raise Unsupported("what a root lets do is said by grants and rules")
        place.refuse_unfit(options)
        return self._plan(name, place, options, **own)

    def _plan(
        self,
        name: str,
        place: NamedPlace,
        options: Options,
        *,
        labels: dict[str, str] | None = None,
        display_name: str | None = None,
        quota: Quota | None = None,
    ) -> RootPlan:
        kind, root_id = parse_root_name(name)
        directory, volume, given, over, mounts, _ = place
        refuse_on_this_machine(name, volume, shared=self._database.is_shared)
        refuse_elsewhere(options.limits)
        if kind == "secret" and options.new_file_mode != "private":
            raise ParseError("new files of a root of kind 'secret' are always private")
        root = Root(
            kind=kind, id=root_id, mount_point=options.mount_point or directory or "/",
            trusted=options.trusted, names=options.names, display_name=display_name,
            labels=labels or {}, quota=quota,
        )  # fmt: skip
        try:
            msgspec.convert(msgspec.to_builtins(root), Root)
        except (msgspec.ValidationError, TypeError) as error:
            raise ParseError(f"an option is wrong: {error}") from None
        check_share(options.commands, place.host_paths, Homes(self._state).base)
        self._places.take_place(name, place, options)
        self.readiness.add(place)
        self.directories.extend(filter(None, place.host_paths))
        if directory is not None or mounts is not None or over:
            options = msgspec.structs.replace(options, state_dir=self._state)

        async def open_root() -> OpenedRoot:
            if mounts is not None:
                joined = await open_mounts(mounts, options)
                return await self._join(root, joined.store, options, joined.keeping, runs=False)
            if volume is not None:
                store, keeping = await open_volume(volume, options)
                return await self._join(root, store, options, keeping, over=over)
            if directory is None:
                return await self._join(root, given or memory_store(options), options, over=over)
            making = over or options.history == "on"
            past = await in_thread(partial(Homes(self._state).kept, directory, making=making))
            store = await in_thread(disk_store, directory, options, past, let_go=let_go)
            store, kept = await remembered(store, options, past)
            return await self._join(root, store, options, kept, past, over=over)

        host_path = volume.file if volume is not None and volume.in_file else directory
        return RootPlan(root=root, host_path=host_path, limits=options.limits, open=open_root)

    async def plan_temp(
        self, owner: Subject, seconds: float, parent: str | None, most: int
    ) -> RootPlan:
        """A private directory that is gone when its scope is closed. It counts for whoever the
        grant that it is made under counts for."""
        refuse_on_this_machine("that is temporary", None, shared=self._database.is_shared)
        limits = Limits()
        counted = None if parent is None else accountable(self._database.read, parent)
        await in_thread(self._temps.sweep)
        create = partial(self._temps.create, seconds, owner=counted or str(owner), most=most)
        place = await in_thread(create, let_go=remove_temp)
        root = Root(kind="temp", id=book.new_id(), trusted=True, owner=str(owner))
        options = Options(limits=limits)

        async def open_root() -> OpenedRoot:
            store = temp_store(place, self._state, limits)
            opened = await self._join(root, store, options, None, temp_kept(place, self._state))

            async def close() -> None:
                await opened.close()
                await remove_temp(place)
                await self._meter.forget(str(root))

            return msgspec.structs.replace(opened, close=close)

        return RootPlan(root=root, host_path=place.path, limits=limits, open=open_root)

    def _below_base(self, path: str) -> str:
        return below(self._base, path)

    # --- joining -----------------------------------------------------------------------------

    async def take_over_notes(self) -> None:
        """Put on record what a process changed in a volume and died before it could say so: at the
        start, whether or not anybody asks for the root."""
        if self._database.directory is not None:
            for root in self._config.roots:
                if root.volume is not None:
                    place = on_host(root.volume, self._base)
                    await drain_once(place, Options(limits=root.limits), self._books.ledger)

    async def _join(
        self, root: Root, store: Store, options: Options, keeping: Background | None = None,
        kept: Kept | None = None, *, over: bool = False, runs: bool = True,
    ) -> OpenedRoot:  # fmt: skip
        """The root of a store, or of an overlay ``over`` it. ``runs``: programs, too."""
        name, runs = str(root), runs and not self._database.is_shared
        below: OverlayBeneath | None = None
        beside = [] if keeping is None else [keeping]
        try:
            await finish_publishing(store, root.names, options.limits, self._state, kept)
            sources = await open_sources(options)
            limits, share = options.limits, options.commands
            commands = RootCommands(store, root, limits, self._state, share, kept)
            if isinstance(store, Logs) and self._database.directory is not None:
                beside.append(await Draining.open(store.log, self._books.ledger))
            if over:
                lower = partial(self.pipeline, commands=commands, metered=False)
                below = await open_beneath(root, store, options, kept, self._feed_of, lower)
                store, kept = below.opened.store, below.opened.kept_over
                commands = RootCommands(store, root, limits, self._state, share, kept)
            feed = await self._feed_of(name, store, options.limits)
        except BaseException:
            for each in beside:
                await each.aclose()
            await store.aclose()
            if below is not None:
                await below.aclose()
            raise
        feed.listener_failed = partial(self._books.faults.note, "listener", name)
        if isinstance(feed, DurableFeed) and self._config.audit.paths == "raw":
            tell_interrupted(feed, name, self._books.ledger.interrupted)
        ignores = Ignores(names=options.ignore_files, monotonic_ns=self._machine.monotonic_ns)
        beneath = None if below is None else below.beneath
        pipeline = partial(self.pipeline, commands=commands if runs else None, beneath=beneath)
        views = Views(pipeline, store, feed, beside)
        self._stores[name] = store

        async def close() -> None:
            self._stores.pop(name, None)
            feed.close()
            if beneath is not None:
                await beneath.pipeline.drain()
            await views.aclose()
            await commands.aclose()
            if below is not None:
                await below.aclose()
            for scope in sources:
                await scope.aclose()

        return OpenedRoot(
            pipeline_for=views.pipeline_for, ignores=ignores, copy_in=sources, close=close
        )

    async def _feed_of(self, name: str, store: Store, limits: Limits) -> RootFeed:
        """The feed of a root: its store's own log, or what the state keeps."""
        if isinstance(store, Logs):
            return StoreFeed(store.log)
        return await DurableFeed.open(
            self._database, name, limits=limits, announced=self._books.ledger.in_flight,
            source=store if isinstance(store, Watches) else None,
        )  # fmt: skip

    def pipeline(
        self,
        store: Store,
        feed: RootFeed,
        *,
        commands: LendsCommands | None = None,
        beneath: LowerTree | None = None,
        metered: bool = True,
    ) -> Pipeline:
        if isinstance(feed, DurableFeed):
            ledger = self._books.ledger.for_root(feed.keep_changes, feed.changes_kept)
        else:
            assert isinstance(store, Logs)
            ledger = self._books.ledger.for_log(store.log.notes_id)
        tree = store if beneath is None else beneath.pipeline.store
        return Pipeline(
            store=store, standing=self._standing, policy=self._policy, hooks=self.hooks,
            ledger=ledger, changes=feed, machine=self._machine, approvals=self._books.approvals,
            meter=self._meter if metered else None,
            feed_for=feed_of_branch if isinstance(store, Logs) else None, commands=commands,
            interpreter=None if commands is None else interpreter_for(tree, self._state),
            beneath=beneath,
            runs=self.runs,
        )  # fmt: skip

    async def _measure(self, root: Root) -> tuple[int, int]:
        return await measure(self._stores[str(root)])

    async def _forks(self, root: Root) -> set[str] | None:
        store = self._stores[str(root)]
        if "Branches" not in store.powers:
            return None
        return {each.name for each in await branches(store).forks()}

    # --- keeping -----------------------------------------------------------------------------

    async def keep_house(self) -> None:
        """Clear away what is over."""
        await in_thread(self._temps.sweep)
        await in_thread(self._books.ledger.recover)
        await self._books.grants.prune()
        await self._books.approvals.prune()
        await self._meter.prune()
        await self._meter.remeasure_all()
        await self.runs.catch_up()  # before the records that tell of them are moved out
        if self._config.audit.retention_days is not None:
            await self._books.ledger.retain(self._config.audit.retention_days)

    async def close(self) -> None:
        for each in (self.readiness, self.notices, self.announcements):
            if each is not None:
                await each.aclose()
        self._books.faults.flush()
        await self._books.ledger.aclose()
        await self._database.aclose()
