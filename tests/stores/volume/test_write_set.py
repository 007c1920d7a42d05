"""What is gathered to be written, and what is asked meanwhile."""

import asyncio

import pytest

from bailiwick.stores.volume.rows.tree import INODE, NAME, PLACE
from bailiwick.stores.volume.rows.write_set import WriteSet
from bailiwick.stores.volume.versions.branches import _PUT_LINEAGE
from tests.stores.volume.test_trips import distant

pytestmark = pytest.mark.spec("SCALE-3", "SCALE-4")

QUESTIONS = {
    NAME: (1, 7, 100, 5, "name", 0), INODE: (1, 7, 100, 5, 0), PLACE: (1, 7, 100, 5, 0),
}  # fmt: skip


@pytest.mark.parametrize("sql", QUESTIONS, ids=["name", "inode", "place"])
def test_a_branch_that_is_being_made_stands_against_questions_about_itself_alone(sql):
    writes = WriteSet(1)
    assert not writes.stands_against(sql, QUESTIONS[sql])
    assert writes.take(_PUT_LINEAGE, (1, 8, 0, 8, 100))
    assert not writes.stands_against(sql, QUESTIONS[sql])
    assert writes.take(_PUT_LINEAGE, (1, 7, 0, 7, 100))
    assert writes.stands_against(sql, QUESTIONS[sql])


async def test_a_transaction_may_begin_together_with_other_changes(postgres, tmp_path):
    """They share a turn, in which the first ones look for what nobody has looked at yet."""
    async with distant(postgres, tmp_path) as (proxy, fs, other):
        for number in range(8):
            await other.write(f"d{number}/f", b"", parents=True)
        proxy.latency_s = 0.002
        for _ in range(3):
            drafts = await asyncio.gather(*(
                step
                for number in range(8)
                for step in (fs.store.versions.begin(), fs.append(f"d{number}/f", b"x"))
            ))  # fmt: skip
            for draft in drafts[::2]:
                await draft.store.aclose()
                await draft.discard()
            await other.write("d0/other", b"x")  # so that what was seen is not known any more
        assert [await fs.read(f"d{number}/f") for number in range(8)] == [b"xxx"] * 8
