"""`Scope`: the verbs a caller has over the tree that one grant sees.

A scope never hands out a host path, a descriptor or a store. Every verb is one call through the
pipeline: parse, check the grant, resolve, ask the policy, act, record. Paths are text relative to
the root (or absolute under its mount point); results are the frozen values of `bailiwick.model`;
errors are those of `bailiwick.errors`, and a failed verb has changed nothing.
"""

from __future__ import annotations

from bailiwick.scope.archives import ArchiveVerbs
from bailiwick.scope.code import CodeRuns
from bailiwick.scope.content import ContentVerbs
from bailiwick.scope.core import Delegates, Delegation, Lent
from bailiwick.scope.delegation import GoverningVerbs
from bailiwick.scope.review import ReviewVerbs
from bailiwick.scope.sessions import SessionVerbs
from bailiwick.scope.tree_changes import ShapingVerbs
from bailiwick.scope.tree_reads import LookingVerbs
from bailiwick.scope.versions import Lease

__all__ = ["Delegates", "Delegation", "Lease", "Lent", "Scope"]


class Scope(
    ContentVerbs, LookingVerbs, ShapingVerbs, ArchiveVerbs, ReviewVerbs, SessionVerbs,
    CodeRuns, GoverningVerbs,
):  # fmt: skip
    """The tree one grant sees, and everything that can be done in it."""
