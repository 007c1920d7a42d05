"""Killing a process at its work: not before it has done some, however busy the machine is."""

from tests.waiting import let_pass_blocking


def killed_at_work(process, lines, seconds):
    """Let a process go on until it has said so many lines and for a while longer, kill it, and
    return the words of all it said."""
    said = [process.stdout.readline() for _ in range(lines)]
    let_pass_blocking(seconds)
    process.kill()
    return "".join([*said, process.stdout.read()]).split()
