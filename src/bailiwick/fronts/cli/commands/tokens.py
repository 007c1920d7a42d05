"""`bailiwick grant token`: tokens for callers over a network, shown once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bailiwick.build import agent_tokens
from bailiwick.config.units import parse_duration
from bailiwick.errors import ParseError, PathNotFound
from bailiwick.fronts.cli import EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, accesses, subject_name, takes_authority
from bailiwick.fronts.cli.authority_session import Options, at_terminal
from bailiwick.fronts.cli.output import line, moment, print_json, print_table
from bailiwick.grant import parse_subject
from bailiwick.operations import ALL_ACCESS, FILE_ACCESS, Access

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority


def takes_token(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the token; none: list all")
    parser.add_argument(
        "--subject",
        type=subject_name,
        help="whose: agent_run:ci/main, user:ann … (default: as configured, else an agent of that"
        " name)",
    )
    parser.add_argument(
        "--access",
        type=accesses,
        metavar="A,B,…",
        help="without a configuration: what an agent may do here (default: all that is done to"
        f" files), of {', '.join(sorted(ALL_ACCESS))}",
    )
    parser.add_argument("--expires-in", metavar="TIME", help="for how long: 30min, 8h, 7d")
    parser.add_argument("--revoke", action="store_true", help="end it instead")
    parser.add_argument(
        "--link", action="store_true",
        help="make a link instead that opens the console once, within ten minutes",
    )  # fmt: skip
    takes_authority(parser)


async def act(authority: Authority, options: Options) -> int:
    """Make a token, in place of the one of the same name; or end it; or list all."""
    if options.link:
        return await _link(authority, options)
    if options.name is None:
        return _list(authority, options)
    if options.revoke:
        return await _revoke(authority, options)
    book, configured = authority.tokens, authority.configured
    listed = configured.tokens.get(options.name)
    subject = options.subject or listed
    if subject is None and is_configured(authority):
        raise ParseError(
            "the configuration lists no token of this name", hint="say whose it is: --subject"
        )
    subject = subject or agent_tokens.subject_of(options.name)
    if listed is not None and subject != listed:
        raise ParseError(f"the configuration says that this token is for {listed}")
    lasts = None if options.expires_in is None else parse_duration(options.expires_in)
    access = await _grant(authority, options, subject, lasts)
    secret = await book.issue(
        options.name, subject, by=at_terminal(), front="cli", expires_in=lasts,
        origin=configured.origin if listed is not None else "",
    )  # fmt: skip
    if options.json:
        more = {} if access is None else {"access": sorted(access)}
        print_json({"name": options.name, "subject": subject, "token": secret, **more})
    else:
        line(secret)
        may = "" if access is None else f", who may {', '.join(sorted(access))} here"
        sys.stderr.write(f"note: this is shown once; it is for {subject}{may}\n")
    return EXIT_OK


async def _grant(
    authority: Authority, options: Options, subject: str, lasts: float | None
) -> frozenset[Access] | None:
    """Where no configuration says what an agent may do, a token alone would be of no use: it has a
    grant of its own here, which ends with it."""
    if is_configured(authority) or not agent_tokens.is_agent(subject):
        if options.access is not None:
            raise ParseError("--access is for an agent where there is no configuration")
        return None
    [root] = map(str, authority.roots())
    if options.access is None and authority.holdings(parse_subject(subject), root):
        return None
    access: frozenset[Access] = frozenset(options.access or FILE_ACCESS)
    await agent_tokens.grant_with(
        authority, options.name, subject, root=root, access=access, expires_in=lasts,
        by=at_terminal(), front="cli",
    )  # fmt: skip
    return access


def is_configured(authority: Authority) -> bool:
    return authority.configured.file is not None


async def _link(authority: Authority, options: Options) -> int:
    """A login for the person at this terminal. The server's address is not known here."""
    if options.name is not None or options.subject is not None or options.revoke:
        raise ParseError("a link is for the person at this terminal: give --link alone")
    secret = await authority.tokens.new_link(at_terminal())
    if options.json:
        print_json({"link": secret})
    else:
        line(f"/login?link={secret}")
        sys.stderr.write("note: open this on the server's address, within ten minutes\n")
    return EXIT_OK


async def _revoke(authority: Authority, options: Options) -> int:
    if not await authority.tokens.revoke(options.name, by=at_terminal(), front="cli"):
        raise PathNotFound(
            f"there is no token {options.name[:80]!r}", hint="`bailiwick grant token` lists them"
        )
    if not is_configured(authority):
        await agent_tokens.end_with(authority, options.name, by=at_terminal(), front="cli")
    if options.json:
        print_json({"name": options.name, "revoked": True})
    else:
        line(f"{options.name}: revoked")
    return EXIT_OK


def _list(authority: Authority, options: Options) -> int:
    found = authority.tokens.tokens()
    if options.json:
        print_json(found)
        return EXIT_OK
    print_table(
        ("NAME", "SUBJECT", "GRANT", "MADE", "UNTIL"),
        [
            (
                each.name, each.subject, each.grant_id or "", moment(each.created_ns / 1e9),
                "" if each.expires_ns is None else moment(each.expires_ns / 1e9),
            )
            for each in found
        ],
    )  # fmt: skip
    return EXIT_OK
