"""What the tests of archives share: a small one, a meter, and a look at what must not change."""

import contextlib
import os

from bailiwick.errors import QuotaExceeded
from bailiwick.meter import Turns
from bailiwick.paths import RESERVED_PREFIX
from tests.archives.support import directory, file, pack
from tests.scope.support import place_of, snapshot, unruled

SMALL = pack("tar", [directory("d", 0o750), file("d/a", b"one", 0o640), file("b", b"two")])


def litter(fs):
    """Staging names left in a real directory, which no verb would show."""
    if fs.description["kind"] != "disk":
        return []
    return [
        os.path.join(folder, name)
        for folder, directories, files in os.walk(place_of(fs))
        for name in (*directories, *files)
        if name.startswith(RESERVED_PREFIX)
    ]


@contextlib.asynccontextmanager
async def unchanged(fs):
    """What is in the tree stays as it is, and nothing is left lying about."""
    before = await snapshot(unruled(fs))
    yield
    assert await snapshot(unruled(fs)) == before
    assert litter(fs) == []


class Meter:
    """Counts, and refuses beyond a bound."""

    def __init__(self, bytes_max=10**9, files_max=10**9):
        self.bytes = self.files = 0
        self._bytes_max, self._files_max = bytes_max, files_max
        self.turns = Turns()

    def counts(self, grant):
        return True

    async def prepare(self, grant):
        pass

    async def settle(self, grant, charged, added, *, apart=None, over=None):
        self.bytes += added.size - charged.size
        self.files += added.files - charged.files

    async def charge(self, grant, size, files, *, apart=None, over=None):
        if (size > 0 and self.bytes + size > self._bytes_max) or (
            files > 0 and self.files + files > self._files_max
        ):
            raise QuotaExceeded("full")
        self.bytes += size
        self.files += files
