"""What people took back of what an agent did, as a resource of its root: ``bailiwick-review:///ROOT``.

It is listed while there is anything that the agent was not told yet, and told to who subscribed to
it. To read it takes nothing away: the next result says it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from bailiwick.fronts.mcp.addresses import decoded
from bailiwick.notices import Notice, ReviewNotice
from bailiwick.scope import Scope
from bailiwick.scope.front_access import has_review_notes, waiting_review_notes

if TYPE_CHECKING:
    from bailiwick.toolbox import Toolbox

_START: Final = "bailiwick-review:///"

Follow = Callable[[Callable[[Notice], None]], Callable[[], None]]
"""Has somebody hear of notices, until what it returns is called."""


def review_uri(root: str) -> str:
    return _START + quote(root, safe="")


def reviewed_root(uri: str) -> str | None:
    """The root that an address of a review is of; None where it is another address. Raises
    `ParseError`."""
    return decoded(uri[len(_START) :]) if uri.startswith(_START) else None


async def read_notes(scope: Scope, root: str) -> dict[str, Any]:
    """The notes that wait, as a resource."""
    notes = [
        {"path": str(each.path), "lines": each.lines, "note": each.note, "by": each.by}
        for each in await waiting_review_notes(scope)
    ]
    text = msgspec.json.encode({"review": notes}).decode()
    content = {"uri": review_uri(root), "mimeType": "application/json", "text": text}
    return {"contents": [content]}


async def listed_notes(scope: Scope, root: str) -> list[dict[str, Any]]:
    """The resource, where it says anything."""
    if not has_review_notes(scope):
        return []
    return [{
        "uri": review_uri(root), "name": "review", "mimeType": "application/json",
        "description": "What a person took back of what you changed, and why.",
    }]  # fmt: skip


async def follow_notes(
    follow: Follow, box: Toolbox, heard: Callable[[], None]
) -> Callable[[], None]:
    """Hear of each rejection of what the agent of a box did, until what this returns is called."""

    async def whose(scope: Scope) -> tuple[str, str]:
        return str(scope.root), str(scope.subject)

    agent = await box.actor.run(whose)

    def told(notice: Notice) -> None:
        is_rejection = isinstance(notice, ReviewNotice) and notice.kind == "rejected"
        if is_rejection and (notice.root, notice.subject) == agent:  # type: ignore[union-attr]
            heard()

    return follow(told)
