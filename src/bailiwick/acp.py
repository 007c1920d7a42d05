"""The Agent Client Protocol, under a short name: ``bailiwick.acp.FileSystemAdapter(scope)``.

A thin re-export of `bailiwick.fronts.acp`.
"""

from __future__ import annotations

from bailiwick.fronts.acp.adapter import FileSystemAdapter

__all__ = ["FileSystemAdapter"]
