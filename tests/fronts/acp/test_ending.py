"""How it ends: whoever goes first, nobody is left behind and nobody is left without a word."""

import asyncio
import os
import signal
import sys

import pytest

from tests.fronts.acp.editors import Editor, desk, start_proxy
from tests.processes import children_of, is_gone
from tests.waiting import until

pytestmark = pytest.mark.spec("ACP-3", "LIFE-2")

SECONDS_MAX = 60


async def gone(pid):
    """Wait until there is no such process."""
    return await until(lambda: is_gone(pid))


async def ended(process):
    """The exit code, and what was said."""
    async with asyncio.timeout(SECONDS_MAX):
        said = await process.stderr.read()
        return await process.wait(), said.decode()


async def test_an_agent_that_crashes_is_told_about(tmp_path):
    async with desk(tmp_path, "--root", str(tmp_path / "p"), cwd=tmp_path / "p") as at:
        [child] = await at.run(["spawn"])
        with pytest.raises(ConnectionError):
            await at.run(["crash"])
        code, said = await ended(at.process)
    assert code == 1
    assert "the agent ended by the signal SIGKILL" in said
    assert await gone(child["ok"]), "what the agent had started is gone with it"


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (7, 1)])
async def test_an_agent_that_leaves_ends_it(tmp_path, code, ends):
    async with desk(tmp_path, "--root", str(tmp_path / "p"), cwd=tmp_path / "p") as at:
        with pytest.raises(ConnectionError):
            await at.run(["leave", code])
        exit_code, said = await ended(at.process)
    assert exit_code == ends
    assert ("exit code 7" in said) == bool(code)


@pytest.mark.parametrize("way", ["closes its end", "dies", "is told to stop"])
async def test_when_the_editor_goes_the_agent_and_its_children_go(tmp_path, way):
    async with desk(tmp_path, "--root", str(tmp_path / "p"), cwd=tmp_path / "p") as at:
        [child] = await at.run(["spawn"])
        await at.connection.close()
        if way == "is told to stop":
            at.process.send_signal(signal.SIGTERM)
        else:
            at.process.stdin.close()
            if way == "dies":
                at.process._transport.get_pipe_transport(1).close()
        code, _ = await ended(at.process)
        assert code == 0
        assert await gone(child["ok"])


async def test_an_agent_hears_that_its_proxy_was_killed(tmp_path):
    """Its input ends, and nobody else holds the other end of it."""
    async with desk(tmp_path, "--root", str(tmp_path / "p"), cwd=tmp_path / "p") as at:
        [agent] = children_of(at.process.pid)
        at.process.kill()
        try:
            assert await gone(agent)
        finally:
            if not is_gone(agent):
                os.killpg(agent, signal.SIGKILL)
        with pytest.raises(ConnectionError):
            await at.run(["crash"])


STUBBORN = """
import fcntl, select, signal, struct, sys, termios
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def say(method):
    sys.stdout.write('{"method":"%s"}\\n' % method); sys.stdout.flush()
def waiting():
    return struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0]
say("ready")
while waiting() < 32 * 1024:
    select.select([], [], [], 0.01)
say("full")
while True:
    signal.pause()
"""


@pytest.mark.slow
async def test_an_agent_that_listens_to_nobody_is_ended_all_the_same(tmp_path):
    process = await start_proxy(
        tmp_path, "--root", str(tmp_path / "p"), agent=(sys.executable, "-c", STUBBORN)
    )
    assert await process.stdout.readline() == b'{"method":"ready"}\n'
    # It reads nothing, so what the editor says gets stuck; that the editor goes is seen anyway.
    message = b'{"method":"x","params":"' + b"x" * 10_000 + b'"}\n'
    process.stdin.write(message * 400)  # far more than all the pipes hold
    assert await process.stdout.readline() == b'{"method":"full"}\n'
    assert process.stdin.transport.get_write_buffer_size() > len(message) * 200
    process._transport.get_pipe_transport(1).close()
    process._transport.get_pipe_transport(0).abort()
    code, _ = await ended(process)
    assert code == 0


async def test_an_agent_that_cannot_be_started_is_said_so(tmp_path):
    process = await start_proxy(
        tmp_path, "--root", str(tmp_path / "p"), agent=(str(tmp_path / "no-such-agent"),)
    )
    code, said = await ended(process)
    assert code == 1
    assert said.startswith("path_not_found: ")
    process.stdin.close()


async def test_wrong_usage_says_how(tmp_path):
    for options in ([], ["--config", "x.toml"], ["extra"]):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bailiwick", "acp", *options,
            *(["--", "agent"] if options == ["extra"] else []),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        code, said = await ended(process)
        assert code == 2
        assert "name the agent after --" in said


async def test_a_flood_of_calls_is_survived(tmp_path):
    """More calls at once than are served at once: some are told to come again, none is lost."""
    project = tmp_path / "p"
    async with desk(tmp_path, "--root", str(project), "--no-history", cwd=project) as at:
        [results] = await at.run(["write_many", f"{project}/many/f", 300])
        kinds = [each.get("data", {}).get("errorKind") for each in results["ok"]]
    assert set(kinds) <= {None, "busy"}
    assert kinds.count(None) == len(os.listdir(project / "many")) >= 64


async def test_lines_that_are_no_messages_do_not_end_it(tmp_path):
    project = tmp_path / "p"
    async with desk(tmp_path, "--root", str(project), cwd=project, editor=Editor()) as at:
        for text in ("not json", '{"method":"fs/read_text_file","id":NaN}', "[]"):
            assert await at.run(["raw", text]) == [{"ok": None}]
        assert at.editor.file_calls == []


@pytest.fixture(autouse=True)
def project(tmp_path):
    (tmp_path / "p").mkdir()


@pytest.fixture(autouse=True)
def quiet(caplog):
    """The SDK logs what it is told to refuse; that is what some tests here are about."""
    caplog.set_level("CRITICAL")
