"""`Toolbox`: the file tools of one workspace, for one agent, whatever calls them.

Fronts name the tools, speak with the model, and put questions to people; what the tools do, how
much they answer and how they fail is decided here, once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import nullcontext
from typing import Any, TypeVar

import msgspec

from bailiwick.approvals import Asker
from bailiwick.errors import BailiwickError, InternalError, MissingAccess, ParseError
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope
from bailiwick.scope.front_access import review_notes
from bailiwick.toolbox.actor import Actor
from bailiwick.toolbox.answer import ToolAnswer
from bailiwick.toolbox.approval import Pending, by_word
from bailiwick.toolbox.arguments import Arguments, read
from bailiwick.toolbox.bench import Bench
from bailiwick.toolbox.configuration import (
    BASE_OPERATIONS,
    CODE_OPERATIONS,
    COMMAND_OPERATIONS,
    HISTORY_OPERATIONS,
    ToolConfig,
    check_name,
)
from bailiwick.toolbox.failures import failure
from bailiwick.toolbox.hints import TOOLS
from bailiwick.toolbox.prompt import prompt_fragment
from bailiwick.toolbox.tool import OPERATIONS, Tool, ToolOperation, tool_of
from bailiwick.toolbox.untrusted_text import Wrapper

_log = logging.getLogger("bailiwick.toolbox")

Result = TypeVar("Result")

_SHOWN_MAX = 256
"""Questions that wait for a word: an agent that asks more forgets its oldest."""


class Toolbox:
    """The tools of one workspace, acting as one agent: see `Actor` for as whom.

    ``prefix`` stands before the name of each tool (``workspace__notes__``, or nothing). A call
    answers with a JSON object in any case: what fails answers ``ok: false``. Calls that change
    something go one after the other, in the order they came, however they are made.
    """

    def __init__(
        self,
        scope: Scope | SyncScope,
        name: str,
        config: ToolConfig,
        *,
        prefix: str,
        front: str,
        session: str,
        new_nonce: Callable[[], str],
    ) -> None:
        self.name = check_name(name)
        self.config = config
        self.actor = Actor(
            scope, front=front, session=session, allowed_paths=config.allowed_paths,
            file_bytes_max=config.file_bytes_max, reason=f"tools of the workspace {name}",
            passes_execute=config.names_commands,
        )  # fmt: skip
        self._new_nonce = new_nonce
        self._prefix = prefix
        self._turn = asyncio.Lock()
        self._shown: dict[tuple[str, bytes], str] = {}
        self.keeps_versions = self.actor.keeps_versions
        self._operations = {f"{prefix}{each}": OPERATIONS[each] for each in self._offered()}
        self.tools: tuple[Tool, ...] = tuple(
            tool_of(operation, tool_name) for tool_name, operation in self._operations.items()
        )

    def __repr__(self) -> str:
        return f"<Toolbox {self.name!r} on {self.actor.owner.root}: {len(self.tools)} tools>"

    @property
    def system_prompt(self) -> str:
        """What to tell the model before it uses the tools."""
        return prompt_fragment(self.name, self._prefix)

    def _offered(self) -> Iterator[str]:
        """By name: what the configuration wants, as far as it is to be had here."""
        kept = (*BASE_OPERATIONS, *(HISTORY_OPERATIONS if self.keeps_versions else ()))
        yield from filter(self.config.offers, kept)
        for each in filter(self.config.offers, COMMAND_OPERATIONS):
            if self.actor.runs_commands:  # looked at last: a sandbox may have to be tried for it
                yield each
        for each in filter(self.config.offers, CODE_OPERATIONS):
            if self.actor.runs_code:
                yield each

    def __contains__(self, name: object) -> bool:
        """Whether there is a tool of this name."""
        return name in self._operations

    async def call(
        self,
        name: str,
        arguments: Any = None,
        *,
        asker: Asker | None = None,
        wait_s: float | None = None,
    ) -> dict[str, Any]:
        """Call a tool by its name with an object, or with the JSON text of one.

        Where a rule wants a person asked, ``asker`` asks them while the call waits: at most
        ``wait_s``, where that is given. What a model reads of an answer says `text_of`.
        """
        return await self.answered(
            lambda: self.actor.run(self._work(name, arguments), asker=asker, wait_s=wait_s),
            self._operation_of(name),
        )

    def call_blocking(
        self, name: str, arguments: Any = None, *, asker: Asker | None = None
    ) -> dict[str, Any]:
        """`call` for a thread without an event loop."""
        return self.actor.bridge.run_blocking(lambda: self.call(name, arguments, asker=asker))

    async def attempt(self, name: str, arguments: Any = None) -> dict[str, Any] | Pending:
        """`call`; but where a person would have to be asked nothing is done, and the answer is the
        question. Their word is passed on by `resume`."""
        answer = await self.answered(
            lambda: self.actor.attempt(name, self._work(name, arguments)), self._operation_of(name)
        )
        if isinstance(answer, Pending):
            self._remember(name, arguments, answer)
        return answer

    def attempt_blocking(self, name: str, arguments: Any = None) -> dict[str, Any] | Pending:
        return self.actor.bridge.run_blocking(lambda: self.attempt(name, arguments))

    async def resume(
        self, name: str, arguments: Any, *, allowed: bool, binding: str | None = None
    ) -> dict[str, Any]:
        """Make a call about which a person has been asked, with what they said.

        With the ``binding`` of the question they saw, a call that would do anything else by now
        is refused. Without it, what was shown first for this very call counts, as far as this
        toolbox has shown it: frameworks that run a step again would else bind to what they find.
        """
        shown = self._shown.pop(call_key(name, arguments), None)
        return await self.call(name, arguments, asker=by_word(allowed, binding or shown))

    def _remember(self, name: str, arguments: Any, pending: Pending) -> None:
        if len(self._shown) >= _SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        self._shown.setdefault(call_key(name, arguments), pending.binding)

    def resume_blocking(
        self, name: str, arguments: Any, *, allowed: bool, binding: str | None = None
    ) -> dict[str, Any]:
        return self.actor.bridge.run_blocking(
            lambda: self.resume(name, arguments, allowed=allowed, binding=binding)
        )

    async def rehearse(self, name: str, arguments: Any = None) -> Pending | None:
        """Whether a call would ask a person, and what. Nothing is changed. None also where the
        call would fail: that is for the call itself to say."""
        try:
            return await self.actor.rehearse(name, self._work(name, arguments))
        except BailiwickError:
            return None

    async def aclose(self) -> None:
        """Let go of the agent's scope. The scope that was given is closed by whoever opened it."""
        await self.actor.aclose()

    def require(self, operation: str) -> None:
        """Refuse what the configuration does not offer: for editors that have their own names for
        the same operations."""
        if self.tool_name(operation) not in self._operations:
            raise MissingAccess(f"there is no {operation} here")

    def tool_name(self, operation: str) -> str:
        """What the tool of an operation is called here."""
        return f"{self._prefix}{operation}"

    def offered_name(self, operation: str) -> str | None:
        """What the tool of an operation is called here; None where it is not offered."""
        name = self.tool_name(operation)
        return name if name in self._operations else None

    def _operation_of(self, name: str) -> str | None:
        operation = self._operations.get(name)
        return None if operation is None else operation.name

    def bench(self, scope: Scope, operation: str) -> Bench:
        """What one call of an operation works with."""
        wrapper = Wrapper(self.name, operation, self._new_nonce)
        return Bench(scope, self.config, wrapper, self.keeps_versions, self.offered_name)

    def _work(
        self, name: str, arguments: Any
    ) -> Callable[[Scope], Coroutine[Any, Any, dict[str, Any]]]:
        operation = self._operations.get(name)
        if operation is None:
            raise ParseError(
                "there is no such tool here",
                hint=TOOLS.told(self.offered_name, names=", ".join(self._operations)),
            )
        asked = read(operation.takes, arguments)
        return lambda scope: self._run(operation, asked, scope)

    async def _run(
        self, operation: ToolOperation, asked: Arguments, scope: Scope
    ) -> dict[str, Any]:
        async with nullcontext() if operation.parallel_safe else self._turn:
            result = await operation.run(self.bench(scope, operation.name), asked)
        return ToolAnswer(
            result, operation.content, structured=self.config.structured,
            review=await review_notes(scope),
        )  # fmt: skip

    async def answered(
        self, work: Callable[[], Coroutine[Any, Any, Result]], operation: str | None = None
    ) -> Result | dict[str, Any]:
        """The answer, whatever happens but cancellation; ``operation`` is what is done."""
        try:
            return await work()
        except BailiwickError as error:
            return failure(error, operation, self.offered_name)
        except Exception:
            # Its text may tell anything; the log is for those who may know.
            _log.exception("a tool failed in a way nobody foresaw")
            return failure(InternalError("the tool failed"))


def call_key(name: str, arguments: Any) -> tuple[str, bytes]:
    """A call, by what was asked for."""
    return name, msgspec.json.encode(arguments, enc_hook=str, order="deterministic")
