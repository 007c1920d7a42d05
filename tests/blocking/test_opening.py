"""Scopes that blocking code opens and closes."""

import gc
import subprocess
import sys
import threading

import pytest

import bailiwick
from bailiwick.errors import Closed
from bailiwick.paths import ScopedPath
from tests.waiting import PATIENCE_S, until_blocking

pytestmark = [pytest.mark.spec("LINE-4", "LINE-5"), pytest.mark.slow]


def test_a_scope_that_nobody_has_any_more_is_closed_and_one_that_somebody_has_is_not(tmp_path):
    fs = bailiwick.open_sync(tmp_path).__enter__()
    named = fs.with_request("mine")
    store = fs._scope._pipeline.store
    del fs
    gc.collect()
    named.write_text("f", "a")
    assert named.read_text("f").text == "a"
    del named
    gc.collect()
    with pytest.raises(Closed):
        store.is_missing(ScopedPath("f"))
    assert not [each for each in threading.enumerate() if each.name == "bailiwick-portal"]


def test_a_scope_that_is_let_go_of_on_its_own_loop_is_closed_there(tmp_path):
    with bailiwick.open_sync(tmp_path) as other:
        fs = [bailiwick.open_sync(tmp_path).__enter__()]
        store = fs[0]._scope._pipeline.store

        async def let_go():
            fs.clear()
            gc.collect()

        other._portal.run(let_go())
        until_blocking(lambda: store._workers.closed)
        assert not other.exists("f")


@pytest.mark.parametrize("how", ["kept", "forked"])
def test_a_scope_that_is_never_closed_keeps_no_process_from_ending(tmp_path, how):
    code = (
        "import bailiwick, os, sys\n"
        f"fs = bailiwick.open_sync({str(tmp_path)!r}).__enter__()\n"
        "fs.write_text('f', 'a')\n"
        "if sys.argv[1] == 'forked' and (child := os.fork()):\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(open(sys.argv[2] + '/f').read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, how, str(tmp_path)],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "")
