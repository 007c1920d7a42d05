"""The fixtures of the scope's tests, and `opening` on a volume as well: these faults are of
filesystems in databases as much as of others."""

from contextlib import asynccontextmanager

import pytest

from bailiwick.build.options import read_options
from bailiwick.build.own import join
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume import VolumeStore
from tests.scope.support import WALK, Opener, disk, either, granted

__all__ = ["disk", "either", "opening"]


class VolumeOpener(Opener):
    """Opens scopes on volumes, each in a file of its own."""

    @property
    def on_disk(self):
        return False

    @asynccontextmanager
    async def __call__(self, *, place=None, policy=None, path=".", hooks=(), **options):
        number = len(list(self._tmp_path.glob("*.db")))
        store = VolumeStore.open(str(place or self._tmp_path / f"v{number}.db"))
        whole = join(store, read_options(options), "test", "/", policy=policy)
        for hook in hooks:
            whole._pipeline.hooks.register(hook)
        try:
            yield granted(whole, path=ScopedPath(path))
        finally:
            await whole.aclose()


@pytest.fixture(params=["memory", "kernel", WALK, "volume"])
def opening(request, tmp_path):
    kind = VolumeOpener if request.param == "volume" else Opener
    return kind(request.param, tmp_path)
