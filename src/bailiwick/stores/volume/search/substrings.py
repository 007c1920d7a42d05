"""Whether bytes stand anywhere in a large block, found without holding up other threads.

Python's own search keeps the lock that all its threads share: while one looks through a page, none
could fetch the next. The C library's `memmem` is called without it. Where there is none, Python's
has to do.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final


def _memmem() -> Any:
    try:
        found = ctypes.CDLL(None).memmem
    except (AttributeError, OSError, TypeError):  # not in this C library; no libraries this way
        return None
    found.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    found.restype = ctypes.c_void_p
    return found


_FIND: Final = _memmem()


def contains(block: bytes, needle: bytes) -> bool:
    """``needle in block``."""
    if _FIND is None or len(needle) < 2:  # one byte is found quickly enough
        return needle in block
    return _FIND(block, len(block), needle, len(needle)) is not None
