"""What an agent may ask of files beyond the protocol's two calls, as the protocol lets it be added.

The protocol reads and writes whole files of text: it has no listing, no edit, no removal, no
condition on a write and no undo. It reserves method names that begin with an underscore and the
member ``_meta`` for such things, and wants them announced in the capabilities. So they are:

- the methods of `CALLS`, each with ``sessionId`` and absolute paths like the protocol's own;
- ``_meta.bailiwick`` of a write may hold ``expectedSha256``, and that of an answer says what
  content was read or written: its ``sha256``, and the ``requestId`` that `UNDO` takes.

An agent that knows nothing of this is not concerned; one that does asks the capabilities first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, NamedTuple

from bailiwick.approvals import Asker
from bailiwick.errors import ParseError, escape_for_display
from bailiwick.fronts.acp.files import FileCalls, check_text
from bailiwick.operations import Access
from bailiwick.scope import Scope

PREFIX = "_bailiwick/"
LIST, EDIT, REMOVE, UNDO = (f"{PREFIX}{name}" for name in ("list", "edit", "remove", "undo"))

META = "bailiwick"
"""Under which name our part of a ``_meta`` stands, beside those of others."""

_NEEDS: dict[str, frozenset[Access]] = {
    LIST: frozenset(("list",)),
    EDIT: frozenset(("read", "write")),
    REMOVE: frozenset(("delete",)),
    UNDO: frozenset(("write",)),
}

_TAKES: dict[str, tuple[str, ...]] = {
    LIST: ("path", "cursor"),
    EDIT: ("path", "oldText", "newText", "replaceAll", "expectedSha256"),
    REMOVE: ("path", "recursive"),
    UNDO: ("requestId",),
}
"""What each method is given, besides its session."""

Given = dict[str, Any]


class Served(NamedTuple):
    """Which calls an agent is told of: the protocol's two, and ``more`` of ours. ``terminal`` is
    whether the protocol's terminals are served, too; where not, the editor says that."""

    read: bool
    write: bool
    more: list[str]
    terminal: bool = False


def served(access: Collection[Access], powers: Collection[str], *, trusted: bool) -> list[str]:
    """The methods that there is any use in calling: the others are refused by the scope."""
    return [
        method
        for method, needs in _NEEDS.items()
        if needs <= frozenset(access)
        and (trusted or method == LIST)
        and (method != UNDO or "history" in powers)
    ]


def announcement(methods: list[str]) -> Given:
    """What the file capabilities say of it, in their ``_meta``."""
    return {META: {"methods": methods}}


def expected_sha256(meta: object) -> str | None:
    """The condition of a write, from its ``_meta``. Raises `ParseError` for one that is none: a
    condition that nobody understood must not pass for a write without one."""
    expected = _ours_in(meta, "expectedSha256").get("expectedSha256")
    return None if expected is None else check_text("expectedSha256", expected)


def _ours_in(meta: object, *names: str) -> Given:
    """Our part of a ``_meta``, which may have members of these names."""
    if not isinstance(meta, dict):
        return {}
    if any(isinstance(name, str) and name != META and name.casefold() == META for name in meta):
        raise ParseError(f"_meta.{META} is written in lower case")
    ours = meta.get(META)
    if ours is None:
        return {}
    if not isinstance(ours, dict):
        raise ParseError(f"_meta.{META} must be an object")
    _check_names(f"_meta.{META}", ours, names)
    return ours


def _check_names(where: str, given: Given, names: Collection[str]) -> None:
    """Whoever mistypes a name is told, and does not get a call without what it was to say."""
    unknown = sorted(given.keys() - names)
    if unknown:
        known = ", ".join(names) or "nothing"
        raise ParseError(
            f"{where} has no member {escape_for_display(unknown[0])}", hint=f"it takes {known}"
        )


def about(**told: str | None) -> Given:
    """The ``_meta`` of an answer."""
    return {META: {name: value for name, value in told.items() if value is not None}}


async def answer(files: FileCalls, method: str, given: Given, asker: Asker | None) -> Given:
    """Make a call of `CALLS`, and its result."""
    _check_names(method, given, ("sessionId", *_TAKES[method], "_meta"))
    _ours_in(given.get("_meta"))
    return await CALLS[method](files, given, asker)


async def _list(files: FileCalls, given: Given, asker: Asker | None) -> Given:
    place = files.place_of(check_text("path", given.get("path")))
    cursor = given.get("cursor")
    if cursor is not None:
        check_text("cursor", cursor)

    async def listed(scope: Scope) -> Given:
        page = await scope.list(place, cursor=cursor, include_ignored=True)
        entries = [
            {
                "name": entry.name, "path": files.shown(str(entry.path)), "kind": entry.type,
                "sizeBytes": entry.size, "ignored": entry.ignored,
            }
            for entry in page.entries
        ]  # fmt: skip
        more = {} if page.next_cursor is None else {"nextCursor": page.next_cursor}
        return {"entries": entries, **more}

    return await files.run(listed, asker)


async def _edit(files: FileCalls, given: Given, asker: Asker | None) -> Given:
    place = files.place_of(check_text("path", given.get("path")))
    old = check_text("oldText", given.get("oldText"))
    new = check_text("newText", given.get("newText"))
    replace_all = _flag("replaceAll", given)
    expected = given.get("expectedSha256")
    if expected is not None:
        check_text("expectedSha256", expected)

    async def edit(scope: Scope) -> Given:
        edited = await scope.edit(
            place, old=old, new=new, replace_all=replace_all, expected_sha256=expected
        )
        return {
            "replacements": edited.replacements, "firstChangedLine": edited.first_changed_line,
            "sha256": edited.sha256, "requestId": edited.request_id,
        }  # fmt: skip

    return await files.run(edit, asker)


async def _remove(files: FileCalls, given: Given, asker: Asker | None) -> Given:
    place = files.place_of(check_text("path", given.get("path")))
    recursive = _flag("recursive", given)

    async def remove(scope: Scope) -> Given:
        return {"requestId": (await scope.remove(place, recursive=recursive)).request_id}

    return await files.run(remove, asker)


async def _undo(files: FileCalls, given: Given, asker: Asker | None) -> Given:
    request_id = check_text("requestId", given.get("requestId"))

    async def undo(scope: Scope) -> Given:
        undone = await scope.undo(request_id)
        return {
            "undone": [files.shown(str(path)) for path in undone.undone],
            "conflicts": [
                {"path": files.shown(str(each.path)), "reason": each.reason}
                for each in undone.conflicts
            ],
            "requestId": undone.request_id,
        }

    return await files.run(undo, asker)


def _flag(name: str, given: Given) -> bool:
    value = given.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ParseError(f"{name} must be true or false")
    return value


CALLS: dict[str, Callable[[FileCalls, Given, Asker | None], Awaitable[Given]]] = {
    LIST: _list, EDIT: _edit, REMOVE: _remove, UNDO: _undo,
}  # fmt: skip
"""The methods of the extension."""
