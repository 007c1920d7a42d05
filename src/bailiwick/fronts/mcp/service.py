"""What is served, whoever speaks the protocol: tools, resources, and the questions in between.

Values in and out are those of the protocol, as plain dictionaries. Which dialect they are wrapped
in, and how they travel, is not known here.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar

from bailiwick.approvals import Asker
from bailiwick.errors import BailiwickError, ParseError, Unsupported
from bailiwick.fronts.mcp import resources
from bailiwick.fronts.mcp.addresses import TEMPLATE, Address, parse_address
from bailiwick.fronts.mcp.answers import tool_result
from bailiwick.fronts.mcp.completion import complete_path, complete_root, completion
from bailiwick.fronts.mcp.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, RpcRefusal, refused
from bailiwick.fronts.mcp.questions import Again, Peer, settled
from bailiwick.fronts.mcp.review_notes import (
    Follow,
    follow_notes,
    listed_notes,
    read_notes,
    reviewed_root,
)
from bailiwick.model import Page
from bailiwick.patience import WAITS_SECONDS_MAX, keeping
from bailiwick.scope import Scope
from bailiwick.toolbox import Pending, Tool, Toolbox, failure
from bailiwick.toolbox.failures import nothing_offered
from bailiwick.toolbox.hints import ONE_OF, Advice

_ROOT = "root"

RUN_META = "bailiwick/run"
"""The key in ``_meta`` that names a run: its title, or an object with ``title`` and ``step``."""

_URI_CHARACTERS_MAX = 8_192
"""An address that is told again with what is wrong with it; a longer one leads nowhere anyway."""


Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def _in_time(
    answered: Callable[Given, Awaitable[Answer]],
) -> Callable[Given, Coroutine[Any, Any, Answer]]:
    """Have all that one request waits for databases take no longer together than over HTTP."""

    @functools.wraps(answered)
    async def answer(*given: Given.args, **named: Given.kwargs) -> Answer:
        with keeping(WAITS_SECONDS_MAX):
            return await answered(*given, **named)

    return answer


class Service:
    """The workspaces of one agent, by the names of their roots.

    With several of them each tool takes a ``root``. Resources are there where files may be read
    and listed by tools. ``wait_s`` is how long a call waits for whoever looks at the console, where
    it does not say that it waits longer.
    """

    def __init__(
        self, boxes: Mapping[str, Toolbox], wait_s: float = 0.0, follow: Follow | None = None
    ) -> None:
        """``follow`` has somebody hear of what people say of changes."""
        self.boxes = dict(boxes)
        self._wait_s = wait_s
        self._follow = follow
        self._alone = next(iter(self.boxes.values())) if len(self.boxes) == 1 else None
        self._structured = any(box.config.structured for box in self.boxes.values())
        self._tools = {tool.name: tool for box in self.boxes.values() for tool in box.tools}
        self.tools = [self._listed(tool) for tool in self._tools.values()]
        self.has_resources = {"read_file", "ls"} <= self._tools.keys()

    @property
    def instructions(self) -> str:
        """What the client may tell its model before it uses the tools."""
        if not self.boxes:
            return "There is no workspace here."
        text = next(iter(self.boxes.values())).system_prompt
        if self._alone is None:
            text += f"\nThere are several workspaces: root is one of {', '.join(self.boxes)}."
        return text

    async def aclose(self) -> None:
        """Let go of the agent's scopes. Those that were given are closed by who opened them."""
        for box in self.boxes.values():
            await box.aclose()

    # --- tools -----------------------------------------------------------------------------

    def list_tools(self) -> dict[str, Any]:
        return {"tools": self.tools}

    @_in_time
    async def call_tool(
        self,
        peer: Peer,
        name: str,
        arguments: dict[str, Any] | None,
        again: Again,
        wait_s: float = 0.0,
    ) -> dict[str, Any]:
        """Raises `RpcRefusal` for a tool that is not there; whatever else fails is an answer.
        ``wait_s`` is how long it waits for whoever looks at the console."""
        if name not in self._tools:
            raise RpcRefusal(INVALID_PARAMS, "Unknown tool", {"tools": list(self._tools)})
        box = self._alone
        if box is None:
            try:
                box, arguments = self._chosen(arguments)
            except ParseError as error:
                return tool_result(failure(error))
        chosen = box
        try:
            _name_run(chosen, getattr(again, "meta", None))
        except ParseError as error:
            return tool_result(failure(error))

        longest = max(wait_s, self._wait_s)

        def run(asker: Asker | None) -> Any:
            # A client that asks its person is waited for; nobody else is, unless it is said so.
            return chosen.call(name, arguments, asker=asker, wait_s=longest)

        outcome = await settled(
            peer, again, run, lambda: chosen.attempt(name, arguments), waits=longest > 0
        )
        if isinstance(outcome, Pending):
            outcome = outcome.answer()
        if outcome.get("resultType") == "input_required":
            return outcome
        return tool_result(outcome)

    def _chosen(self, arguments: dict[str, Any] | None) -> tuple[Toolbox, dict[str, Any]]:
        """The workspace that a call is about, and what is left of its arguments."""
        given = dict(arguments or {})
        root = given.pop(_ROOT, None)
        box = self.boxes.get(root) if isinstance(root, str) else None
        if box is None:
            raise ParseError("say which root", hint=self._roots())
        return box, given

    def _roots(self) -> Advice:
        return ONE_OF.told(nothing_offered, names=", ".join(self.boxes))

    def _listed(self, tool: Tool) -> dict[str, Any]:
        """A tool as it is listed. Every tool is told in full to a model, so it says little."""
        schema = tool.input_schema
        if self._alone is None:
            # The names stand in one place: in each they would be most of the list.
            named = tool.name == next(each for each in ("ls", *self._tools) if each in self._tools)
            root = {"type": "string", **({"enum": list(self.boxes)} if named else {})}
            schema = {
                **schema,
                "properties": {_ROOT: root, **schema.get("properties", {})},
                "required": [_ROOT, *schema.get("required", ())],
            }
        listed = {"name": tool.name, "description": tool.description, "inputSchema": schema}
        if self._structured or not tool.worded:
            listed["outputSchema"] = tool.output_schema
        listed["annotations"] = {
            "readOnlyHint": tool.read_only, "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent, "openWorldHint": False,
        }  # fmt: skip
        return listed

    # --- resources -------------------------------------------------------------------------

    def list_templates(self) -> dict[str, Any]:
        return resources.templates(list(self.boxes))

    @_in_time
    async def list_resources(self, cursor: str | None, *, modern: bool) -> dict[str, Any]:
        """A page of what lies at the top of each root, one root after the other."""
        names = list(self.boxes)
        root, _, inner = (cursor or "").partition("/")
        if cursor is None:
            root = names[0] if names else ""
        elif root not in self.boxes:
            raise RpcRefusal(INVALID_PARAMS, "this cursor is not known")
        if not names:
            return {"resources": []}
        box = self.boxes[root]

        async def page(scope: Scope) -> tuple[list[dict[str, Any]], Page]:
            notes = [] if inner else await listed_notes(scope, root)
            return notes, await resources.page_of_top(scope, root, inner or None)

        try:
            entries, found = await box.actor.run(page)
        except BailiwickError as error:
            raise refused(error, failure(error), modern=modern) from None
        entries += [
            resources.described(entry, root) for entry in found.entries if entry.addressable
        ]
        listed: dict[str, Any] = {"resources": entries}
        follows = names[names.index(root) + 1 :]
        if found.next_cursor is not None:
            listed["nextCursor"] = f"{root}/{found.next_cursor}"
        elif follows:
            listed["nextCursor"] = f"{follows[0]}/"
        return listed

    @_in_time
    async def read_resource(self, peer: Peer, uri: str, again: Again) -> dict[str, Any]:
        """Raises `RpcRefusal`."""
        try:
            box, work = self._reading(uri)

            def run(asker: Asker | None) -> Any:
                return box.actor.run(work, asker=asker, wait_s=0.0)

            outcome = await settled(
                peer, again, run, lambda: box.actor.attempt("resources/read", work)
            )
        except BailiwickError as error:
            refusal = refused(error, failure(error), modern=peer.modern)
            if len(uri) <= _URI_CHARACTERS_MAX:
                refusal.data["uri"] = uri
            raise refusal from None
        if isinstance(outcome, Pending):
            told = outcome.answer()
            raise RpcRefusal(INTERNAL_ERROR, told["message"], {"errorKind": told["errorKind"]})
        return outcome

    def _reading(
        self, uri: str
    ) -> tuple[Toolbox, Callable[[Scope], Coroutine[Any, Any, dict[str, Any]]]]:
        """The workspace that an address is in, and what reads it. Raises `ParseError`."""
        root = reviewed_root(uri)
        if root is not None:
            return self._box(root), lambda scope: read_notes(scope, root)
        address, box = self.resource(uri)
        return box, lambda scope: resources.read(scope, address)

    async def follow_review(self, root: str, heard: Callable[[], None]) -> Callable[[], None]:
        """Hear of each rejection of what the agent did in a root, until what this returns is
        called. Raises `Unsupported` where nobody tells of that."""
        if self._follow is None:
            raise Unsupported("this server does not tell what people say of changes")
        return await follow_notes(self._follow, self._box(root), heard)

    @_in_time
    async def complete(
        self, template: str | None, name: str, typed: str, known: Mapping[str, str], *, modern: bool
    ) -> dict[str, Any]:
        """How a variable of the template for files may go on; ``known`` are those before it. None
        as a template is a prompt, of which there are none. Raises `RpcRefusal`."""
        if template != TEMPLATE:
            raise RpcRefusal(
                INVALID_PARAMS, "there are completions for files only", {"uri": TEMPLATE}
            )
        try:
            if name == _ROOT:
                return complete_root(list(self.boxes), typed)
            box = self.boxes.get(known[_ROOT]) if _ROOT in known else self._alone
            if name != "path" or box is None:
                return completion([])
            return await complete_path(box, typed)
        except BailiwickError as error:
            raise refused(error, failure(error), modern=modern) from None

    def resource(self, uri: str) -> tuple[Address, Toolbox]:
        """The place that an address means. Raises `ParseError`."""
        address = parse_address(uri)
        return address, self._box(address.root)

    def _box(self, root: str) -> Toolbox:
        box = self.boxes.get(root)
        if box is None:
            raise ParseError("there is no such root", hint=self._roots())
        return box


def _name_run(box: Toolbox, meta: object) -> None:
    """What the client calls the run and the step, in the ``_meta`` of a call; that counts until it
    says otherwise. Raises `ParseError`."""
    said = meta.get(RUN_META) if isinstance(meta, dict) else None
    if isinstance(said, str):
        box.actor.name_run(said, None)
    elif isinstance(said, dict):
        box.actor.name_run(said.get("title"), said.get("step"))


def server_info() -> dict[str, Any]:
    """Who this is. The package is loaded already: what is inside does not import it."""
    version = getattr(sys.modules.get("bailiwick"), "__version__", "0")
    return {"name": "bailiwick", "title": "Bailiwick", "version": version}


def names_of(roots: list[str]) -> dict[str, str]:
    """The names that clients use for roots such as ``workspace:demo``: without the kind where no
    other root is called so."""
    short = [root.partition(":")[2] for root in roots]
    return {
        root: name if short.count(name) == 1 else root
        for root, name in zip(roots, short, strict=True)
    }


def box_name(root: str) -> str:
    """The name of a root as it stands in the tags around content."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", root)[:40]
