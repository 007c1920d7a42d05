"""A store that wraps a store and remembers what was changed through it.

For real directories: what stood at a place is kept, outside the tree, before it is changed, so that
it can be looked at, restored and undone. What other programs change is not noticed when it happens;
it is found when the place is changed here next.
"""

from bailiwick.stores.history.auto_collection import HistoryAutoCollection
from bailiwick.stores.history.startup import ambient_history_directory, open_history
from bailiwick.stores.history.store import HistoryStore

__all__ = ["HistoryAutoCollection", "HistoryStore", "ambient_history_directory", "open_history"]
