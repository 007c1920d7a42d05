"""Joining what it takes to run code: a sandbox, and a Python that can be started in it."""

from __future__ import annotations

import os
import sys
from functools import cache, partial

from bailiwick.build.homes import known_state_dir
from bailiwick.commands import SLOTS, Interpreter, LendsInterpreter
from bailiwick.errors import Unsupported
from bailiwick.store import HostDirectory, Store

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""What every sandbox shows of the machine."""


def interpreter_for(store: Store, state_dir: str | None) -> LendsInterpreter:
    """How code is run for a root, put together when it first is."""
    return partial(_interpreter, store, state_dir)


def _interpreter(store: Store, state_dir: str | None) -> Interpreter:
    found = _of_this_machine()
    state_dir = state_dir or known_state_dir()
    if state_dir is not None:
        _refuse_in_sight(state_dir, found.readable)
    if isinstance(store, HostDirectory):
        _refuse_in_sight(_place_of(store), found.readable)
    return found


def _place_of(directory: HostDirectory) -> str:
    opened = directory.open_directory()
    try:
        return os.readlink(f"/proc/self/fd/{opened}")
    except OSError:  # without /proc no code runs either
        return "/"
    finally:
        os.close(opened)


def _refuse_in_sight(kept: str, readable: tuple[str, ...]) -> None:
    """Code has no other way to a tree than its calls: neither to one that lies where the system is
    seen, nor to what is kept of it in a state that does."""
    place = os.path.realpath(kept)
    for each in (*_SYSTEM, *readable):
        shown = os.path.realpath(each)
        if os.path.commonpath((shown, place)) == shown:
            raise Unsupported(
                "the tree or the state lies among the directories of the system, which code can"
                " read",
                hint="keep it elsewhere",
            )


@cache
def _of_this_machine() -> Interpreter:
    """Our own Python without its packages, not that of a virtual environment."""
    from importlib import resources

    from bailiwick.sandboxes.bubblewrap import Bubblewrap

    program = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable or "")
    if not os.path.isfile(program):
        raise Unsupported("it is not known which Python to run code with")
    needed = {program, *map(os.path.realpath, _libraries())}
    system = tuple(map(os.path.realpath, _SYSTEM))
    readable = tuple(
        sorted(
            path
            for path in needed
            if not any(os.path.commonpath((each, path)) == each for each in system)
        )
    )
    text = resources.files("bailiwick.sandboxes").joinpath("code_runtime.py").read_text("utf-8")
    argv = (program, "-I", "-S", "-B", "-c", text)
    return Interpreter(Bubblewrap(), SLOTS, argv, readable)


def _libraries() -> list[str]:
    import sysconfig

    paths = sysconfig.get_paths()
    found = {paths["stdlib"], paths["platstdlib"]}
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        directory = sysconfig.get_config_var("LIBDIR") or ""
        shared = os.path.join(directory, sysconfig.get_config_var("INSTSONAME") or "")
        found |= {shared} if os.path.isfile(shared) else set()
    # Of one that holds another only the outer one: inside it stands at the same place.
    return [
        each
        for each in found
        if not any(other != each and os.path.commonpath((other, each)) == other for other in found)
    ]
