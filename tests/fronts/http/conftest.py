"""The longest test begins first: at the end, one worker would wait for it alone."""

LONGEST = "test_no_fault_and_no_undocumented_answer"


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.name != LONGEST)
