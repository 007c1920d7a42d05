"""What an operation of the tools works with: a scope, the caps, and the tags of its answer."""

from __future__ import annotations

from typing import NamedTuple

from bailiwick.scope import Scope
from bailiwick.toolbox.configuration import ToolConfig
from bailiwick.toolbox.untrusted_text import Wrapper


class Bench(NamedTuple):
    """One call of a tool. ``keeps_versions`` is whether what it changes can be undone by id."""

    scope: Scope
    config: ToolConfig
    wrapper: Wrapper
    keeps_versions: bool

    def told(self, request_id: str) -> str | None:
        """The id of a change, where a model has a use for it."""
        return request_id if self.keeps_versions else None
