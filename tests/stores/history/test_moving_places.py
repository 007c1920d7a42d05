"""What is known by place where things move, against what is said of it in words."""

from hypothesis import given
from hypothesis import strategies as st

from bailiwick.paths import ScopedPath
from bailiwick.stores.history.moving_places import MovesMade, MovingPlaces

PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join).map(ScopedPath)
MOVES = st.lists(st.tuples(PATHS, PATHS), max_size=6)


@given(st.lists(st.one_of(PATHS, st.tuples(PATHS, PATHS)), max_size=12))
def test_what_is_known_moves_as_what_lies_there_does(steps):
    known, plain = MovingPlaces(), {}
    for number, step in enumerate(steps):
        if isinstance(step, ScopedPath):
            known[step] = plain[step] = number
            continue
        here, home = step
        known.move(here, home)
        plain = {
            path.relative_to(here).beneath(home) if path.lies_in(here) else path: value
            for path, value in plain.items()
            if not path.lies_in(home)
        }
        assert known == plain
        for path in (here, home):
            inside = {each for each in plain if each != path and each.lies_in(path)}
            assert sorted(known.inside(path)) == sorted(inside)


@given(MOVES, PATHS)
def test_where_a_thing_was_before_moves_is_found(moves, path):
    made, was = MovesMade(), path
    for here, home in moves:
        made.add(here, home)
    for here, home in reversed(moves):
        if was is None:
            break
        if was.lies_in(home):
            was = was.relative_to(home).beneath(here)
        elif was.lies_in(here):
            was = None
    assert made.before(path) == was


def test_a_move_looks_at_what_it_is_about(monkeypatch):
    """However many there were before it."""
    looks = 0
    lies_in = ScopedPath.lies_in

    def counted(self, directory):
        nonlocal looks
        looks += 1
        return lies_in(self, directory)

    monkeypatch.setattr(ScopedPath, "lies_in", counted)
    known, made, count = MovingPlaces(), MovesMade(), 500
    for number in range(count):
        here, home = ScopedPath(f"d/x{number}"), ScopedPath(f"d/{number}")
        known[here] = number
        known.move(here, home)
        made.add(here, home)
        assert made.before(home) == here
    assert len(known) == count
    assert looks <= 4 * count
