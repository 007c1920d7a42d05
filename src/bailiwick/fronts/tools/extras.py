"""What each framework's room says when its framework is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bailiwick.errors import Unsupported


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import a framework within this; its absence is one line that names what to install."""
    try:
        yield
    except ImportError as error:
        raise Unsupported(
            f"this needs the package {error.name or name}",
            hint=f"pip install 'bailiwick[{name}]'",
        ) from None
