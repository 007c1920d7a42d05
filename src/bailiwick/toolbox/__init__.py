"""The file tools of models, apart from any provider: what they take, do, answer and refuse.

Fronts stand on this: the tools for model providers and agent frameworks, and the MCP server. They
name the tools, translate pauses, and own nothing else.
"""

from __future__ import annotations

from bailiwick.toolbox.actor import Actor
from bailiwick.toolbox.answer import Image, ToolAnswer, images_of, text_of
from bailiwick.toolbox.approval import Pending, by_word
from bailiwick.toolbox.box import Toolbox
from bailiwick.toolbox.configuration import (
    ALL_OPERATIONS,
    BASE_OPERATIONS,
    CODE_OPERATIONS,
    COMMAND_OPERATIONS,
    HISTORY_OPERATIONS,
    ToolConfig,
    ToolOptions,
    read_config,
)
from bailiwick.toolbox.failures import failure
from bailiwick.toolbox.tool import Tool

__all__ = [
    "ALL_OPERATIONS",
    "BASE_OPERATIONS",
    "CODE_OPERATIONS",
    "COMMAND_OPERATIONS",
    "HISTORY_OPERATIONS",
    "Actor",
    "Image",
    "Pending",
    "Tool",
    "ToolAnswer",
    "ToolConfig",
    "ToolOptions",
    "Toolbox",
    "by_word",
    "failure",
    "images_of",
    "read_config",
    "text_of",
]
