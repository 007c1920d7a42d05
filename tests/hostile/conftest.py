"""Walls for the tests here: one for each identity, started once per test worker."""

import pytest

from tests.hostile.wall import CaseFailed, CaseSkipped, Wall, WallUnavailable


class Walled:
    """A wall as a test sees it: a failure behind it is a failure of the test, a skip a skip."""

    def __init__(self, wall):
        self._wall = wall

    def __call__(self, function, *args, timeout_s=600, **kwargs):
        try:
            return self._wall.call(function, *args, timeout_s=timeout_s, **kwargs)
        except (CaseSkipped, CaseFailed) as outcome:
            ended = outcome
        if isinstance(ended, CaseSkipped):
            pytest.skip(str(ended))
        return pytest.fail(str(ended), pytrace=False)


def _start(identity):
    wall = Wall(identity)
    try:
        return wall.__enter__()
    except WallUnavailable as reason:
        return reason


@pytest.fixture(scope="session", autouse=True)
def walls():
    """The walls, or the reason why there is none: started before anything counts descriptors."""
    started = {identity: _start(identity) for identity in ("root", "user", "bare", "operator")}
    yield started
    for wall in started.values():
        if isinstance(wall, Wall):
            wall.close()


@pytest.fixture
def walled_as(walls):
    """How to call a function behind the wall, as whom."""

    def choose(identity):
        wall = walls[identity]
        if isinstance(wall, WallUnavailable):
            pytest.skip(str(wall))
        return Walled(wall)

    return choose


@pytest.fixture(params=["root", "user"])
def walled(request, walled_as):
    """Call a function behind the wall, once as root and once as a plain user."""
    return walled_as(request.param)


@pytest.fixture(params=["operator", "user"])
def with_sandboxes(request, walled_as):
    """Call a function behind the wall as who can start a sandbox there: root, and a plain user."""
    return walled_as(request.param)
