"""Nomination by ripgrep: which files beneath a directory may hold a match.

Ripgrep only names candidates. What matches and what is skipped is decided by our own search on
the bytes that our own confined lookup opens, so that the answer is the same with and without it.
The pattern it is given is a superset of the query's (`bailiwick.search.superset`); whenever there
is any doubt (no such pattern, no ripgrep, no Landlock, an error, the deadline) the answer is None,
which means: search in process.

Ripgrep opens files by path, and a path can be changed under it. So it never runs unconfined: it
may read beneath the directory and execute itself, nothing else (`landlock`). The wall is drawn by
a thread made for this one launch, around itself: ripgrep inherits it, the thread ends, and no
other thread of this process is touched. That costs 1 ms; a function run between fork and exec
costs 3 ms and can deadlock in a process with threads, and an interpreter in between costs 14 ms.
In its short life the thread does nothing but start the child.

All functions block: call them from a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import select
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from bailiwick.search.grep import Query
from bailiwick.search.superset import CONTAINS_NUL, rust_superset
from bailiwick.stores.disk.search import landlock
from bailiwick.stores.disk.search.landlock import EXECUTE, READ_DIR, READ_FILE, LandlockRule

OUTPUT_BYTES_MAX = 64 * 1024 * 1024
"""Names of about a million files; a longer list is no help over searching in process."""

LEAVE_OUT_MAX = 200
"""Each directory left out is compared with every entry on the way: more cost what they save."""

_PATTERN_BYTES_MAX = 100_000
"""The kernel takes arguments of up to 128 KiB."""

_THREADS_MAX = 12
"""What ripgrep itself takes at most: more threads only wait for each other."""

_ERROR_BYTES_MAX = 64 * 1024
_CHUNK_BYTES = 256 * 1024
_POLL_MS = 50
_LAST_BREATH_MS = 5_000
_ELF_INTERPRETER = 3

# Of a child that only reads: far above what it was seen to use, far below what would hurt.
_LIMITS = {
    resource.RLIMIT_AS: 4 * 1024 * 1024 * 1024,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_CPU: 120,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_NOFILE: 256,
}

_LIBRARY_DIRECTORIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")

# A file that vanished, which leaves no trace in our own search either. One that may not be read
# does: only our own search can say so.
_HARMLESS_ERROR = re.compile(rb".*\(os error 2\)")

_GLOB_SPECIAL = re.compile(r"([*?\[\]{}\\!# ])")

_FIXED_ARGUMENTS = (
    "--no-config", "--files-with-matches", "--null", "--text", "--encoding=none", "--no-mmap",
    "--no-ignore", "--hidden", "--no-follow", "--case-sensitive", "--color=never",
)  # fmt: skip


class SearchBounds(NamedTuple):
    """What ends a nomination early: a time on `time.monotonic`'s clock, or a word."""

    deadline: float
    cancelled: Callable[[], bool]

    @property
    def reached(self) -> bool:
        return time.monotonic() >= self.deadline or self.cancelled()


class Area(NamedTuple):
    """Which files beneath the directory are of interest; what is left out is never nominated.

    ``leave_out`` are directories, relative to the base. Files larger than ``file_bytes_max`` are
    not looked at.
    """

    leave_out: Sequence[str] = ()
    file_bytes_max: int | None = None


def ambient_find_ripgrep() -> str | None:
    """The ripgrep of this Python environment, or else the one on PATH; None where there is none."""
    import sysconfig

    bundled = os.path.join(sysconfig.get_path("scripts"), "rg")
    if os.access(bundled, os.X_OK):
        return bundled
    import shutil  # loads what packs and unpacks archives

    return shutil.which("rg")


def nominate_blocking(
    ripgrep: str,
    base_fd: int,
    query: Query,
    area: Area,
    bounds: SearchBounds,
    *,
    binaries: bool = False,
) -> list[bytes] | None:
    """Every regular file beneath the directory in which ``query`` matches, and perhaps others.

    With ``binaries`` also every one that holds a NUL byte anywhere. Plain text is looked for
    together with that byte: it takes 0.6 of what two searches do where files are small, and a tenth
    more where they are of 11 KB. For any other pattern it is found by a second ripgrep at the same
    time: one pattern for both, without a literal to search for first, takes up to twice as long as
    the two do (``[A-Z]{4}-[0-9]{6}``). Paths are relative to ``base_fd``, in no order, as the bytes
    that the kernel gave. Links are not followed. None: ripgrep cannot tell, or was stopped; search
    in process.
    """
    pattern = rust_superset(query)
    if pattern is None or len(pattern.encode()) > _PATTERN_BYTES_MAX:
        return None
    if binaries and query.is_plain:
        pattern, binaries = f"{pattern}|{CONTAINS_NUL}", False
    if not binaries:
        return _nominate(ripgrep, base_fd, pattern, area, bounds)
    failed = threading.Event()
    either = SearchBounds(bounds.deadline, lambda: failed.is_set() or bounds.cancelled())

    def nominate(pattern: str) -> list[bytes]:
        found = _nominate(ripgrep, base_fd, pattern, area, either, [_half_of_the_processors()])
        if found is None:
            failed.set()  # the other one's answer alone is worth nothing
        return found or []

    with ThreadPoolExecutor(1, thread_name_prefix="bailiwick-ripgrep") as executor:
        try:
            holding_nul = executor.submit(nominate, CONTAINS_NUL)
        except RuntimeError:  # no thread could be started
            return None
        found = nominate(pattern) + holding_nul.result()
    return None if failed.is_set() else found


def _half_of_the_processors() -> str:
    return f"--threads={max(1, min(_THREADS_MAX, len(os.sched_getaffinity(0))) // 2)}"


def _nominate(
    ripgrep: str,
    base_fd: int,
    pattern: str,
    area: Area,
    bounds: SearchBounds,
    options: Sequence[str] = (),
) -> list[bytes] | None:
    arguments = [*_FIXED_ARGUMENTS, *options, *_area_arguments(area), f"--regexp={pattern}"]
    arguments += ["--", "./"]
    output = run_confined_blocking(ripgrep, arguments, base_fd, bounds)
    if output is None:
        return None
    return [path.removeprefix(b"./") for path in output.split(b"\0")[:-1]]


def _area_arguments(area: Area) -> list[str]:
    arguments: list[str] = []
    if area.file_bytes_max is not None:
        arguments.append(f"--max-filesize={area.file_bytes_max}")
    arguments.extend(
        "--glob=!/" + _GLOB_SPECIAL.sub(r"\\\1", directory) + "/"
        for directory in area.leave_out[:LEAVE_OUT_MAX]
        if directory.isprintable()  # what cannot be written in a pattern is simply not left out
    )
    return arguments


def run_confined_blocking(
    ripgrep: str, arguments: Sequence[str], base_fd: int, bounds: SearchBounds
) -> bytes | None:
    """What ripgrep prints when it can read nothing but what lies beneath ``base_fd``, or None.

    The child has no environment, no other descriptor, its own process group and bounded
    resources. It is gone when this returns.
    """
    if landlock.version() < 1 or bounds.reached:
        return None
    try:
        with ExitStack() as held:
            with ExitStack() as only_for_child:
                output_fd, child_output = _pipe(held, only_for_child)
                errors_fd, child_errors = _pipe(held, only_for_child)
                nothing = _open(os.devnull, os.O_RDONLY, only_for_child)
                child = _start_confined(
                    [ripgrep, *arguments],
                    _ruleset(ripgrep, base_fd, only_for_child),
                    directory=f"/proc/self/fd/{base_fd}",
                    streams=(nothing, child_output, child_errors),
                )
                held.callback(_end, child)
            _limit(child)
            printed = _read_to_end(output_fd, errors_fd, bounds)
            if printed is None:
                return None
            output, errors = printed
            return output if _is_sound(_exit_code(child), errors) else None
    except OSError:
        return None


def _open(path: str, flags: int, held: ExitStack) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC)
    held.callback(os.close, fd)
    return fd


def _pipe(for_reading: ExitStack, for_writing: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    for_reading.callback(os.close, reading)
    for_writing.callback(os.close, writing)
    return reading, writing


def _ruleset(ripgrep: str, base_fd: int, held: ExitStack) -> int:
    """Read beneath the base, execute ripgrep, and if it needs them read the system's libraries."""
    binary_fd = _open(ripgrep, os.O_RDONLY, held)
    rules = [
        LandlockRule(base_fd, READ_FILE | READ_DIR),
        LandlockRule(binary_fd, READ_FILE | EXECUTE),
    ]
    if not _is_static(os.pread(binary_fd, 4096, 0)):
        for directory in _LIBRARY_DIRECTORIES:
            with contextlib.suppress(FileNotFoundError):
                library_fd = _open(directory, os.O_PATH | os.O_DIRECTORY, held)
                rules.append(LandlockRule(library_fd, READ_FILE | READ_DIR | EXECUTE))
    ruleset_fd = landlock.create_ruleset(rules)
    held.callback(os.close, ruleset_fd)
    return ruleset_fd


def _is_static(head: bytes) -> bool:
    """Whether the 64-bit ELF file that begins so names no interpreter to load libraries with."""
    if head[:6] != b"\x7fELF\x02\x01":
        return False
    table, size, count = struct.unpack_from("<32xQ14xHH", head)
    end = table + size * count
    if end > len(head):
        return False
    kinds = (struct.unpack_from("<I", head, at)[0] for at in range(table, end, size))
    return _ELF_INTERPRETER not in kinds


def _start_confined(
    command: list[str], ruleset_fd: int, *, directory: str, streams: tuple[int, int, int]
) -> subprocess.Popen[bytes]:
    """Start the command from a thread of its own that has put the wall around itself."""
    started: list[subprocess.Popen[bytes]] = []
    failed: list[Exception] = []

    def start() -> None:
        try:
            landlock.restrict_calling_thread(ruleset_fd)
            started.append(
                subprocess.Popen(
                    command,
                    stdin=streams[0],
                    stdout=streams[1],
                    stderr=streams[2],
                    cwd=directory,
                    env={},
                    close_fds=True,
                    process_group=0,
                )
            )
        except Exception as error:  # handed to the caller's thread, which raises it
            failed.append(error)

    launcher = threading.Thread(target=start, name="bailiwick-ripgrep-launcher")
    try:
        launcher.start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "no thread could be started") from None
    launcher.join()
    if failed:
        raise failed[0]
    return started[0]


def _limit(child: subprocess.Popen[bytes]) -> None:
    for limit, value in _LIMITS.items():
        with contextlib.suppress(OSError):  # it may have ended already
            resource.prlimit(child.pid, limit, (value, value))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the child if it still runs, and wait for it: no process is left behind."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _read_to_end(
    output_fd: int, errors_fd: int, bounds: SearchBounds
) -> tuple[bytes, bytes] | None:
    """Both streams until they end; None if the bounds or a size limit are reached first."""
    room = {output_fd: OUTPUT_BYTES_MAX, errors_fd: _ERROR_BYTES_MAX}
    read: dict[int, list[bytes]] = {output_fd: [], errors_fd: []}
    waiting = select.poll()
    for fd in room:
        waiting.register(fd, select.POLLIN)
    still_open = len(room)
    while still_open:
        if bounds.reached:
            return None
        for fd, _ in waiting.poll(_POLL_MS):
            chunk = os.read(fd, _CHUNK_BYTES)
            if not chunk:
                waiting.unregister(fd)
                still_open -= 1
            read[fd].append(chunk)
            room[fd] -= len(chunk)
            if room[fd] < 0:
                return None
    return b"".join(read[output_fd]), b"".join(read[errors_fd])


def _exit_code(child: subprocess.Popen[bytes]) -> int | None:
    """How the child ended, which it does at once when its output has; None if it does not.

    Waiting on its descriptor is exact, where `Popen.wait` with a timeout sleeps in steps.
    """
    pidfd = os.pidfd_open(child.pid)
    try:
        ending = select.poll()
        ending.register(pidfd, select.POLLIN)
        ending.poll(_LAST_BREATH_MS)
    finally:
        os.close(pidfd)
    return child.poll()


def _is_sound(exit_code: int | None, errors: bytes) -> bool:
    """Whether all was searched that can be: 0 and 1 say so, 2 needs its reasons looked at."""
    if exit_code != 2:
        return exit_code in (0, 1)
    lines = errors.splitlines()
    return bool(lines) and all(_HARMLESS_ERROR.fullmatch(line) for line in lines)
