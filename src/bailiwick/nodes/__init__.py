"""A whole store over whatever keeps nodes: the way to a store of your own.

What a file, a directory and a link are, how paths and links lead to them, what each verb demands
and refuses, is the same wherever they are kept. `NodeStore` does all of it; a keeper adds four
methods: the node of an id, the one of a name, those of a directory, and one change of several
nodes at once. `examples/your_own_store.py` is such a keeper, and `MemoryStore` another.

For files that are held in memory one by one while they are used. A store of huge files implements
`bailiwick.store.Store` itself.
"""

from bailiwick.nodes.node import ROOT_ID, Node
from bailiwick.nodes.store import NodeStore

__all__ = ["ROOT_ID", "Node", "NodeStore"]
