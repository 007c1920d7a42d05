"""A store that joins others under one tree, each at a name of its own.

Whatever lies at or beneath a mount point is that mount's business alone: it looks the rest of the
path up itself, links included, so that nothing leads from one mount into another. The directories
above the mount points hold nothing else, and nothing is made in them.
"""

from bailiwick.stores.mounts.store import MountsStore
from bailiwick.stores.mounts.table import MountedStore

__all__ = ["MountedStore", "MountsStore"]
