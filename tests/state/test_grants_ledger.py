"""What is done to the authority and its record in the real ledger are one: both or neither."""

import pytest

from bailiwick.errors import ApprovalTimeout, FileAlreadyExists
from bailiwick.state.ledger.chain import LEDGER
from bailiwick.state.ledger.durable import DurableLedger, ledger_key
from tests.state.ledgers import state_at
from tests.state.rooms import PARTS, Clock, Rooms, held, question, standing_grant

pytestmark = pytest.mark.both_engines

ANN = {"by": "user:ann", "front": "cli"}


@pytest.mark.spec("AUDIT-1", "AUDIT-3")
async def test_every_act_is_chained_with_what_it_did(tmp_path):
    with state_at(tmp_path, *PARTS, LEDGER) as database:
        ledger = DurableLedger.open(database, ledger_key(database))
        rooms = Rooms(database, Clock(), chain=ledger.chain_in)
        await rooms.grants.add(standing_grant("s1"), **ANN)
        await rooms.grants.hand_out(held("h1", "s1"), front="python")
        await rooms.grants.hand_out(held("h2", "h1"), front="python")
        await rooms.trust.set_trust("workspace:demo", True, **ANN)
        with pytest.raises(ApprovalTimeout) as waited:
            await rooms.desk.ask(question(), asker=None, wait_s=0)
        await rooms.desk.answer(waited.value.details["approval_id"], "always", **ANN)
        [rule] = rooms.rules.rules()
        await rooms.rules.forget(rule.id, **ANN)
        with pytest.raises(FileAlreadyExists):
            await rooms.grants.add(standing_grant("s1"), **ANN)
        await rooms.grants.revoke("s1", **ANN)
        kept = await ledger.tail(100)
        acts = [record.operation for record in kept]
        assert sorted(acts) == sorted(
            ["grant", "grant", "delegate", "trust", "approve", "rule", "rule"] + ["revoke"] * 3
        )
        assert "secret" not in str(kept)
        assert (await ledger.verify()).ok
        await ledger.aclose()
