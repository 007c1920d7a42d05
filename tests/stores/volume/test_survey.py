"""A survey tells of a tree what a walk and a search of every file would tell."""

import contextlib

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bailiwick.build.options import read_options
from bailiwick.build.own import join
from bailiwick.limits import Limits
from bailiwick.paths import parse
from bailiwick.search.grep import compile_query
from bailiwick.store import Surveys
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.search import pages
from bailiwick.testing.driver import StoreDriver
from bailiwick.text.sniff import is_binary_search
from tests.scope.support import Rules, deny, hide, plant, unruled
from tests.scope.test_grep import NESTED_RULES, WAYS
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import in_database, opened

pytestmark = pytest.mark.slow

SHOWN = {"context": 0, "matches_left": 1, "line_characters_max": 9}


async def surveyed(store, pattern, path=".", **asked):
    how = {
        "literal": False, "ignore_case": False, "word": False, "leave_out": (),
        "file_bytes_max": None, "entries_max": 1_000, "depth_max": 9, "deadline_s": 60.0, **asked,
    }  # fmt: skip
    directory = await store.resolve(parse(path).path, "object")
    try:
        return await store.survey(directory, pattern, **how)
    finally:
        directory.close()


def paths(survey, which):
    return {
        str(directory.child(name))
        for directory, found in survey.items()
        for name in getattr(found, which)
    }


PATTERNS = [
    ("ab", {"literal": True}),
    ("AB", {"ignore_case": True, "literal": True}),
    ("^a", {}),
    ("b$", {}),
    ("a.*b|\\.a", {}),
    ("a[^b]", {"word": True}),
    ("\\Ab", {}),
    ("é", {}),
]

PARTS = [b"a", b"b", b"ab", b"\n", b"\r\n", b"\0", b"\xef\xbb\xbf", b"\xff", "é".encode()]

CONTENTS = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=8).map(b"".join),
    st.tuples(
        st.sampled_from([b"x\n", b"a\n", b"y"]),
        st.sampled_from([3_000, 5_000, 8_191, 8_192, 70_000]),
        st.sampled_from([b"", b"ab", b"\0", b"\rb", b"\na b"]),
    ).map(lambda made: made[0] * (made[1] // len(made[0])) + made[2]),
)  # fmt: skip

TREES = st.dictionaries(
    st.sampled_from(["a", "b", "b.txt", "d/a", "d/b", "d/c", "d/e/a", "d/e/b", "e/é", "e/z"]),
    CONTENTS, max_size=8,
)  # fmt: skip


def check(survey, tree, asked):
    """The survey against the files themselves."""
    pattern, how = asked
    query = compile_query(pattern, **how)
    files = {path: data for path, data in tree.items() if isinstance(data, bytes)}
    worth, binary = paths(survey, "worth"), paths(survey, "binary")
    assert paths(survey, "files") == files.keys()
    assert paths(survey, "directories") | {"."} == {str(path) for path in survey}
    assert {path for path, data in files.items() if query.search(data, **SHOWN)} <= worth
    assert binary == {path for path, data in files.items() if is_binary_search(data)}
    for path in worth:  # whatever is whole and in one piece was looked at
        assert len(files[path]) > pages.TOGETHER_BYTES_MAX or query.may_match(files[path])


@pytest.mark.spec("GREP-1", "GREP-3", "VOL-12")
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    before=TREES, after=TREES, removed=st.sampled_from(["a", "b", "d", "d/e", "e"]),
    compression=st.sampled_from(["off", "zstd"]), names=st.sampled_from([1, 2, 3, 64]),
    asked=st.sampled_from(PATTERNS),
)  # fmt: skip
async def test_a_survey_says_what_the_files_say(
    tmp_path_factory, before, after, removed, compression, names, asked
):
    place = tmp_path_factory.mktemp("survey") / "v.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE_NAMES", names)
        async with opened(place, compression=compression) as fs:
            for path, data in before.items():
                await fs.write(path, data, parents=True)
            await fs.symlink("link", "d")
            version = (await fs.store.versions.history(parse(".").path, limit=1)).versions[0]
            fork = StoreDriver(await fs.store.versions.fork("work"))
            for driver in (fork, fs):
                if removed in await tree_of(driver.store):
                    await driver.remove(removed, recursive=True)
            for path, data in after.items():
                await fork.write(path, data, parents=True)
            past = await fs.store.versions.as_of(version.version)
            for store in (fs.store, fork.store, past):
                assert isinstance(store, Surveys)
                pattern, how = asked
                check(await surveyed(store, pattern, **how), await tree_of(store), asked)
            await past.aclose()
            await fork.aclose()


@pytest.mark.spec("GREP-3", "VOL-12")
async def test_what_is_large_or_left_out_is_told_apart(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for path in ("one", "d/two", "out/three", "d/out/four"):
            await fs.write(path, b"Needle", parents=True)
        await fs.write("large", b"Needle " * 100)
        survey = await surveyed(fs.store, "Needle", file_bytes_max=10, leave_out=("out",))
        assert survey.keys() == {".", "d", "d/out"}
        assert paths(survey, "files") == {"one", "large", "d/two", "d/out/four"}
        assert paths(survey, "worth") == {"one", "d/two", "d/out/four"}
        assert survey[parse(".").path].large == {"large": 700}
        assert set(survey[parse(".").path].directories) == {"d", "out"}


@pytest.mark.spec("GREP-3", "VOL-8")
async def test_a_damaged_file_is_worth_a_look_even_if_it_seems_to_be_binary(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("small", b"nothing here")
        await fs.write("middle", b"nothing there " * 900)
        await in_database(fs, "UPDATE inode SET data = zeroblob(12) WHERE size = 12 RETURNING id")
        await in_database(fs, "UPDATE chunk SET data = zeroblob(12600) RETURNING id")
        survey = await surveyed(fs.store, "Needle")
        assert paths(survey, "worth") == {"small", "middle"}


@pytest.mark.spec("GREP-3", "TREE-8")
async def test_what_a_walk_would_not_show_in_full_is_not_surveyed(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for path in ("a", "b/c", "b/d/e"):
            await fs.write(path, b"x", parents=True)
        assert await surveyed(fs.store, "x", entries_max=5) is not None
        assert await surveyed(fs.store, "x", entries_max=4) is None
        assert await surveyed(fs.store, "x", depth_max=3) is not None
        assert await surveyed(fs.store, "x", depth_max=2) is None
        assert await surveyed(fs.store, "x", deadline_s=-1.0) is None


@contextlib.asynccontextmanager
async def scope_on(path, policy, **options):
    wanted = read_options(options)
    whole = join(VolumeStore.open(str(path)), wanted, "test", "/", policy=policy)
    try:
        yield whole
    finally:
        await whole.aclose()


@pytest.mark.spec("GREP-1", "GREP-3", "TREE-8")
@pytest.mark.parametrize("rules", [(), (hide("src/b.txt"),), (deny("src/b.txt"),)])
async def test_a_survey_changes_no_answer_of_grep(tmp_path, monkeypatch, rules):
    """What a walk would have told is told, to the last list, under rules and policy."""
    limits = Limits(grep_nominate_files_min=1)
    policy = Rules(*rules) if rules else None
    async with scope_on(tmp_path / "v.db", policy, limits=limits) as fs:
        planting = unruled(fs)
        await plant(planting, NESTED_RULES)
        await plant(planting, {"b": "needle", "b.txt": "needle", "b-/c": "needle", "src.d/c": "x"})
        await plant(planting, {".git/c": "needle", "link": "-> src", "build.d/.git": "needle"})
        survey, surveys = VolumeStore.survey, []

        async def counted(*args, **how):
            surveys.append(await survey(*args, **how))
            return surveys[-1]

        async def nothing_known(*_, **__):
            return None

        for asked in (*WAYS, {"path": "src.d"}, {"include": "b*"}, {"max_results": 1}):
            monkeypatch.setattr(VolumeStore, "survey", counted)
            told = await fs.grep("needle", **asked)
            monkeypatch.setattr(VolumeStore, "survey", nothing_known)
            walked = await fs.grep("needle", **asked)
            assert msgspec.structs.replace(told, request_id=walked.request_id) == walked, asked
        assert None not in surveys
        assert len(surveys) == (0 if rules else len(WAYS) + 3)
