"""The composition root: the only place that picks stores, lends clocks and joins the parts."""

from __future__ import annotations

import logging

from bailiwick.build.entry_points import open, open_sync
from bailiwick.build.options import OpenOptions

# Quiet unless the program that uses this says where its log goes.
logging.getLogger("bailiwick").addHandler(logging.NullHandler())

__all__ = ["OpenOptions", "open", "open_sync"]
