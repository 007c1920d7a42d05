"""Tools for models: the same ten for every provider and framework.

`tools` makes them, provider-neutral; each module beside this one speaks to one framework, and is
imported by whoever uses that framework only.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Unpack, cast

from bailiwick.errors import ParseError
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope
from bailiwick.toolbox import (
    Pending,
    Tool,
    ToolAnswer,
    Toolbox,
    ToolConfig,
    ToolOptions,
    images_of,
    read_config,
    text_of,
)

if TYPE_CHECKING:
    from bailiwick.client import RemoteScope

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

_NONCE_BYTES = 8


def new_nonce() -> str:
    """What nobody can have known who wrote a file."""
    return secrets.token_hex(_NONCE_BYTES)


def new_session() -> str:
    """A name for one run of an agent, where its framework has none."""
    return secrets.token_hex(4)


def tools(
    scope: Scope | SyncScope | RemoteScope,
    name: str = "notes",
    *,
    session: str | None = None,
    front: str = "tools",
    config: ToolConfig | None = None,
    **options: Unpack[ToolOptions],
) -> Toolbox:
    """The file tools of a workspace for a model: ``workspace__<name>__read_file`` and so on.

    They act as the agent ``agent_run:<front>/<session>``, also on a scope that a person opened, so
    that the rules for agents hold. Options, all enforced:

    - ``operations``: which tools there are; ``fs=False`` means none.
    - ``allowed_paths``: globs that bound what can be reached.
    - ``max_file_size_mb``: how large a file may become.
    - ``max_tool_result_bytes`` (256 KiB), ``max_dir_entries`` (1000), ``max_glob_matches`` (1000),
      ``max_grep_matches`` (200), ``max_image_bytes`` (3 MiB): how much one answer gives.
    - ``structured``: the model is told the object of an answer, as JSON, instead of a text.

    A configuration as JSON spells it (``maxFileSizeMb``) is read by `read_config` and given as
    ``config``.
    """
    if config is not None and options:
        raise ParseError("give options or a config, not both")
    # A scope of a server has the verbs of one here, which is all that the tools use.
    verbs = cast("Scope | SyncScope", scope)
    return Toolbox(
        verbs, name, config or read_config(options), prefix=f"workspace__{name}__", front=front,
        session=session or new_session(), new_nonce=new_nonce,
    )  # fmt: skip
