"""A person in between: a remote call waits for them, and says so where that takes too long."""

import asyncio
import contextlib

import pytest

from bailiwick import errors
from bailiwick.client import connect
from tests.fronts.http.serving import AGENT, PERSON, serving
from tests.fronts.http.test_asking import config
from tests.waiting import until

pytestmark = pytest.mark.spec("PY-5", "ASK-2")

PATH = "migrations/1.sql"


@contextlib.asynccontextmanager
async def asked(tmp_path):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        token = await house.authority.tokens.issue("agent", AGENT, by=PERSON, front="test")
        async with connect(house.url, token=token, root="workspace:demo") as fs:
            yield house, fs


async def answer(house, word):
    desk = house.authority.approvals
    approval = (await until(desk.pending))[0]
    await desk.answer(approval.id, word, by=str(PERSON), front="test")


async def asked_again(house):
    """Until the server has waited as long as it does, and the client has come back."""
    state = house.server.server_state
    before = state.total_requests
    await until(lambda: state.total_requests >= before + 2)


@pytest.mark.parametrize("verb", ["write_text", "write_bytes"])
async def test_a_call_waits_until_it_is_answered(tmp_path, verb):
    async with asked(tmp_path) as (house, fs):
        given = "x" if verb == "write_text" else b"x"
        call = asyncio.ensure_future(getattr(fs, verb)(PATH, given, parents=True))
        await asked_again(house)
        await answer(house, "once")
        assert (await call).created
        call = asyncio.ensure_future(getattr(fs, verb)(PATH, given))
        await answer(house, "no")
        with pytest.raises(errors.ApprovalDenied) as caught:
            await call
        assert caught.value.category == "policy"


async def test_who_does_not_wait_is_told_how_to_come_back(tmp_path):
    async with asked(tmp_path) as (house, fs):
        hasty = fs.with_caller("test", wait_s=0)
        with pytest.raises(errors.ApprovalTimeout) as caught:
            await hasty.write_text(PATH, "x", parents=True)
        details = caught.value.details
        assert details["pending"]
        assert details["expires_ns"] > 10**18
        approved = fs.with_approval(details["approval_id"])
        with pytest.raises(errors.ApprovalTimeout):
            await approved.write_text(PATH, "x", parents=True)
        await answer(house, "once")
        with pytest.raises(errors.ApprovalDenied):
            await approved.write_text(PATH, "something else", parents=True)
        assert (await approved.write_text(PATH, "x", parents=True)).created


async def test_a_stream_cannot_be_sent_twice(tmp_path):
    async with asked(tmp_path) as (house, fs):
        (house.place / "migrations").mkdir()
        with pytest.raises(errors.ApprovalTimeout) as caught:
            await fs.write_stream(PATH, [b"x"])
        await answer(house, "once")
        done = await fs.with_approval(caught.value.details["approval_id"]).write_stream(
            PATH, [b"x"]
        )
        assert done.created


async def test_closing_ends_the_waiting(tmp_path):
    async with asked(tmp_path) as (house, fs):
        call = asyncio.ensure_future(fs.write_text(PATH, "x", parents=True))
        await asked_again(house)
        await fs.aclose()
        with pytest.raises(errors.Closed):
            await call
        assert not (house.place / "migrations").exists()
