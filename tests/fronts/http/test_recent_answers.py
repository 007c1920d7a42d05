"""What a process remembers of its answers, where the root does not: nobody is pushed out of it by
somebody else."""

import pytest

from bailiwick.fronts.http.messages import recent_answers
from bailiwick.model import KiB
from tests.fronts.http.serving import AGENT, serving
from tests.fronts.http.test_crowding import heirs_of

pytestmark = pytest.mark.spec("HTTP-11", "HTTP-12")

ROOM = 8


@pytest.fixture(autouse=True)
def room(monkeypatch):
    monkeypatch.setattr(recent_answers, "ANSWERS_BYTES_MAX", ROOM * 16 * KiB)


async def tried(client, key, number):
    headers = {"idempotency-key": key, "idempotency-try": number}
    return await client.post("/file/append", json={"path": key, "content": "x"}, headers=headers)


@pytest.mark.parametrize("by", ["itself", "its heirs"])
async def test_a_crowd_of_answers_pushes_out_none_of_another(tmp_path, by):
    """The attacker has as many changes answered as it likes; the control is that its own oldest
    answers are forgotten."""
    async with serving(tmp_path) as house:
        victim = house.client()
        attacker = await house.agent("read", "write", subject=AGENT)
        clients = [attacker]
        if by == "its heirs":
            clients = [house.client(each) for each in await heirs_of(house, attacker, 3)]
        for number in range(3):
            assert (await tried(victim, f"v{number}", "1")).status_code == 201
        for number in range(5 * ROOM):
            client = clients[number % len(clients)]
            assert (await tried(client, f"a{number}", "1")).status_code == 201
        for number in range(3):
            again = await tried(victim, f"v{number}", "2")
            assert again.headers.get("idempotency-replayed") == "true", again.text
            assert house.place.joinpath(f"v{number}").read_text() == "x"
        forgotten = await tried(clients[0], "a0", "2")
        assert forgotten.json()["details"]["interrupted"]
        assert house.app.recent_answers._bytes <= recent_answers.ANSWERS_BYTES_MAX
