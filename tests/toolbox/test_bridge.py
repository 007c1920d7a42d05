"""From any thread or loop to the loop a scope belongs to."""

import asyncio
import threading

import pytest

import bailiwick
from bailiwick.toolbox import Pending
from tests.toolbox.support import inner, toolbox

WRITE = {"path": "a", "content": "x\n"}


@pytest.mark.spec("TOOL-5")
async def test_blocking_calls_of_worker_threads_reach_the_loop():
    async with bailiwick.open("memory:") as fs:
        box = toolbox(fs)
        answers = await asyncio.gather(
            *(
                asyncio.to_thread(box.call_blocking, "write_file", {**WRITE, "path": str(n)})
                for n in range(10)
            )
        )
        assert all(answer["ok"] for answer in answers)
        assert len((await fs.list()).entries) == 10


@pytest.mark.spec("TOOL-5")
async def test_another_loop_reaches_it_too():
    async with bailiwick.open("memory:") as fs:
        box = toolbox(fs)
        assert (await asyncio.to_thread(asyncio.run, box.call("write_file", WRITE)))["ok"]
        assert (await fs.read_text("a")).text == "x\n"


@pytest.mark.spec("TOOL-5")
async def test_waiting_for_oneself_is_refused():
    async with bailiwick.open("memory:") as fs:
        with pytest.raises(RuntimeError, match="open_sync"):
            toolbox(fs).call_blocking("ls")


@pytest.mark.spec("TOOL-5")
def test_a_scope_of_blocking_code_serves_everyone():
    with bailiwick.open_sync("memory:") as fs:
        box = toolbox(fs)
        assert box.call_blocking("write_file", WRITE)["ok"] is True
        assert inner(asyncio.run(box.call("read_file", {"path": "a"}))["text"]) == "x\n"
        fs.write_text(".env", "KEY=1")
        pending = box.attempt_blocking("read_file", {"path": ".env"})
        assert isinstance(pending, Pending)
        answer = box.resume_blocking("read_file", {"path": ".env"}, allowed=True)
        assert inner(answer["text"]) == "KEY=1"
        threads = [
            threading.Thread(
                target=box.call_blocking, args=("write_file", {**WRITE, "path": f"{n}"})
            )
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(box.call_blocking("ls")["entries"]) == 10
        asyncio.run(box.aclose())


@pytest.mark.spec("TOOL-5")
def test_tools_made_before_there_is_a_loop():
    opening = bailiwick.open("memory:")

    async def main():
        async with opening as fs:
            box = await asyncio.to_thread(toolbox, fs)
            with pytest.raises(RuntimeError):
                await asyncio.to_thread(box.call_blocking, "ls")
            assert (await box.call("ls")) == {"entries": []}
            assert await asyncio.to_thread(box.call_blocking, "ls") == {"entries": []}

    asyncio.run(main())
