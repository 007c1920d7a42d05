"""How quick commits are, as it is told by the last few of them."""

from bailiwick.sqlite.pace import CommitPace


def paced(*seconds):
    pace = CommitPace(0.0)
    for each in seconds:
        pace.committed(each)
    return pace.commit_s


def test_a_commit_that_was_interrupted_says_nothing_of_the_disk():
    assert paced(0.0001, 0.0001, 0.0001, 0.3, 0.0001) == 0.0001
    assert paced(*[0.0001] * 5, 0.3, 0.3) == 0.0001


def test_a_slow_disk_shows_by_its_third_commit_and_is_forgiven_as_soon():
    assert paced(0.005, 0.005) == 0.0
    assert paced(0.005, 0.005, 0.005) == 0.005
    assert paced(*[0.005] * 9, *[0.0001] * 3) == 0.0001
