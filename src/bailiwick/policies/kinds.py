"""What each kind of root allows by itself: the rules that hold where no other rule matched.

For each kind first who may do what, then a refusal that says why everyone else may not. A rule that
allows everything allows no program to be run (see `bailiwick.policies.rule`): so that is for
workspaces, and nowhere else.
"""

from __future__ import annotations

from bailiwick.grant import RootKind
from bailiwick.operations import Access
from bailiwick.policies.rule import Effect, Holds, Rule

_LOOKING: tuple[Access, ...] = ("read", "list", "metadata", "watch")
_PEOPLE_AND_CORE = ("user:*", "core:*")
_TRUSTED = (*_PEOPLE_AND_CORE, "agent_run:*")


def _rule(
    kind: RootKind,
    name: str,
    effect: Effect,
    subject: tuple[str, ...] = (),
    access: tuple[Access, ...] = (),
    *,
    holds: Holds = "any",
    reason: str = "",
) -> Rule:
    return Rule(
        id=f"kind.{kind}.{name}",
        effect=effect,
        subject=subject,
        root=(f"{kind}:*",),
        access=access,
        holds=holds,
        reason=reason,
        origin="kind",
    )


def _refusal(kind: RootKind, reason: str) -> Rule:
    return _rule(kind, "others", "deny", reason=reason)


WORKSPACE = (
    _rule("workspace", "commands", "allow", _PEOPLE_AND_CORE, ("execute",)),
    _rule(
        "workspace", "agent-commands", "ask", ("agent_run:*",), ("execute",),
        reason="a command of an agent",
    ),
    _rule("workspace", "trusted", "allow", _TRUSTED),
    _rule("workspace", "looking", "allow", (), _LOOKING),
    _refusal("workspace", "extensions and automations only look at a workspace"),
)  # fmt: skip

EXTENSION_STORAGE = (
    _rule("extension-storage", "own", "allow", ("extension:*",), holds="own-id"),
    _rule("extension-storage", "core", "allow", ("core:*",), _LOOKING),
    _refusal("extension-storage", "the storage of an extension is its own"),
)

ARTIFACT = (
    _rule("artifact", "core", "allow", ("core:*",)),
    _rule("artifact", "makers", "allow", holds="write"),
    _rule("artifact", "looking", "allow", (), _LOOKING),
    _refusal("artifact", "artifacts are changed only under a grant that holds write"),
)

TEMP = (
    _rule("temp", "owner", "allow", holds="owner"),
    _refusal("temp", "a temporary root is for whoever made it"),
)

KNOWLEDGE = (
    _rule("knowledge", "explicit", "allow", holds="explicit"),
    _refusal("knowledge", "knowledge needs a grant that names this subject and this root"),
)

# Downloads are staged: nothing moves out. `copy_from` brings a file into another root, under that
# root's own grant and policy.
DOWNLOADS = (
    _rule("downloads", "trusted", "allow", _TRUSTED, (*_LOOKING, "write", "delete")),
    _rule("downloads", "staging", "allow", (), (*_LOOKING, "write")),
    _refusal("downloads", "downloads are staged: they are copied out, not moved"),
)

SECRET = (
    _rule("secret", "read", "ask", access=("read",), holds="explicit", reason="this is a secret"),
    _rule(
        "secret", "keepers", "allow", _PEOPLE_AND_CORE, ("metadata", "write", "delete"),
        holds="explicit",
    ),
    _refusal("secret", "secrets need a grant that names this subject and this root"),
)  # fmt: skip

KINDS: tuple[Rule, ...] = (
    *WORKSPACE, *EXTENSION_STORAGE, *ARTIFACT, *TEMP, *KNOWLEDGE, *DOWNLOADS, *SECRET,
)  # fmt: skip
