"""A scope as an fsspec filesystem, for pandas, pyarrow, duckdb and all that speak fsspec.

`BailiwickFileSystem(scope)` is the filesystem; `places` has those that fsspec makes from a URL, and
`restrict` says which of them there are.
"""

from __future__ import annotations

from bailiwick.errors import Unsupported

try:
    import fsspec  # noqa: F401
except ImportError:
    raise Unsupported(
        "this needs the package fsspec", hint="pip install 'bailiwick[fsspec]'"
    ) from None

from bailiwick.fronts.fsspec.filesystem import BailiwickFileSystem
from bailiwick.fronts.fsspec.places import restrict

__all__ = ["BailiwickFileSystem", "restrict"]
