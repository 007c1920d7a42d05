"""From the text of ``bailiwick.toml`` to a `Config`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar, get_args

from bailiwick.config.roots import read_quota, read_root
from bailiwick.config.tables import ConfigDocument, Table
from bailiwick.config.toml_positions import Positions, TomlPosition, scan
from bailiwick.config.values import (
    AskConfig,
    AuditConfig,
    AuditPaths,
    Config,
    ExtensionConfig,
    GrantConfig,
    NotifyConfig,
    RateConfig,
    ServerConfig,
    StateConfig,
    Surface,
    TlsConfig,
    TokenConfig,
)
from bailiwick.errors import ParseError, escape_for_display
from bailiwick.grant import check_reason, parse_subject
from bailiwick.model import Durability
from bailiwick.operations import OPERATIONS
from bailiwick.paths import ROOT, parse
from bailiwick.policies.manifest import PERMISSIONS, hint_for_permission
from bailiwick.policies.nearness import hint_for, quoted
from bailiwick.policies.protective import PROTECTIVE_IDS
from bailiwick.policies.rule import (
    ACCESSES,
    EFFECTS,
    HOLDS,
    RESERVED_IDS,
    RULED,
    Rule,
    check_glob,
    check_root_pattern,
    check_subject_pattern,
    faults_of,
)

TEXT_CHARACTERS_MAX = 1024 * 1024
"""A configuration is written by hand; a larger one is another file."""

_YEAR_S = 365 * 24 * 3600

_SECTIONS = (
    "server", "state", "ask", "notify", "root", "grant", "token", "extension", "rule", "policy",
    "audit",
)  # fmt: skip

_RULE_KEYS = (
    "id", "subject", "root", "labels", "operation", "access", "path", "exempt", "exact_path",
    "holds", "grant", "destination", "command", "exact_command", "effect", "default", "reason",
)  # fmt: skip

_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL).fullmatch

_GRANT_ID = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}", re.ASCII).fullmatch
"""No colon, which ids that were not given have, and not only digits: those of run time."""

Item = TypeVar("Item")


def load(text: str, *, source: str) -> Config:
    """The configuration that ``text`` is; ``source`` is its name in messages.

    Raises `ParseError`, whose message begins with ``source:line:column`` and whose details hold
    ``line`` and ``column``, for the first thing that is wrong, and `Unsupported`, in the same form,
    for what is known and not built.
    """
    content, document = _parsed(text, source)
    top = Table(document, (), content)
    top.only(*_SECTIONS)
    state = _section(top, "state", _read_state) or StateConfig()
    return Config(
        source=source,
        server=_section(top, "server", _read_server),
        state=state,
        ask=_section(top, "ask", _read_ask) or AskConfig(),
        notify=_section(top, "notify", _read_notify) or NotifyConfig(),
        audit=_section(top, "audit", partial(_read_audit, state)) or AuditConfig(),
        roots=_each(top, "root", read_root, lambda root: f"the root {root.name}"),
        grants=_read_grants(top),
        tokens=_each(top, "token", _read_token, lambda token: f"a token named {token.name}"),
        extensions=_each(
            top, "extension", _read_extension, lambda each: f"the extension {each.id}"
        ),
        rules=_read_rules(top),
        off=_section(top, "policy", _read_off) or (),
    )


# --- text ------------------------------------------------------------------------------------


def _parsed(text: str, source: str) -> tuple[dict[str, Any], ConfigDocument]:
    nowhere = ConfigDocument(source, Positions({}, {}))
    text = text.removeprefix("\ufeff")
    if len(text) > TEXT_CHARACTERS_MAX:
        raise nowhere.error(TomlPosition(1, 1), "the file is too large to be a configuration")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise nowhere.error(_position(text, error.start), "this is not valid text") from None
    try:
        content = tomllib.loads(text)
        return content, ConfigDocument(source, scan(text))
    except RecursionError:
        raise nowhere.error(TomlPosition(1, 1), "the file is nested too deeply") from None
    except ValueError as error:
        raise _syntax_error(nowhere, text, str(error)) from None


def _syntax_error(document: ConfigDocument, text: str, message: str) -> ParseError:
    placed = _PLACE(message)
    if placed is not None:
        what, line, column = placed[1], int(placed[2]), int(placed[3])
    else:
        what = message.removesuffix(" (at end of document)")
        line, column = _position(text, len(text))
    shown = escape_for_display(what[:1].lower() + what[1:])
    return document.error(TomlPosition(line, column), f"this is not TOML: {shown}")


def _position(text: str, index: int) -> TomlPosition:
    before = text[:index]
    return TomlPosition(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


# --- sections --------------------------------------------------------------------------------


def _section(top: Table, key: str, read: Callable[[Table], Item]) -> Item | None:
    table = top.table(key)
    if table is None:
        return None
    return read(table)


def _each(
    top: Table,
    key: str,
    read: Callable[[Table], Item],
    name: Callable[[Item], str] | None = None,
) -> tuple[Item, ...]:
    """The items of a list of tables, no two of the same name."""
    made: list[Item] = []
    lines: dict[str, int] = {}
    for table in top.tables(key):
        item = read(table)
        made.append(item)
        if name is not None:
            called = name(item)
            if called in lines:
                shown = escape_for_display(called)
                raise table.error(None, f"{shown} is there already, on line {lines[called]}")
            lines[called] = table.line
    return tuple(made)


def _read_server(table: Table) -> ServerConfig:
    table.only("host", "port", "workers", "tls", "rates")
    default = ServerConfig()
    tls = table.table("tls")
    rates = table.table("rates")
    return ServerConfig(
        host=table.text("host") or default.host,
        port=_or(table.integer("port", 0, 65_535), default.port),
        workers=table.integer("workers", 1, 1_024) or default.workers,
        tls=None if tls is None else _read_tls(tls),
        rates=default.rates if rates is None else _read_rates(rates),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _read_tls(table: Table) -> TlsConfig:
    table.only("certificate", "key")
    table.require("certificate", "key")
    return TlsConfig(certificate=table.text("certificate") or "", key=table.text("key") or "")


def _read_rates(table: Table) -> RateConfig:
    table.only("reads_per_minute", "changes_per_minute")
    return RateConfig(
        reads_per_minute=table.integer("reads_per_minute", 1),
        changes_per_minute=table.integer("changes_per_minute", 1),
    )


def _read_state(table: Table) -> StateConfig:
    table.only("path", "url", "memory", "durability")
    path, memory = table.text("path"), table.flag("memory") or False
    url = table.text("url")
    if url is not None and not url.startswith(("postgres://", "postgresql://")):
        message = "the address of a database begins with postgres://"
        raise table.error("url", message, "postgres://USER@HOST/DATABASE")
    if memory and url is not None:
        raise table.error("memory", "the state is either in memory or in a database")
    if memory and path is not None:
        raise table.error("memory", "the state is either in memory or at a path")
    durability = table.choice("durability", get_args(Durability))
    if url is not None and durability is not None:
        message = "how durable a commit is says PostgreSQL itself (synchronous_commit)"
        raise table.error("durability", message, "leave it out")
    if memory and durability is not None:
        raise table.error("durability", "a state in memory is not durable", "leave it out")
    return StateConfig(path=path, url=url, memory=memory, durability=durability or "full")


def _read_ask(table: Table) -> AskConfig:
    table.only("timeout", "surface", "roots")
    default = AskConfig()
    timeout = table.duration("timeout")
    if timeout is not None and not 0 < timeout <= _YEAR_S:
        raise table.error("timeout", "a question waits longer than nothing and less than a year")
    return AskConfig(
        timeout_s=default.timeout_s if timeout is None else timeout,
        surface=table.choice("surface", get_args(Surface)) or default.surface,
        roots=table.flag("roots") or False,
    )


def _read_notify(table: Table) -> NotifyConfig:
    table.only("url", "secret_file", "desktop")
    url, secret_file = table.text("url"), table.text("secret_file")
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise table.error("url", "a webhook is reached by http or https", "https://…")
        if secret_file is None:
            message = "what a webhook is sent is signed: its secret is missing"
            raise table.error("url", message, 'secret_file = "…", a file of mode 600')
    elif secret_file is not None:
        raise table.error("secret_file", "there is no webhook", "name its url, too")
    return NotifyConfig(url=url, secret_file=secret_file, desktop=table.flag("desktop"))


def _read_audit(state: StateConfig, table: Table) -> AuditConfig:
    table.only("paths", "retention_days", "otel")
    days = table.integer("retention_days", 1, 36_500)
    if days is not None and state.memory:
        message = "a state in memory has no place that old records are moved to"
        raise table.error("retention_days", message, "leave it out, or keep the state at a path")
    if days is not None and state.url is not None:
        message = "records of a state that servers share are moved to no machine's files"
        raise table.error("retention_days", message, "leave it out")
    return AuditConfig(
        paths=table.choice("paths", get_args(AuditPaths)) or "raw",
        retention_days=days,
        otel=table.flag("otel") or False,
    )


def _read_off(table: Table) -> tuple[str, ...]:
    table.only("off")
    off = table.texts("off", one=True) or ()
    for number, each in enumerate(off):
        if each not in PROTECTIVE_IDS:
            message = f"there is no shipped rule {quoted(each)}"
            raise table.error("off", message, hint_for(each, PROTECTIVE_IDS), at=number)
    return off


def _read_grants(top: Table) -> tuple[GrantConfig, ...]:
    lines: dict[str, int] = {}

    def read(table: Table) -> GrantConfig:
        grant = _read_grant(table)
        if grant.id is not None:
            if grant.id in lines:
                message = f"{quoted(grant.id)} is the id of the grant on line {lines[grant.id]}"
                raise table.error("id", message)
            lines[grant.id] = table.line
        return grant

    return _each(top, "grant", read)


def _read_grant(table: Table) -> GrantConfig:
    table.only(
        "id", "subject", "root", "access", "path", "allowed", "denied", "expires_in", "reason",
        "quota",
    )  # fmt: skip
    table.require("subject", "root", "access")
    subject, root = table.text("subject") or "", table.text("root") or ""
    table.checked("subject", lambda: check_subject_pattern(subject))
    table.checked("root", lambda: check_root_pattern(root))
    access = table.words("access", ACCESSES, one=True)
    if not access:
        raise table.error("access", "a grant holds at least one access")
    path = table.text("path")
    if path is not None and path.startswith("/"):
        message = "the path of a grant is relative to its root"
        raise table.error("path", message, "leave out the mount point")
    reason = table.text("reason", empty=True) or ""
    table.checked("reason", lambda: check_reason(reason))
    allowed, denied = table.texts("allowed", one=True) or (), table.texts("denied", one=True) or ()
    for key, patterns in (("allowed", allowed), ("denied", denied)):
        _check_globs(table, key, patterns)
    expires_in = table.duration("expires_in")
    if expires_in is not None and not 0 < expires_in <= 100 * _YEAR_S:
        raise table.error("expires_in", "a grant holds longer than nothing, up to 100 years")
    return GrantConfig(
        subject=subject,
        root=root,
        access=frozenset(access),
        path=ROOT if path is None else table.checked("path", lambda: parse(path).path),
        allowed=allowed,
        denied=denied,
        expires_in_s=expires_in,
        reason=reason,
        quota=read_quota(table),
        id=_read_grant_id(table),
        line=table.line,
    )


def _read_grant_id(table: Table) -> str | None:
    given = table.text("id")
    if given is not None and not _GRANT_ID(given):
        hint = "a letter first, then letters, digits, - _ and ., up to 64 of them"
        raise table.error("id", f"{quoted(given)} is no id of a grant", hint)
    return given


def _check_globs(table: Table, key: str, patterns: tuple[str, ...]) -> None:
    for number, pattern in enumerate(patterns):
        try:
            check_glob(pattern)
        except ParseError as error:
            raise table.error(key, error.message, error.hint, at=number) from None


def _read_token(table: Table) -> TokenConfig:
    table.only("name", "subject")
    table.require("name", "subject")
    name, subject = table.text("name") or "", table.text("subject") or ""
    if not name.isprintable():
        raise table.error("name", "the name of a token is printable text")
    table.checked("subject", lambda: check_subject_pattern(subject))
    table.checked("subject", lambda: parse_subject(subject))
    return TokenConfig(name=name, subject=subject, line=table.line)


def _read_extension(table: Table) -> ExtensionConfig:
    table.only("id", "permissions")
    table.require("id", "permissions")
    name = table.text("id") or ""
    table.checked("id", lambda: parse_subject(f"extension:{name}"))
    permissions = table.texts("permissions") or ()
    for number, each in enumerate(permissions):
        if each not in PERMISSIONS:
            message = f"{quoted(each)} is no permission"
            raise table.error("permissions", message, hint_for_permission(each), at=number)
    return ExtensionConfig(id=name, permissions=permissions, line=table.line)


# --- rules -----------------------------------------------------------------------------------


def _read_rules(top: Table) -> tuple[Rule, ...]:
    number = 0

    def read(table: Table) -> Rule:
        nonlocal number
        number += 1
        return _read_rule(table, number)

    return _each(top, "rule", read, lambda rule: f"a rule with the id {rule.id}")


def _read_rule(table: Table, number: int) -> Rule:
    table.only(*_RULE_KEYS)
    table.require("effect")
    effect = table.choice("effect", EFFECTS)
    assert effect is not None
    default: Literal["allow", "deny"] | None = table.choice("default", ("allow", "deny"))
    if default is not None and effect != "ask":
        raise table.error("default", "only a rule that asks has a default", "leave it out")
    rule = Rule(
        id=_read_id(table, number),
        effect=effect,
        subject=_listed(table, "subject"),
        root=_listed(table, "root"),
        path=_listed(table, "path"),
        exempt=_listed(table, "exempt"),
        exact_path=_listed(table, "exact_path"),
        labels=table.labels("labels"),
        operation=_listed_words(table, "operation", tuple(OPERATIONS)),
        access=_listed_words(table, "access", RULED),
        holds=table.choice("holds", HOLDS) or "any",
        grant=table.text("grant"),
        destination=table.text("destination"),
        command=_listed(table, "command"),
        exact_command=table.text("exact_command"),
        default=default or "deny",
        reason=table.text("reason", empty=True) or "",
        line=table.line,
    )
    for fault in faults_of(rule):
        raise table.error(fault.field, fault.message, fault.hint, at=fault.at)
    return rule


def _read_id(table: Table, number: int) -> str:
    given = table.text("id")
    if given is None:
        return f"rule.{number}"
    if not given.isprintable():
        raise table.error("id", "an id is printable text")
    if given.startswith(RESERVED_IDS):
        hint = f"choose one that does not begin with {', '.join(RESERVED_IDS)}"
        raise table.error("id", f"{quoted(given)} is reserved", hint)
    return given


def _listed(table: Table, key: str) -> tuple[str, ...]:
    listed = table.texts(key, one=True)
    if listed == ():
        raise table.error(key, f"{quoted(key)} is an empty list", "leave it out to mean all")
    return listed or ()


def _listed_words(table: Table, key: str, words: tuple[Any, ...]) -> tuple[Any, ...]:
    listed = table.words(key, words, one=True)
    if listed == ():
        raise table.error(key, f"{quoted(key)} is an empty list", "leave it out to mean all")
    return listed or ()
