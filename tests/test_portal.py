"""`open_sync`: the verbs of `Scope` for blocking code, the same in all but waiting."""

import asyncio
import inspect
import pathlib
import re
import threading

import pytest

import bailiwick
from bailiwick import Scope, SyncScope
from bailiwick.portal import Portal
from tests.scope.every_verb import TREE, TWO_ROOTS, VERBS

SPEC = pathlib.Path(__file__).parent.parent / "SPEC.md"


def _verbs_of(scope_class):
    plumbing = {"aclose", "root", "subject", "access", "limits", "powers", "description", "grant"}
    return {name for name in vars(scope_class) if not name.startswith("_")} - plumbing


@pytest.mark.spec("PY-2")
def test_the_verbs_are_those_of_the_specification():
    rule = re.search(r"\*\*PY-2\*\* `Scope` has the verbs `([^`]+)`", SPEC.read_text())
    listed = set(rule[1].split())
    assert _verbs_of(Scope) == listed
    assert _verbs_of(SyncScope) == listed
    assert VERBS.keys() | TWO_ROOTS | {"with_request"} == listed


@pytest.mark.spec("PY-2")
@pytest.mark.parametrize("name", sorted(_verbs_of(Scope)))
def test_blocking_verbs_have_the_same_signature(name):
    blocking = inspect.signature(getattr(SyncScope, name))
    waiting = inspect.signature(getattr(Scope, name))
    assert [_plain(p) for p in list(blocking.parameters.values())[1:]] == [
        _plain(p) for p in list(waiting.parameters.values())[1:]
    ]
    returned = {"with_request": "SyncScope", "stream": "Generator[bytes, None, None]"}
    assert blocking.return_annotation == returned.get(name, waiting.return_annotation)
    assert inspect.getdoc(getattr(SyncScope, name))


def _plain(parameter):
    """A parameter, where a scope given as an argument is of the caller's own kind."""
    annotation = parameter.annotation
    if annotation == "SyncScope":
        annotation = "Scope"
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
        started.wait(5)
        for thread in threads:
            thread.join(5)
        assert sorted(scope.read_text("log").text.split()) == [str(n) for n in range(8)]
    upload.join(5)
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
        await asyncio.sleep(0.02)
        order.append("worked")

    thread = threading.Thread(target=lambda: portal.run(work()))
    thread.start()
    started.wait(5)
    portal.close()
    order.append("closed")
    portal.close()
    thread.join(5)
    assert order == ["worked", "closed"]
    with pytest.raises(bailiwick.Closed):
        portal.run(work())


@pytest.mark.spec("LIFE-2")
def test_an_error_inside_the_block_still_closes():
    with pytest.raises(LookupError), bailiwick.open_sync("memory:"):
        raise LookupError
