"""`bailiwick grant`: who may do what, where; and grants for other sandboxes."""

from __future__ import annotations

import os
import shlex
import sys
import time
from typing import TYPE_CHECKING

from bailiwick.config.units import parse_duration
from bailiwick.errors import (
    GrantExpired,
    GrantRevoked,
    PathNotFound,
    Unsupported,
    escape_for_display,
)
from bailiwick.fronts.cli import EXIT_OK, exports
from bailiwick.fronts.cli.arguments import Parser, accesses, takes_authority
from bailiwick.fronts.cli.authority_session import (
    Options,
    at_terminal,
    note_unsynchronised,
    with_authority,
)
from bailiwick.fronts.cli.commands import tokens
from bailiwick.fronts.cli.output import (
    line,
    moment,
    print_bytes,
    print_fields,
    print_json,
    print_table,
    words,
)
from bailiwick.operations import ALL_ACCESS

if TYPE_CHECKING:
    from bailiwick.authority import CoreAuthority
    from bailiwick.state.grants.rows import GrantEntry

FORMATS = ("text", "json", "bwrap", "landlock", "docker")


def run(arguments: list[str]) -> int:
    parser = Parser("bailiwick grant", "Who may do what, where.")
    actions = parser.actions()
    takes_authority(
        actions.add("list", "List the grants that hold now.", "bailiwick grant list --json")
    )
    _showing(
        actions.add(
            "show",
            "Show a grant, or export it for another sandbox.",
            "bailiwick grant show 5f2c --format bwrap",
        )
    )
    adding = actions.add(
        "add",
        "Give a grant.",
        "bailiwick grant add --subject 'agent_run:*' --root workspace:demo --access read,list",
    )
    adding.add_argument("--subject", required=True, help="whom: user:ann, agent_run:* …")
    adding.add_argument("--root", required=True, help="where: workspace:demo, workspace:* …")
    adding.add_argument(
        "--access",
        required=True,
        type=accesses,
        metavar="A,B,…",
        help=f"what, of {', '.join(sorted(ALL_ACCESS))}",
    )
    adding.add_argument("--path", default=".", help="only beneath this path of the root")
    adding.add_argument("--expires-in", metavar="TIME", help="for how long: 30min, 8h, 7d")
    adding.add_argument("--reason", default="", help="why, for the record")
    takes_authority(adding)
    revoking = actions.add(
        "revoke", "End a grant and all that came from it.", "bailiwick grant revoke 5f2c"
    )
    revoking.add_argument("id", metavar="ID")
    takes_authority(revoking)
    tokens.takes_token(
        actions.add(
            "token",
            "Make a token for a caller over a network, list tokens, or end one.",
            "bailiwick grant token ci-agent --subject agent_run:ci/main",
        )
    )
    options = parser.parse_args(arguments)
    if options.action == "show":
        _refuse_unused(parser, options)
    looking = options.action in ("list", "show")
    return with_authority(options, _ACTIONS[options.action], looking=looking)


def _showing(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="bwrap and docker: arguments for those programs; landlock: a rule set in JSON",
    )
    parser.add_argument(
        "--read-only", action="store_true", help="export only what looks, nothing that changes"
    )
    parser.add_argument(
        "-0", "--null", action="store_true", help="end each argument with NUL, for bwrap --args"
    )
    takes_authority(parser)


def _refuse_unused(parser: Parser, options: Options) -> None:
    """An option that would change nothing is a misunderstanding."""
    if options.null and (options.json or options.format not in ("bwrap", "docker")):
        parser.error("--null is for --format bwrap and docker, without --json")
    if options.read_only and options.format in ("text", "json"):
        parser.error("--read-only is for exports: --format bwrap, landlock or docker")


async def _list(authority: CoreAuthority, options: Options) -> int:
    note_unsynchronised(authority)
    entries = authority.grants()
    if options.json:
        print_json([_document(entry) for entry in entries])
    else:
        print_table(
            ("ID", "SUBJECT", "ROOT", "PATH", "ACCESS", "UNTIL", "REASON"),
            [
                (
                    grant.id, str(grant.subject), str(grant.root), str(grant.path),
                    words(grant.access), moment(grant.expires_at), grant.reason,
                )
                for grant in (entry.grant for entry in entries)
            ],
        )  # fmt: skip
    return EXIT_OK


async def _show(authority: CoreAuthority, options: Options) -> int:
    entry = _found(authority, options.id)
    if options.format in ("bwrap", "landlock", "docker"):
        return _export(authority, entry, options)
    if options.json or options.format == "json":
        print_json(_document(entry))
        return EXIT_OK
    grant = entry.grant
    quota = grant.quota
    print_fields((
        ("id", grant.id),
        ("subject", grant.subject),
        ("root", grant.root),
        ("access", words(grant.access)),
        ("path", grant.path),
        ("allowed", ", ".join(map(str, grant.allowed))),
        ("denied", ", ".join(grant.denied)),
        ("reason", grant.reason),
        ("source", grant.source),
        ("from", entry.parent),
        ("given", moment(entry.created_ns / 1e9)),
        ("until", moment(grant.expires_at)),
        ("ended", moment(None if entry.ended_ns is None else entry.ended_ns / 1e9)),
        ("bytes at most", quota and quota.bytes),
        ("files at most", quota and quota.files),
        ("operations a minute at most", quota and quota.operations_per_minute),
    ))  # fmt: skip
    return EXIT_OK


def _export(authority: CoreAuthority, entry: GrantEntry, options: Options) -> int:
    grant = entry.grant
    _refuse_ended(entry)
    if str(grant.root).endswith("*"):
        raise Unsupported(
            f"the grant is for every root like {grant.root}", hint="a sandbox is given one root"
        )
    root = authority.root(str(grant.root))
    directory = authority.host_path(str(root))
    if directory is None or not os.path.isdir(directory):  # a volume lies in a file: no tree
        raise Unsupported(
            f"{root} is no directory of this machine", hint="export the volume to one first"
        )
    trusted = root.trusted and not options.read_only
    reach = exports.reach_of(grant, directory, root.mount_point, trusted=trusted)
    notes = ["the rules of the policy are not part of an export"]
    if options.format == "landlock":
        ruleset, more = exports.landlock_ruleset(reach)
        print_json(ruleset)
        notes += more
    else:
        export = {"bwrap": exports.bubblewrap_arguments, "docker": exports.docker_arguments}
        _print_arguments(export[options.format](reach), options)
    if not root.trusted and grant.access & exports.CHANGING:
        notes.append(f"{root} is not trusted: nothing that changes it is exported")
    if grant.expires_at is not None:
        notes.append(f"the grant ends at {moment(grant.expires_at)}, a sandbox does not")
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
    return EXIT_OK


def _refuse_ended(entry: GrantEntry) -> None:
    """A grant that has ended gives nothing any more, to no sandbox either."""
    if entry.ended_ns is not None:
        raise GrantRevoked("the grant was revoked")
    if not entry.holds(time.time_ns()):
        raise GrantExpired(f"the grant ended at {moment(entry.grant.expires_at)}")


def _print_arguments(arguments: list[str], options: Options) -> None:
    """As a list, with NULs, or quoted for a shell. Names that are no text stay the bytes they
    are."""
    if options.json:
        print_json(arguments)
        return
    if options.null:
        content = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    else:
        content = os.fsencode(" ".join(map(shlex.quote, arguments)) + "\n")
    print_bytes(content)


async def _add(authority: CoreAuthority, options: Options) -> int:
    lasts = None if options.expires_in is None else parse_duration(options.expires_in)
    if not options.root.endswith("*") and options.root not in map(str, authority.roots()):
        shown = escape_for_display(options.root)
        sys.stderr.write(f"note: the configuration has no root {shown}\n")
    grant = await authority.add_grant(
        subject=options.subject, root=options.root, access=options.access, path=options.path,
        expires_in=lasts, reason=options.reason, by=at_terminal(), front="cli",
    )  # fmt: skip
    if options.json:
        print_json(_document(_found(authority, grant.id)))
    else:
        line(grant.id)
    return EXIT_OK


async def _revoke(authority: CoreAuthority, options: Options) -> int:
    _found(authority, options.id)
    ended = await authority.revoke(options.id, by=at_terminal(), front="cli")
    if options.json:
        print_json({"id": options.id, "ended": ended})
    else:
        line(f"{ended} grant{'' if ended == 1 else 's'} ended")
    return EXIT_OK


def _found(authority: CoreAuthority, grant_id: str) -> GrantEntry:
    entry = authority.grant(grant_id)
    if entry is None:
        raise PathNotFound(
            f"there is no grant {grant_id[:80]!r}", hint="`bailiwick grant list` shows them"
        )
    return entry


def _document(entry: GrantEntry) -> dict[str, object]:
    """A grant as JSON has it; its root by name."""
    grant = entry.grant
    fields = {name: getattr(grant, name) for name in grant.__struct_fields__ if name != "limits"}
    more = {
        "kind": entry.kind, "root": str(grant.root), "configured": entry.configured,
        "created_ns": entry.created_ns, "ended_ns": entry.ended_ns,
        "holds": entry.holds(time.time_ns()),
    }  # fmt: skip
    return fields | more


_ACTIONS = {
    "list": _list, "show": _show, "add": _add, "revoke": _revoke, "token": tokens.act,
}  # fmt: skip
