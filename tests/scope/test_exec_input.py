"""What is handed to a command: its limits, and while it runs input and signals."""

import pytest

import bailiwick
from bailiwick.errors import Closed, ParseError

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


async def said_by(execution):
    return b"".join([piece.data async for piece in execution])


@pytest.mark.spec("EXEC-3")
async def test_what_cannot_be_handed_to_a_command_is_refused(tmp_path):
    (tmp_path / "p").mkdir()
    async with bailiwick.open(tmp_path / "p", state_dir=str(tmp_path / "state")) as fs:
        assert await said_by(fs.exec(["cat"], stdin=bytearray(b"in"))) == b"in"
        async with fs.exec(["cat"], stdin="pipe") as execution:
            with pytest.raises(ParseError):
                await execution.write("text")
            for number in (0, -9, 99, "SIGTERM"):
                with pytest.raises(ParseError):
                    await execution.send_signal(number)
            await execution.write(b"in")
            await execution.close_input()
            assert await said_by(execution) == b"in"
            with pytest.raises(Closed) as caught:
                await execution.write(b"more")
            assert not caught.value.retryable  # its input is not opened again


@pytest.mark.spec("EXEC-3")
@pytest.mark.parametrize(
    ("name", "value"),
    [("memory_bytes_max", -1), ("memory_bytes_max", 0), ("processes_max", 1),
     ("descriptors_max", 31), ("cpu_seconds_max", 0.5)],
)  # fmt: skip
async def test_a_limit_that_is_none_is_refused_by_its_name(tmp_path, name, value):
    """A negative one would have been no limit at all."""
    (tmp_path / "p").mkdir()
    async with bailiwick.open(tmp_path / "p", state_dir=str(tmp_path / "state")) as fs:
        with pytest.raises(ParseError, match=f"a limit is wrong: .*{name}"):
            await fs.exec(["true"], limits=bailiwick.CommandLimits(**{name: value}))
