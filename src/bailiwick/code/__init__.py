"""Code mode: Python that a model wrote, run in a sandbox, with `state` as its only way to the tree.

    result = await bailiwick.code.run(scope, "len(state.glob('**/*.py').paths)")

`state` has every verb of the scope as a blocking call (`vocabulary.py`), over a pipe. Whatever
comes through that pipe is taken to be hostile, whoever wrote the source: it is data here, and
nothing of it is evaluated outside the sandbox.
"""

from __future__ import annotations

from bailiwick.code.results import CodeCall, CodeChange, CodeError, CodeResult
from bailiwick.code.runs import run, run_sync

__all__ = ["CodeCall", "CodeChange", "CodeError", "CodeResult", "run", "run_sync"]
