"""fsspec's own abstract tests, on every kind of store."""

import pytest
from fsspec.tests import abstract

import bailiwick
from bailiwick.client import connect_sync
from bailiwick.fronts.fsspec import BailiwickFileSystem

pytestmark = pytest.mark.spec("FSSPEC-1")


def _on_server(host, token):
    with connect_sync(f"http://{host}", token=token, root="workspace:demo") as scope:
        for entry in scope.list().entries:
            scope.remove(entry.path, recursive=True)
        yield BailiwickFileSystem(scope)


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(params=["disk", "volume", pytest.param("server", marks=pytest.mark.slow)])
    def fs(self, request, tmp_path):
        if request.param == "server":
            yield from _on_server(*request.getfixturevalue("server"))
            return
        place = f"sqlite:{tmp_path}/volume.db" if request.param == "volume" else tmp_path / "tree"
        (tmp_path / "tree").mkdir()
        with bailiwick.open_sync(place) as scope:
            yield BailiwickFileSystem(scope)

    @pytest.fixture
    def fs_path(self):
        return ""

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(part for part in parts if part)

    @pytest.fixture
    def local_path(self, tmp_path):
        local = tmp_path / "local"
        local.mkdir()
        return str(local)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass
