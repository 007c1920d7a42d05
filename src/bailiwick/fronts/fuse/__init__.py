"""A scope as a directory: any program works in it, under the same grant, rules, ledger and history.

It speaks with the kernel itself (`protocol`): it needs no library, and knows files by number. So
what is taken away while a program has it open stays that program's, and a name is replaced in one
step. Only verbs of the scope are used.
"""

from bailiwick.fronts.fuse.device import clean, lacks
from bailiwick.fronts.fuse.mountpoint import FuseMount

__all__ = ["FuseMount", "clean", "lacks"]
