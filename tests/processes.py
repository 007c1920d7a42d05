"""Processes that a test starts, and what those start in turn."""

import contextlib
import os
import signal
import subprocess


@contextlib.contextmanager
def in_a_group(command, **options):
    """A process in a group of its own. However the test ends, nobody of the group is left: a parent
    that is killed takes its children with it only if they look for that themselves."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def is_gone(pid):
    """Whether there is no such process, or only what is left of it for its parent to see."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def children_of(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(each) for each in found.stdout.split()]
