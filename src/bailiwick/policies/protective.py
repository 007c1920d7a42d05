"""The shipped rules that protect what agents and extensions seldom have any business with.

They hold for every subject but the host program and a person who is known, and ask; where nobody
can be asked the answer is no. What may not be read unasked may not be replaced, moved or removed so
either; to make a new one is free. About the configuration of an authority nobody is asked: it
cannot be changed. Reading is whatever uses read access: a move, copy, edit, diff, archive or search
reads its source too. Each can be switched off by its id: ``[policy] off = ["protect.env"]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bailiwick.errors import ParseError
from bailiwick.operations import REPLACE, Access
from bailiwick.policies.nearness import hint_for, quoted
from bailiwick.policies.rule import Effect, Rule

_STRANGERS = ("agent_run:*", "extension:*", "automation:*", "user:anonymous")
"""Nobody who has said who they are: whoever calls a server that asks for no token is no person."""

_SECRET: tuple[Access, ...] = ("read", REPLACE, "delete", "move")
"""A secret is lost when it is replaced or taken away, not when one is made."""

_CHANGING: tuple[Access, ...] = ("write", "delete", "move")


def _protect(
    name: str,
    reason: str,
    access: tuple[Access, ...],
    *path: str,
    exempt: tuple[str, ...] = (),
    effect: Effect = "ask",
) -> Rule:
    return Rule(
        id=f"protect.{name}",
        effect=effect,
        subject=_STRANGERS,
        access=access,
        path=path,
        exempt=exempt,
        reason=reason,
        origin="protective",
    )


# A directory covers what lies in it, so `**/.git` is also all of `**/.git/**`, and the directory
# itself cannot be moved away and worked on elsewhere.
PROTECTIVE: tuple[Rule, ...] = (
    _protect(
        "env", "environment files hold secrets", _SECRET,
        "**/.env", "**/.env.*", exempt=("**/.env.example",),
    ),
    _protect(
        "keys", "this is a private key by its name", _SECRET,
        "**/*.pem", "**/*.key", "**/id_rsa*", "**/id_ed25519*", "**/.ssh", "**/.gnupg",
    ),
    _protect(
        "credentials", "this file holds credentials by its name", _SECRET,
        "**/.netrc", "**/.npmrc", "**/.pypirc", "**/.aws", "**/*credentials*.json",
    ),
    _protect(
        "git", "what stands in .git decides what git runs", _CHANGING,
        "**/.git",
    ),
    _protect(
        "config", "the configuration says who may do what", _CHANGING,
        "**/bailiwick.toml", effect="deny",
    ),
)  # fmt: skip

PROTECTIVE_IDS: tuple[str, ...] = tuple(rule.id for rule in PROTECTIVE)


def protective_rules(off: Iterable[str] = ()) -> Iterator[Rule]:
    """The shipped rules that are not switched off. Raises `ParseError` for an unknown id."""
    switched_off = frozenset(off)
    for unknown in sorted(switched_off.difference(PROTECTIVE_IDS)):
        raise ParseError(
            f"there is no shipped rule {quoted(unknown)}", hint=hint_for(unknown, PROTECTIVE_IDS)
        )
    return (rule for rule in PROTECTIVE if rule.id not in switched_off)
