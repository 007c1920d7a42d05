"""What an operation of the tools works with: a scope, the caps, and the tags of its answer."""

from __future__ import annotations

from typing import Any, NamedTuple

from bailiwick.errors import BailiwickError
from bailiwick.scope import Scope
from bailiwick.toolbox.configuration import ToolConfig
from bailiwick.toolbox.failures import failure
from bailiwick.toolbox.hints import Advice, Hint, NameOf
from bailiwick.toolbox.untrusted_text import Wrapper


class Bench(NamedTuple):
    """One call of a tool. ``keeps_versions`` is whether what it changes can be undone by id,
    ``name_of`` what the tools are called that are offered beside this one."""

    scope: Scope
    config: ToolConfig
    wrapper: Wrapper
    keeps_versions: bool
    name_of: NameOf

    def told(self, request_id: str) -> str | None:
        """The id of a change, where a model has a use for it."""
        return request_id if self.keeps_versions else None

    def advise(self, hint: Hint, **values: object) -> Advice:
        """A hint, by the names that tools have here."""
        return hint.told(self.name_of, **values)

    def failure(self, error: BailiwickError, operation: str) -> dict[str, Any]:
        """What is told of a part of the answer that failed."""
        return failure(error, operation, self.name_of)
