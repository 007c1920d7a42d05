"""All have the event loop of a server, on which a request takes its first step where it came in."""

from bailiwick.first_step import SelectorLoop
from tests.conftest import LOOP_FACTORY


def pytest_itemcollected(item):
    item.stash[LOOP_FACTORY] = SelectorLoop
