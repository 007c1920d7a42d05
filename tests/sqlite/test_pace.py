"""How quick commits are, as it is told by the last few of them."""

import asyncio

from bailiwick.sqlite.pace import CommitPace


def is_quick(*seconds):
    pace = CommitPace(0.0, 0.001)
    for each in seconds:
        pace.committed(each)
    return pace.is_quick


def test_a_commit_that_was_interrupted_says_nothing_of_the_disk():
    assert is_quick(0.0001, 0.0001, 0.0001, 0.3, 0.0001)
    assert is_quick(*[0.0001] * 5, 0.3, 0.3)


def test_a_slow_disk_shows_by_its_third_commit_and_is_forgiven_as_soon():
    assert is_quick()
    assert is_quick(0.005, 0.005)
    assert not is_quick(0.005, 0.005, 0.005)
    assert not is_quick(*[0.005] * 9, *[0.0001] * 2)
    assert is_quick(*[0.005] * 9, *[0.0001] * 3)


def test_where_none_counts_as_quick_the_first_does_not_either():
    assert not CommitPace(0.0).is_quick


async def goes_on_after(*seconds):
    """Whether the next task of the same caller is done at once, after transactions that took so
    long."""
    pace = CommitPace(0.001)
    assert await pace.is_alone()
    for each in seconds:
        pace.took(each)
    return pace.goes_on()


def test_a_task_that_was_interrupted_leaves_the_next_where_it_comes_from():
    assert asyncio.run(goes_on_after(0.0001, 0.0001, 0.3, 0.3))
    assert not asyncio.run(goes_on_after(0.005, 0.005, 0.005))
    assert asyncio.run(goes_on_after(*[0.005] * 9, *[0.0001] * 3))
