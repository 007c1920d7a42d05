"""A module that is loaded when a name of it is first asked for.

What most programs never do is not loaded by all of them: what runs and reviews are made of takes as
long as reading and writing. Type checkers, and who checks layers, see a plain import beside it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LateModule:
    """Stands for a module by its name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
