"""The longest test begins first: at the end, one worker would wait for it alone. All have the event
loop of a server, on which a request takes its first step where it came in."""

import pytest

from bailiwick.first_step import SelectorLoop
from tests.conftest import LOOP_FACTORY
from tests.fronts.http.stepping import Steps

LONGEST = "test_no_fault_and_no_undocumented_answer"


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.name != LONGEST)


def pytest_itemcollected(item):
    item.stash[LOOP_FACTORY] = SelectorLoop


@pytest.fixture
def steps(monkeypatch):
    return Steps(monkeypatch)
