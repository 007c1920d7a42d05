"""A store that keeps everything in memory, for tests, scratch roots and as the reference model.

Nothing survives the process. There are no hard links, no devices and no staging names.
"""

from bailiwick.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
