"""One PostgreSQL for all tests of a worker that want it, and volumes in it.

A module that is marked `both_engines` has each of its tests run on SQLite and on PostgreSQL, but
for those that are about SQLite's files (`sqlite_only`). `make test` has a few of them on PostgreSQL
(``lean=True``), `make scale` has all.
"""

import pytest

from tests.stores.volume import volumes


@pytest.fixture
def in_postgres(postgres, monkeypatch):
    """Volumes that this test opens are in PostgreSQL, beside those of other tests."""
    monkeypatch.setitem(volumes.engine, "dsn", postgres.dsn)


@pytest.fixture
def in_own_database(postgres, monkeypatch):
    """The same in a database of its own, for tests that count rows."""
    with postgres.fresh_database() as dsn:
        monkeypatch.setitem(volumes.engine, "dsn", dsn)
        yield


@pytest.fixture(autouse=True)
def engine(request):
    if getattr(request, "param", "sqlite") == "postgres":
        request.getfixturevalue("in_own_database")


def pytest_generate_tests(metafunc):
    marked = metafunc.definition.get_closest_marker("both_engines")
    if marked is None or metafunc.definition.get_closest_marker("sqlite_only"):
        return
    marks = [pytest.mark.spec("SCALE-1")]
    if not marked.kwargs.get("lean"):
        marks.append(pytest.mark.scale)
    metafunc.parametrize("engine", ["sqlite", pytest.param("postgres", marks=marks)], indirect=True)
