"""The test harness itself: what conftest promises is shown on small runs of pytest."""

import fnmatch
import os
import pathlib
import re
import textwrap

import pytest

CONFTEST = pathlib.Path(__file__).parents[1] / "conftest.py"
GRACE = re.compile(r"^THREAD_GRACE_S = [0-9.]+$", re.MULTILINE)
MARKERS = """
    [pytest]
    markers =
        hostile
        leaks_ok
    filterwarnings = error
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run a test module under the house conftest, in a process of its own, and count outcomes."""

    def run_module(source, *arguments, ci=False, name="test_planted.py"):
        monkeypatch.setenv("CI", "true" if ci else "")
        # Plugins of other packages take seconds to load, and have no part in this.
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.makeini(textwrap.dedent(MARKERS))
        conftest, graces = GRACE.subn("THREAD_GRACE_S = 0.5", CONFTEST.read_text(encoding="utf-8"))
        assert graces == 1
        pytester.makeconftest(conftest)
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return run_module


def test_every_test_lies_where_pytest_looks(pytestconfig):
    """Of itself it passes over directories of some ordinary names, and says nothing."""
    tests = CONFTEST.parent
    passed_over = [
        str(path.relative_to(tests))
        for path in tests.rglob("test_*.py")
        for part in path.relative_to(tests).parts[:-1]
        for pattern in pytestconfig.getini("norecursedirs")
        if fnmatch.fnmatch(part, pattern)
    ]
    assert passed_over == []


@pytest.mark.slow
def test_an_async_test_really_runs(run):
    result = run(
        """
        import asyncio, hypothesis, hypothesis.strategies as st

        async def test_passes(tmp_path):
            await asyncio.sleep(0)
            assert tmp_path.exists()

        async def test_fails():
            await asyncio.sleep(0)
            assert False

        @hypothesis.given(st.integers())
        async def test_property(number):
            await asyncio.sleep(0)
            assert number < 1000
        """
    )
    result.assert_outcomes(passed=1, failed=2)


@pytest.mark.slow
def test_a_task_left_over_fails_the_test(run):
    result = run(
        """
        import asyncio

        async def test_leaves_a_task():
            task = asyncio.create_task(asyncio.Event().wait())
            await asyncio.sleep(0)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*left tasks running*"])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc/self/fd")
def test_a_descriptor_or_thread_left_over_is_an_error(run):
    result = run(
        """
        import os, threading, pytest

        def test_leaves_a_descriptor():
            os.open("/", os.O_RDONLY)

        def test_leaves_a_thread():
            threading.Thread(target=threading.Event().wait, daemon=True).start()

        def test_clean():
            os.close(os.open("/", os.O_RDONLY))
            thread = threading.Thread(target=int)
            thread.start()

        @pytest.mark.leaks_ok("this is what the marker is for")
        def test_excused():
            os.open("/", os.O_RDONLY)

        @pytest.mark.leaks_ok
        def test_excuse_without_reason():
            pass
        """
    )
    result.assert_outcomes(passed=4, errors=3)
    result.stdout.fnmatch_lines(["*left behind: descriptor*", "*left behind: thread*"])


SKIPPED_HOSTILE_TEST = """
    import pytest

    @pytest.mark.hostile
    def test_needs_the_wall():
        pytest.skip("no wall here")

    def test_other():
        pytest.skip("may be skipped")
"""


@pytest.mark.slow
def test_a_skipped_hostile_test_fails_only_in_ci(run):
    run(SKIPPED_HOSTILE_TEST).assert_outcomes(skipped=2)
    result = run(SKIPPED_HOSTILE_TEST, ci=True)
    result.assert_outcomes(skipped=1, failed=1)
    result.stdout.fnmatch_lines(["*may not be skipped in CI: no wall here*"])


@pytest.mark.slow
def test_a_skipped_hostile_module_fails_in_ci(run):
    source = """
        import pytest
        pytest.skip("no wall here", allow_module_level=True)
    """
    result = run(source, ci=True, name="hostile/test_planted.py")
    result.assert_outcomes(errors=1)


TABLES = """
    import pytest

    TRIED = []

    @pytest.mark.parametrize("store", ["memory", "disk"])
    @pytest.mark.parametrize(("verb", "path"), [("read", "a"), ("read", "b"), ("move", "a")])
    def test_every_verb_on_every_store(verb, path, store):
        TRIED.append((verb, path, store))

    @pytest.mark.parametrize("store", ["memory", "disk", "volume"])
    @pytest.mark.parametrize("verb", ["read"])
    def test_one_verb_on_every_store(verb, store):
        TRIED.append((verb, store))

    @pytest.mark.parametrize("seed", range(100, 125))
    def test_seeds(seed):
        TRIED.append(seed)

    def test_what_was_tried():
        print("tried", TRIED)
"""


@pytest.mark.slow
def test_unit_tries_every_value_and_not_every_pair(run):
    run(TABLES).assert_outcomes(passed=6 + 3 + 25 + 1)
    profile = ("-p", "_hypothesis_pytestplugin", "--hypothesis-profile", "unit")
    result = run(TABLES, *profile, "-s")
    result.assert_outcomes(passed=3 + 3 + 3 + 1, deselected=3 + 22)
    tried = [
        ("read", "a", "memory"), ("read", "b", "disk"), ("move", "a", "memory"),
        ("read", "memory"), ("read", "disk"), ("read", "volume"), 100, 101, 102,
    ]  # fmt: skip
    assert f"tried {tried}" in result.stdout.str()
