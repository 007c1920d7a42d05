"""What an extension's manifest asks for: ``filesystem:<kind>:<read|write|readwrite|archive>``."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bailiwick.errors import ParseError
from bailiwick.grant import ROOT_KINDS, Extension, RootKind, StandingGrant, parse_subject
from bailiwick.operations import Access
from bailiwick.policies.nearness import hint_for, quoted

_READ: frozenset[Access] = frozenset(("read", "list", "metadata", "watch"))
_WRITE: frozenset[Access] = frozenset(("write", "delete", "move", "metadata"))

_MODES: dict[str, frozenset[Access]] = {
    "read": _READ,
    "write": _WRITE,
    "readwrite": _READ | _WRITE,
    "archive": frozenset(("archive",)),
}

PERMISSIONS: dict[str, tuple[RootKind, frozenset[Access]]] = {
    f"filesystem:{kind}:{mode}": (kind, access)
    for kind in ROOT_KINDS
    for mode, access in _MODES.items()
}
"""Every permission there is."""


def parse_permissions(permissions: Iterable[str]) -> dict[RootKind, frozenset[Access]]:
    """The access that a manifest's permissions give, by kind of root.

    Several permissions for one kind add up. Raises `ParseError` for one that is not known: what is
    not understood is never taken for less.
    """
    given: dict[RootKind, frozenset[Access]] = {}
    for permission in permissions:
        known = PERMISSIONS.get(permission)
        if known is None:
            raise ParseError(
                f"{quoted(permission)} is no permission", hint=hint_for_permission(permission)
            )
        kind, access = known
        given[kind] = given.get(kind, frozenset()) | access
    return given


def hint_for_permission(permission: str) -> str:
    near = hint_for(permission, PERMISSIONS)
    if near.startswith("did you mean"):
        return near
    return "a permission is filesystem:KIND:MODE, with MODE one of " + ", ".join(_MODES)


def manifest_grants(extension_id: str, permissions: Collection[str]) -> list[StandingGrant]:
    """What the permissions of an extension's manifest let it ask for."""
    subject = str(Extension(extension_id))
    parse_subject(subject)
    return [
        StandingGrant(
            id=f"manifest:{extension_id}:{kind}", subject=subject, access=access,
            root=f"{kind}:{extension_id if kind == 'extension-storage' else '*'}",
            reason="declared in the manifest", source="manifest",
        )
        for kind, access in parse_permissions(permissions).items()
    ]  # fmt: skip
