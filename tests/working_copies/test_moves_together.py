"""What comes and goes together, since a program moved the directory that it lies in."""

from hypothesis import given
from hypothesis import strategies as st

from bailiwick.paths import ROOT, ScopedPath
from bailiwick.working_copy import Alterations, Altered, Base, Wanted

PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(
    lambda parts: ScopedPath("/".join(parts))
)
MOVED = st.dictionaries(PATHS, PATHS, max_size=5).map(
    lambda moved: {path: was for path, was in moved.items() if path != was}
)


def altered(paths):
    base = Base("file", "1", 0, 0o644)
    return [Altered(path, None, base) for path in sorted(paths, key=lambda each: each.order)]


def with_ends(moved, paths):
    """A program that moves a directory alters both of its ends."""
    return altered({*paths, *moved, *moved.values()})


def by_definition(found):
    """Groups that share anything are one group."""
    groups = []
    for ends in found.moved.items():
        group = {x.path for x in found.altered if any(map(x.path.lies_in, ends))}
        apart = [each for each in groups if each.isdisjoint(group)]
        groups = [*apart, group.union(*(each for each in groups if not each.isdisjoint(group)))]
    return groups


@given(MOVED, st.sets(PATHS, max_size=12))
def test_what_shares_an_end_of_a_move_comes_together(moved, paths):
    found = Alterations(with_ends(moved, paths), [], [], moved)
    assert set(map(frozenset, found.moves())) == set(map(frozenset, by_definition(found)))


@given(MOVED, st.sets(PATHS | st.just(ROOT), max_size=3))
def test_whoever_wants_a_moved_directory_wants_it_gone_from_where_it_lay(moved, only):
    found = Alterations(with_ends(moved, ()), [], [], moved)
    wanted = found.with_moves(Wanted("partial", only=frozenset(only))).only
    expected = set(only)
    for _ in range(len(moved) + 1):
        expected |= {was for path, was in moved.items() if any(map(path.lies_in, expected))}
    assert wanted == expected
