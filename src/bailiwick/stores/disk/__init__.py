"""A real directory as a store: confined by descriptors, written atomically, cleaned after a kill.

What it does not do: it cannot confine other programs, keep history, or notice their changes. A
directory moved out of the root in the instant between the last look and a rename takes that one
change with it. A power cut may cost the last writes with ``durability="rename"``, and may leave a
hidden staging file that no journal names.
"""

from bailiwick.stores.disk.store import DiskStore

__all__ = ["DiskStore"]
