"""A command on a terminal: its size, its signals, its end."""

import os
import subprocess

import pytest

from bailiwick.sandbox import WindowSize
from tests.sandboxes.workshop import LONG, sleepers
from tests.waiting import until


async def collect(process, wanted):
    """What is printed, up to where it holds ``wanted``."""
    text = b""
    async for piece in process.pieces():
        assert piece.stream == "stdout"
        text += piece.data
        if wanted in text:
            return text
    return text


async def test_its_streams_are_a_terminal_of_the_given_size(workshop):
    said = await workshop.shell(
        "test -t 0 && test -t 1 && test -t 2 && echo yes; stty size; echo $TERM; ps -o tty= $$",
        terminal=WindowSize(30, 99),
    )
    assert said.out.split("\r\n")[:3] == ["yes", "30 99", "xterm-256color"]
    assert said.err == ""


async def test_it_can_be_resized_and_is_told(workshop):
    process = await workshop.start(
        "sh", "-c", "trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.01; done",
        terminal=WindowSize(),
    )  # fmt: skip
    await collect(process, b"up")
    process.resize(50, 120)
    assert b"50 120" in await collect(process, b"50 120")
    assert (await process.wait()).exit_code == 0
    await process.close()


async def test_control_c_interrupts_what_is_in_the_foreground_and_not_the_sandbox(workshop):
    script = f"trap 'echo caught' INT; sleep {LONG}; echo after"
    process = await workshop.start("sh", "-c", script, terminal=WindowSize())
    await until(lambda: sleepers())
    await process.write(b"\x03")
    text = await collect(process, b"after")
    assert b"caught" in text
    assert (await process.wait()).exit_code == 0
    await process.close()


async def test_an_interactive_shell_has_jobs(workshop):
    process = await workshop.start("bash", "--norc", "-i", terminal=WindowSize())
    await process.write(b"sleep %d & jobs; kill %%1; exit 5\n" % LONG)
    ending = await process.wait()
    text = b"".join([piece.data async for piece in process.pieces()])
    assert b"Running" in text, text
    assert b"no job control" not in text
    assert ending.exit_code == 5
    await process.close()


async def test_input_ends_by_the_character_for_it(workshop):
    process = await workshop.start("cat", terminal=WindowSize())
    await process.write(b"line\n")
    await collect(process, b"line\r\nline\r\n")
    await process.close_input()
    assert (await process.wait()).exit_code == 0
    await process.close()


@pytest.mark.spec("EXEC-5")
async def test_killed_on_a_terminal_it_is_gone(workshop):
    process = await workshop.start("sleep", str(LONG), terminal=WindowSize())
    assert (await process.kill()).signal == 9
    process.resize(1, 1)
    await process.close()


TYPING = """
import fcntl, termios
try:
    for letter in b"typed": fcntl.ioctl(0, termios.TIOCSTI, bytes([letter]))
    print("could")
except OSError as error: print("could not", error.errno)
"""


@pytest.mark.spec("EXEC-5")
async def test_it_types_nothing_into_its_terminal(workshop):
    """Into that of a person, where one is handed through, it would be a command of theirs."""
    said = await workshop.run("/usr/bin/python3", "-c", TYPING, terminal=WindowSize())
    assert said.out == "could not 1\r\n"
    master, slave = os.openpty()
    try:
        subprocess.run(
            ["setsid", "--ctty", "--wait", "/usr/bin/python3", "-c", TYPING],
            stdin=slave, stdout=slave, stderr=slave, check=True,
        )  # fmt: skip
        plain = b""
        while b"could" not in plain or not plain.endswith(b"\n"):
            plain += os.read(master, 1000)
    finally:
        os.close(master)
        os.close(slave)
    # A kernel may be set to refuse it to everybody (dev.tty.legacy_tiocsti).
    assert b"could\r\n" in plain or b"could not 5" in plain
