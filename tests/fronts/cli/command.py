"""Running the command: for real, as a shell would, or within the test, which is much quicker."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from bailiwick.fronts.cli import main

COMMAND = str(Path(sys.executable).with_name("bailiwick"))

# What colours and configuration a test sees is its own business, not that of who runs it.
_LEFT_OUT = {
    "NO_COLOR", "FORCE_COLOR", "BAILIWICK_CONFIG", "BAILIWICK_PLACE", "BAILIWICK_TOKEN",
    "BAILIWICK_PAGER", "PAGER", "LESS",
}  # fmt: skip


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    return {**kept, **more}


def bailiwick(*arguments, timeout=120, env=None, given=None, **more):
    """Run `bailiwick` to its end; the answer has returncode, stdout and stderr. ``given`` is what
    it reads from its input: nothing, unless told."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=timeout,
        input="" if given is None else given,
        env=environment(**(env or {})),
        check=False,
        **more,
    )


def within(*arguments):
    """The same without a process of its own: the code, the streams and the exit code are real."""
    out, err = (_stream() for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(arguments, code, _text(out), _text(err))


def _stream():
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8", "surrogateescape")
