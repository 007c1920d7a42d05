"""`open_sync`: the verbs of `Scope` for blocking code, the same in all but waiting."""

import asyncio
import inspect
import os
import pathlib
import re
import signal
import threading

import pytest

import bailiwick
from bailiwick import Scope, SyncScope
from bailiwick.portal import Portal
from bailiwick.scope.review import Review
from bailiwick.sync_twins import SyncReview
from tests.scope.every_verb import BESIDES, TREE, TWO_ROOTS, VERBS
from tests.waiting import until, until_blocking

SPEC = pathlib.Path(__file__).parent.parent / "SPEC.md"


def _verbs_of(scope_class):
    plumbing = {
        "aclose", "close", "root", "subject", "access", "limits", "powers", "description", "grant",
    }  # fmt: skip
    return {name for name in dir(scope_class) if not name.startswith("_")} - plumbing


@pytest.mark.spec("PY-2")
def test_the_verbs_are_those_of_the_specification():
    rule = re.search(r"\*\*PY-2\*\* `Scope` has the verbs `([^`]+)`", SPEC.read_text())
    listed = set(rule[1].split())
    assert _verbs_of(Scope) == listed
    assert _verbs_of(SyncScope) == listed
    assert VERBS.keys() | TWO_ROOTS | BESIDES == listed


@pytest.mark.spec("PY-2")
@pytest.mark.parametrize(
    ("waiting", "blocking", "name"),
    [
        *((Scope, SyncScope, name) for name in sorted(_verbs_of(Scope) - {"review"})),
        *((Review, SyncReview, name) for name in sorted(_verbs_of(Review))),
    ],
)
def test_blocking_verbs_have_the_same_signature(waiting, blocking, name):
    assert inspect.getdoc(getattr(blocking, name))
    blocking = inspect.signature(getattr(blocking, name))
    waiting = inspect.signature(getattr(waiting, name))
    assert [_plain(p) for p in list(blocking.parameters.values())[1:]] == [
        _plain(p) for p in list(waiting.parameters.values())[1:]
    ]
    returned = {
        "stream": "Generator[bytes, None, None]", "watch": "Generator[Change, None, None]",
        "transaction": "Generator[SyncScope, None, None]", "lock": "SyncLease",
        "session": "SyncSession", "open_session": "SyncSession", "open_work": "SyncWork",
        "exec": "SyncExecution", "runs": "RunPage[SyncRun]", "run_info": "SyncRun",
        **dict.fromkeys(
            (
                "with_request", "with_approval", "with_caller", "with_run", "with_text_max",
                "delegate", "create_temp", "fork", "open_fork",
            ),
            "SyncScope",
        ),
    }  # fmt: skip
    assert blocking.return_annotation == returned.get(name, waiting.return_annotation)


def _plain(parameter):
    """A parameter, where a scope given as an argument is of the caller's own kind."""
    annotation = parameter.annotation
    if annotation == "SyncScope":
        annotation = "ScopeCore"
    return parameter.replace(annotation=annotation)


@pytest.fixture
def fs():
    with bailiwick.open_sync("memory:") as scope:
        for path, content in TREE.items():
            if content.startswith("-> "):
                scope.symlink(path, content[3:])
            else:
                scope.write_text(path, content, parents=True)
        yield scope


@pytest.mark.spec("PY-2")
@pytest.mark.parametrize("name", sorted(VERBS.keys() - {"stream"}))
def test_every_verb_works_without_a_loop(fs, name):
    result = VERBS[name].call(fs)
    assert not inspect.iscoroutine(result)
    assert result is not None


@pytest.mark.spec("PY-2")
def test_a_stream_is_a_plain_iterator(fs):
    assert b"".join(fs.stream("file.txt")) == TREE["file.txt"].encode()
    chunks = fs.stream("file.txt", 1, 3)
    assert next(chunks) == TREE["file.txt"].encode()[1:4]
    chunks.close()
    with pytest.raises(bailiwick.PathNotFound):
        next(fs.stream("missing"))


@pytest.mark.spec("PY-2")
def test_errors_and_requests_are_the_same(fs):
    with pytest.raises(bailiwick.PathNotFound) as refused:
        fs.with_request("mine").read_text("missing")
    assert refused.value.request_id == "mine"
    with pytest.raises(FileNotFoundError):
        fs.stat("missing")
    assert repr(fs) == "<SyncScope workspace:memory for user:local>"
    assert fs.limits == bailiwick.Limits()
    assert fs.root.mount_point == "/"


@pytest.mark.spec("PY-2")
def test_scopes_of_two_portals_copy_to_each_other(fs):
    with bailiwick.open_sync("memory:") as other:
        other.copy_from(fs, "dir", "copied", recursive=True)
        assert other.files().paths == ["copied/inner.txt"]
    with pytest.raises(bailiwick.MissingAccess):
        fs.copy_in("/tmp", "x")


@pytest.mark.spec("LIFE-2", "PY-2")
def test_a_closed_scope_says_so():
    with bailiwick.open_sync("memory:") as scope:
        scope.write_text("f", "x" * 10)
        left = scope.stream("f")
        assert next(left)
    for call in (lambda: scope.read_text("f"), scope.list, lambda: next(scope.stream("f"))):
        with pytest.raises(bailiwick.Closed):
            call()
    left.close()


@pytest.mark.spec("LIFE-2")
def test_threads_share_a_scope_and_closing_waits_for_them():
    results, started = [], threading.Event()

    def chunks():
        started.set()
        for number in range(50):
            yield b"%d," % number

    with bailiwick.open_sync("memory:") as scope:
        threads = [
            threading.Thread(target=lambda n=n: results.append(scope.append("log", f"{n}\n")))
            for n in range(8)
        ]
        upload = threading.Thread(target=lambda: results.append(_outcome(scope, chunks())))
        for thread in (*threads, upload):
            thread.start()
        started.wait(120)
        for thread in threads:
            thread.join(120)
        assert sorted(scope.read_text("log").text.split()) == [str(n) for n in range(8)]
    upload.join(120)
    assert len(results) == 9


def _outcome(scope, chunks):
    try:
        return scope.write_stream("upload", chunks)
    except bailiwick.Closed as closed:
        return closed


@pytest.mark.spec("LIFE-2")
def test_a_portal_closes_once_and_finishes_what_it_runs():
    portal, order = Portal(), []
    started = threading.Event()

    async def work():
        started.set()
        await until(lambda: portal._closed)
        order.append("worked")

    thread = threading.Thread(target=lambda: portal.run(work()))
    thread.start()
    started.wait(120)
    portal.close()
    order.append("closed")
    portal.close()
    thread.join(120)
    assert order == ["worked", "closed"]
    with pytest.raises(bailiwick.Closed):
        portal.run(work())


@pytest.mark.spec("LIFE-2")
def test_an_error_inside_the_block_still_closes():
    with pytest.raises(LookupError), bailiwick.open_sync("memory:"):
        raise LookupError


def _ends(action, seconds=20):
    """What ``action`` returned or raised, in a thread: a test that hangs would say nothing."""
    outcome = []

    def run():
        try:
            outcome.append(action())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, "it hangs"
    return outcome[0]


@pytest.mark.spec("PY-2", "WRITE-1")
@pytest.mark.parametrize("count", [1, 40])
def test_a_scope_is_written_from_its_own_stream(fs, count):
    """Even so many at once that a shared pool of threads would run out."""
    data = TREE["file.txt"].encode()

    def upload(number):
        return fs.write_stream(f"copy{number}", _noting(fs, fs.stream("file.txt")))

    def all_of_them():
        results = []
        threads = [
            threading.Thread(target=lambda n=n: results.append(upload(n)), daemon=True)
            for n in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    assert [result.size for result in _ends(all_of_them)] == [len(data)] * count
    assert fs.read_bytes("copy0").data == data


def _noting(fs, chunks):
    """A generator that itself asks the scope, for something that is done in a thread."""
    for chunk in chunks:
        fs.grep("(x+x+)+y", report_skipped=False)
        yield chunk


@pytest.mark.spec("PY-2", "WRITE-3")
def test_a_stream_is_let_go_when_the_write_from_it_fails(fs):
    chunks = fs.stream("file.txt")
    refused = _ends(lambda: fs.write_stream("dir", chunks))
    assert isinstance(refused, bailiwick.IsADirectory)
    with bailiwick.open_sync("memory:", limits=bailiwick.Limits(max_file_bytes=3)) as small:
        chunks = fs.stream("file.txt")
        assert isinstance(_ends(lambda: small.write_stream("f", chunks)), bailiwick.FileTooLarge)
        assert list(chunks) == []


@pytest.mark.spec("PY-2")
def test_a_portal_does_not_wait_for_itself(fs):
    portal = Portal()

    async def inside():
        left = SyncScope(fs._scope, portal).stream("file.txt")
        with pytest.raises(RuntimeError, match="own event loop"):
            next(left)
        with pytest.raises(RuntimeError, match="own event loop"):
            portal.run(asyncio.sleep(0))
        return "told"

    assert _ends(lambda: portal.run(inside())) == "told"
    portal.close()


@pytest.mark.spec("PY-2", "LIFE-2")
def test_a_stream_may_be_let_go_on_the_loop_itself(fs):
    chunks = fs.stream("file.txt")
    assert next(chunks)

    async def let_go():
        chunks.close()

    assert _ends(lambda: fs._portal.run(let_go())) is None
    assert fs.exists("file.txt")


@pytest.mark.spec("PY-2", "EVENT-1")
def test_blocking_code_ends_its_listeners(tmp_path):
    told, once = [], []
    with bailiwick.open_sync(tmp_path) as fs:
        end = fs.on_change(lambda change: told.append(str(change.path)))

        def hear_once(change):
            once.append(str(change.path))
            end_once()

        end_once = fs.on_change(hear_once)
        fs.write_text("heard", "")
        until_blocking(lambda: told and once)
        end()
        end()
        fs.write_text("not heard", "")
        late = fs.on_change(lambda change: None)
    late()  # its scope has ended it
    assert told == once == ["heard"]


@pytest.mark.spec("LIFE-2", "PY-2")
def test_in_a_forked_child_an_inherited_scope_is_closed(fs):
    chunks = fs.stream("file.txt")
    assert next(chunks)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            with pytest.raises(bailiwick.Closed):
                fs.read_text("file.txt")
            with pytest.raises(bailiwick.Closed):
                next(chunks)
            fs._portal.close()
            with bailiwick.open_sync("memory:") as own:
                own.write_text("f", "x")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert b"".join(chunks) == b""
    assert fs.read_text("file.txt").text == TREE["file.txt"]
