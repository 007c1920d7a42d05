"""Running a function behind the wall, from the test process.

A `Wall` is one child process with its own arena, started once per test worker and identity, never
per case. `call` runs a module-level function there and returns what it returned; an assertion that
failed there fails here, with its text. A call that does not come back in its time fails, and the
child is replaced, so that one hang does not take the other tests with it.

See `inside.py` for what the wall is made of and how it is proved.
"""

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

from tests.fronts.mcp import npm
from tests.hostile import inside, messages

Identity = Literal["root", "user", "bare", "operator"]
"""Who runs behind the wall: root, a plain user, root where there is no /proc, or root who may mount
and starts sandboxes."""

CHECKOUT = Path(__file__).parents[2]
START_SECONDS_MAX = 30


class WallUnavailable(Exception):
    """This machine does not let us build the wall. The text says what a person can do."""


class WallBroken(Exception):
    """The wall does not hold, or the child could not be started: nothing may run."""


class CaseFailed(AssertionError):
    """What ran behind the wall failed; the text is what it said."""


class CaseSkipped(Exception):
    """What ran behind the wall does not apply here."""


def _module_of(function: Callable[..., Any]) -> str:
    """The importable name, also for a module that is being run as a command."""
    if function.__module__ != "__main__":
        return function.__module__
    return sys.modules["__main__"].__spec__.name


class Wall:
    """One child behind the wall. Use as a context manager."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self._directory: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: Any = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="bailiwick-arena-")
        # The plain user must be able to reach what is mounted here.
        os.chmod(self._directory, 0o755)
        home = f"{self._directory}/home"
        # Other people's servers, which stand for how it goes without the boundary. The folder is
        # there before the wall is, so that what is installed into it later is seen behind it.
        others = npm.folder()
        others.mkdir(parents=True, exist_ok=True)
        environment = {
            npm.FOLDER_VARIABLE: str(others),
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": home,
            "XDG_STATE_HOME": f"{home}/state",
            "XDG_CACHE_HOME": f"{home}/cache",
            "XDG_RUNTIME_DIR": f"{home}/run",
            "TMPDIR": f"{self._directory}/tmp",
            inside.ARENA_VARIABLE: self._directory,
            inside.IDENTITY_VARIABLE: self.identity,
            inside.CANARY_VARIABLE: f"CANARY-{secrets.token_hex(8)}",
        }
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.inside", self._directory, self.identity],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            start_new_session=True,
        )
        try:
            verdict, text = self._receive(START_SECONDS_MAX)
        except (messages.Gone, messages.Silence):
            self._complaints.seek(0)
            verdict, text = "hole", self._complaints.read().decode(errors="replace")
        if verdict == "ready":
            return
        self.close()
        if verdict == "unavailable":
            raise WallUnavailable(text)
        raise WallBroken(f"REFUSING TO RUN: the wall does not hold. {text}")

    def _receive(self, timeout_s: float) -> tuple[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        answer: tuple[str, Any] = messages.receive(self._process.stdout.fileno(), timeout_s)
        return answer

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout_s: float = 60,
        on_progress: Callable[[str], None] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a module-level function behind the wall and return what it returned."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        name = f"{_module_of(function)}:{function.__qualname__}"
        request = {"function": name, "args": args, "kwargs": kwargs}
        messages.send(self._process.stdin.fileno(), request)
        try:
            verdict, value = self._receive(timeout_s)
            while verdict == "progress":
                if on_progress is not None:
                    on_progress(value)
                verdict, value = self._receive(timeout_s)
        except messages.Silence:
            self.close()
            raise CaseFailed(f"{name} hung: no answer in {timeout_s} s") from None
        except messages.Gone:
            self.close()
            raise CaseFailed(f"{name} ended the process it ran in") from None
        if verdict == "skipped":
            raise CaseSkipped(value)
        if verdict == "failed":
            raise CaseFailed(value)
        return value

    def close(self) -> None:
        """End the child and everything it started; take away the arena's empty directory."""
        process, directory = self._process, self._directory
        self._process = self._directory = None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
            process.kill()
            process.wait()
        if self._complaints is not None:
            self._complaints.close()
            self._complaints = None
        if directory is not None:
            os.rmdir(directory)
