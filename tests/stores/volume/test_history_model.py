"""The history of a path against a plain model: every version of what stands there and stood there,
wherever it lay then, however often it was moved."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bailiwick.errors import PathNotFound
from bailiwick.paths import ScopedPath
from tests.stores.volume.volumes import opened

PATHS = ("a", "b", "c", "d/a", "d/b")
PLACES = st.sampled_from(PATHS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PLACES),
        st.tuples(st.just("remove"), st.integers(0, 4)),
        st.tuples(st.just("move"), st.integers(0, 4), PLACES),
        st.tuples(st.just("move"), st.integers(0, 4), PLACES),
    ),
    max_size=14,
)
"""What is moved or removed is one of those that stand there, by its number."""


class Model:
    """Things that have a path, by what became of each, step by step."""

    def __init__(self):
        self._stands = {}
        self._stood = {path: [] for path in PATHS}
        self._told = []  # of each thing: (step, kind, path)
        self._ends = {}
        self._step = 0

    def take(self, kind, which, to=None):
        """Where it is to be done; None where it cannot be."""
        path = which
        if kind != "write":
            path = sorted(self._stands)[which % len(self._stands)] if self._stands else to
        if path == to or path is None:
            return None
        self._step += 1
        if kind == "write" and path in self._stands:
            self._told[self._stands[path]].append((self._step, "updated", path))
        elif kind == "write":
            self._told.append([(self._step, "created", path)])
            self._put(path, len(self._told) - 1)
        elif kind == "remove":
            self._lose(path, "deleted")
        else:
            if to in self._stands:
                self._lose(to, "deleted")
            thing = self._stands[path]
            self._lose(path, "moved")
            self._told[thing].append((self._step, "moved", to))
            self._put(to, thing)
        return path

    def _put(self, path, thing):
        self._stands[path] = thing
        self._stood[path].append(thing)

    def _lose(self, path, kind):
        self._ends[path, len(self._stood[path]) - 1] = (self._step, kind, path)
        del self._stands[path]

    def history(self, path):
        found = {}
        for number, thing in reversed(list(enumerate(self._stood[path]))):
            end = self._ends.get((path, number))
            for each in self._told[thing]:
                if end is None or each[0] < end[0]:
                    found.setdefault(each[0], each)
            if end is not None:
                found.setdefault(end[0], end)
        return [each[1:] for _, each in sorted(found.items(), reverse=True)]


async def told(fs, path, limit):
    """All of it, so many at a time."""
    found, before = [], None
    while True:
        some = await fs.store.versions.history(ScopedPath(path), before=before, limit=limit)
        found += [(each.kind, str(each.path)) for each in some.versions]
        if not some.more:
            return found
        before = some.versions[-1].version


@pytest.mark.spec("VOL-5")
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, limit=st.sampled_from([1, 2, 3, 50]))
async def test_history_is_what_a_plain_model_tells(tmp_path_factory, steps, limit):
    model = Model()
    async with opened(tmp_path_factory.mktemp("history") / "v.db") as fs:
        await fs.make_dir("d")
        for number, step in enumerate(steps):
            kind, _, *to = step
            path = model.take(*step)
            if path is None:
                continue
            if kind == "write":
                await fs.write(path, b"%d" % number)
            elif kind == "remove":
                await fs.remove(path)
            else:
                await fs.move(path, to[0], replace=True)
        for path in PATHS:
            wanted = model.history(path)
            if wanted:
                assert await told(fs, path, limit) == wanted, path
            else:
                with pytest.raises(PathNotFound):
                    await told(fs, path, limit)
