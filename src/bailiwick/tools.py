"""Tools for models, under a short name: ``bailiwick.tools(scope, name="notes")``.

A thin re-export of `bailiwick.fronts.tools`. The module can be called, since `bailiwick.tools` is
both: what makes the tools, and where their types live (``from bailiwick.tools import Toolbox``).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Unpack

from bailiwick.fronts.tools import (
    Pending,
    Tool,
    ToolAnswer,
    Toolbox,
    ToolConfig,
    ToolOptions,
    images_of,
    read_config,
    text_of,
    tools,
)
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope

__all__ = [
    "Pending",
    "Tool",
    "ToolAnswer",
    "ToolConfig",
    "ToolOptions",
    "Toolbox",
    "images_of",
    "read_config",
    "text_of",
    "tools",
]


class _Callable(ModuleType):
    def __call__(
        self,
        scope: Scope | SyncScope,
        name: str = "notes",
        *,
        session: str | None = None,
        front: str = "tools",
        config: ToolConfig | None = None,
        **options: Unpack[ToolOptions],
    ) -> Toolbox:
        return tools(scope, name, session=session, front=front, config=config, **options)


_Callable.__call__.__doc__ = tools.__doc__
sys.modules[__name__].__class__ = _Callable
