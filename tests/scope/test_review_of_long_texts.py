"""Long texts are compared beside the loop: whoever else asks is answered meanwhile."""

import asyncio
import threading

import pytest

from bailiwick.text.reviewed import ReviewedText
from bailiwick.text.weave import Weave
from tests.scope.test_runs import rooted

LONG = "".join(f"line {number}\n" for number in range(5_000))
CHANGED = LONG.replace("0\n", "zero\n")


@pytest.fixture
def held(monkeypatch):
    """Has long texts wait before they are compared; gives what says that one does, and what lets
    all go on."""
    begun, gate = threading.Event(), threading.Event()

    def waiting(write):
        def written(self, by, data):
            if len(data) > len(LONG) // 2:
                begun.set()
                assert gate.wait(20), "the loop stands still"
            return write(self, by, data)

        return written

    for kind in (Weave, ReviewedText):
        monkeypatch.setattr(kind, "write", waiting(kind.write))
    return begun, gate


@pytest.mark.spec("REVIEW-6")
@pytest.mark.parametrize(
    "asked", ["runs", "changes", "undo", "queue", "reject", "fork", "accept of a fork"]
)
async def test_another_is_answered_while_a_long_text_is_compared(tmp_path, held, asked):
    begun, gate = held
    async with rooted(tmp_path, "volume") as (person, agent):
        await person.write_text("a.txt", LONG)
        await person.write_text("other.txt", "other\n")
        await (await agent("one")).write_text("a.txt", CHANGED)
        fork = await person.fork("try")
        await fork.write_text("a.txt", CHANGED.replace("7\n", "seven\n"))
        (run,) = await person.runs(brief=True)
        ask = {
            "runs": person.runs,
            "changes": run.changes,
            "undo": lambda: person.undo(run=run.id, paths=["a.txt"]),
            "queue": person.review.queue,
            "reject": lambda: person.review.reject(run.id),
            "fork": lambda: person.review.queue(fork="try"),
            "accept of a fork": lambda: person.review.accept(fork="try"),
        }[asked]
        task = asyncio.create_task(ask())
        await asyncio.to_thread(begun.wait)
        assert (await person.read_text("other.txt")).text == "other\n"
        assert not task.done()
        gate.set()
        await task
