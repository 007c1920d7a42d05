"""A store of versioned, forkable files in one SQLite file; large content in a blob store beside it.

Every change makes a version, versions can be looked at, restored and undone, branches are forked
and merged. Links are data. There are no hard links and no devices.
"""

from bailiwick.stores.volume.store import VolumeStore

__all__ = ["VolumeStore"]
