"""States in PostgreSQL: a module that is marked `both_engines` has its tests run on both, but for
those that are about SQLite's files or memory (`sqlite_only`). `make scale` runs all, `make test` a
few."""

import pytest

from tests.state import states


@pytest.fixture(autouse=True)
def engine(request, monkeypatch, tmp_path_factory):
    if getattr(request, "param", "sqlite") == "sqlite":
        yield
        return
    with request.getfixturevalue("postgres").fresh_database() as dsn:
        monkeypatch.setenv(states.DSN, dsn)
        monkeypatch.setenv(states.FOLDER, str(tmp_path_factory.mktemp("beside")))
        yield


def pytest_generate_tests(metafunc):
    marked = metafunc.definition.get_closest_marker("both_engines")
    if marked is None or metafunc.definition.get_closest_marker("sqlite_only"):
        return
    marks = [pytest.mark.spec("SCALE-5")]
    if not marked.kwargs.get("lean"):
        marks.append(pytest.mark.scale)
    metafunc.parametrize("engine", ["sqlite", pytest.param("postgres", marks=marks)], indirect=True)
