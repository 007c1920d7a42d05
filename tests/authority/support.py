"""Authorities to test on: a configuration, a root in memory or on disk, scopes, people, records.

`governed` opens an authority from a configuration, as an operator would write it, and gives a
`House`: who asks for scopes, plants and looks without rules, and reads what is on record.
"""

import itertools
from contextlib import asynccontextmanager

import msgspec

import bailiwick
from bailiwick.state.ledger.query import LedgerFilter
from tests.scope.support import plant, snapshot, unruled

AGENT = bailiwick.AgentRun("c1", "r1")
ME = bailiwick.User("me")
EVERYTHING = ("read", "write", "delete", "list", "move", "archive", "watch", "metadata")

ALLOW_ALL = '[[rule]]\nid = "allow-all"\neffect = "allow"\n'

_count = itertools.count(1)


def rule(effect, *path, id=None, access=(), default=None, subject=None):
    """One rule of an operator, as text."""
    lines = ["[[rule]]", f'id = "{id or effect}"', f'effect = "{effect}"']
    if path:
        lines.append(f"path = {list(path)!r}")
    if access:
        lines.append(f"access = {list(access)!r}")
    if default:
        lines.append(f'default = "{default}"')
    if subject:
        lines.append(f'subject = "{subject}"')
    return "\n".join(lines) + '\nreason = "kept"\n'


class House:
    """One authority with the root ``workspace:demo``, and what a test does with it."""

    def __init__(self, authority, place):
        self.authority = authority
        self.place = place

    async def scope(self, access=EVERYTHING, *, subject=AGENT, root="workspace:demo", **options):
        return await self.authority.request_root(subject, root, access, "a test", **options)

    async def bare(self, root="workspace:demo"):
        """The tree without any rule, grant, quota or record: to plant, and to look."""
        scope = await self.authority.request_root(
            bailiwick.Core("test"), root, {"read"}, "plant and look"
        )
        return unruled(scope)

    async def plant(self, tree, root="workspace:demo"):
        await plant(await self.bare(root), tree)

    async def tree(self, root="workspace:demo"):
        return await snapshot(await self.bare(root))

    async def records(self, **wanted):
        """Everything on record, oldest first."""
        ledger = self.authority.ledger
        await ledger.flush()
        found, cursor = [], None
        while True:
            page = await ledger.query(LedgerFilter(**wanted), cursor=cursor, limit=1000)
            found += page.records
            cursor = page.next_cursor
            if cursor is None:
                return found[::-1]

    async def operations(self):
        """What was done or refused through scopes, oldest first."""
        return [each for each in await self.records() if each.verb != "authority"]

    async def export(self):
        await self.authority.ledger.flush()
        return b"".join([line async for line in self.authority.ledger.export()])


def configuration(place, rules="", *, options="", state="memory = true", more=""):
    root = "memory = true" if place is None else f"path = {str(place)!r}\ndurability = 'rename'"
    if "sqlite:" in str(place):
        root = f"volume = {place!r}"
    return f"""
[state]
{state}
{more}
[[root]]
id = "demo"
kind = "workspace"
trusted = true
mount_point = "/workspace"
{root}
{options}
[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = {list(EVERYTHING)!r}
{rules}
"""


@asynccontextmanager
async def governed(tmp_path, rules="", *, on_disk=False, state_dir=None, place=None, **options):
    """A `House` on memory, or on a directory beneath ``tmp_path``."""
    if on_disk and place is None:
        place = tmp_path / f"tree-{next(_count)}"
        place.mkdir(mode=0o700)
    if state_dir is not None:
        options.setdefault("state", 'durability = "rename"')
    file = tmp_path / f"bailiwick-{next(_count)}.toml"
    file.write_text(configuration(place, rules, **options))
    opening = bailiwick.Authority.from_config(
        file, state_dir=None if state_dir is None else str(state_dir)
    )
    async with opening as authority:
        yield House(authority, place)


class Person:
    """Someone who is asked, answers the same each time, and keeps what they saw."""

    def __init__(self, answer="no", then=None):
        self.answer = answer
        self.then = then
        self.asked = []

    async def __call__(self, approval):
        self.asked.append(approval)
        if self.then is not None:
            await self.then(approval)
        return self.answer

    @property
    def questions(self):
        return [approval.question for approval in self.asked]


def everything_said(value):
    """All text that a caller gets from a result or an error."""
    if isinstance(value, BaseException):
        parts = [str(value), repr(value), repr(vars(value))]
        parts += [repr(getattr(value, name, None)) for name in ("path", "hint", "details")]
        drawn = getattr(value, "details", {}).get("approval_id", "")  # may spell any word by chance
        return " ".join(parts).replace(drawn, "") if drawn else " ".join(parts)
    if isinstance(value, msgspec.Struct):
        return repr(value) + repr(msgspec.to_builtins(value, enc_hook=repr))
    return repr(value)


async def refusal(work):
    """The error that a call ended with, or None."""
    try:
        await work
    except bailiwick.BailiwickError as error:
        return error
    return None
