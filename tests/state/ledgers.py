"""What the tests of the ledger share: records, intents, and a ledger that is closed in the end."""

from contextlib import asynccontextmanager, contextmanager

from bailiwick.audit import AuthorityRecord, Intent, Record
from bailiwick.grant import AgentRun, Grant, Root
from bailiwick.paths import ScopedPath
from bailiwick.state.ledger.chain import LEDGER
from bailiwick.state.ledger.durable import DurableLedger, ledger_key
from tests.state.states import open_state

ROOT_NAME = "workspace:demo"

GRANT = Grant(
    id="g1",
    subject=AgentRun("c1", "r7"),
    root=Root(kind="workspace", id="demo", trusted=True),
    reason="to mend the build",
)


def record(number=1, **given):
    values = {
        "time_ns": 1_700_000_000_000_000_000 + number, "request_id": f"request-{number}",
        "grant": GRANT, "operation": "read", "verb": "read_text",
        "path": ScopedPath(f"src/file-{number}.py"), "destination": None, "outcome": "success",
        "error_kind": None, "policy_source": None, "hooks": (), "bytes": number,
        "sha256_before": None, "sha256_after": None, "duration_ns": 1_000, "front": "python",
    }  # fmt: skip
    return Record(**(values | given))


def intent(number=1, **given):
    values = {
        "time_ns": 1_700_000_000_000_000_000 + number, "request_id": f"change-{number}",
        "grant": GRANT, "operation": "write", "verb": "write_text",
        "path": ScopedPath(f"src/file-{number}.py"), "destination": None, "policy_source": None,
        "hooks": (), "front": "python", "approval_id": None,
    }  # fmt: skip
    return Intent(**(values | given))


def change_of(announced, **given):
    """The record of a change that was announced."""
    fields = ("time_ns", "request_id", "operation", "verb", "path", "destination")
    same = {name: getattr(announced, name) for name in fields}
    return record(**(same | {"sha256_after": "ab" * 32} | given))


def act(number=1, **given):
    values = {
        "time_ns": 1_700_000_000_000_000_000 + number, "request_id": f"act-{number}",
        "subject": "user:ada", "act": "revoke", "root": ROOT_NAME, "grant_id": "g1",
        "details": {"why": "it is done"},
    }  # fmt: skip
    return AuthorityRecord(**(values | given))


@contextmanager
def state_at(directory, *parts, durability="rename"):
    """A state that is closed in the end. Tests need no sync of the disk."""
    database = open_state(directory, parts or (LEDGER,), durability)
    try:
        yield database
    finally:
        database.close()


@asynccontextmanager
async def ledger_at(directory=None, **settings):
    """An open ledger and its database."""
    with state_at(directory) as database:
        ledger = DurableLedger.open(database, ledger_key(database), **settings)
        try:
            yield ledger
        finally:
            await ledger.aclose()


async def keep(ledger, count):
    """Put that many records into a ledger: reads, changes and acts in turn."""
    for number in range(1, count + 1):
        match number % 4:
            case 0:
                await ledger.append_authority(act(number))
            case 1:
                announced = intent(number)
                kept = await ledger.intend(announced)
                ledger.settle(change_of(announced), kept, ())
            case _:
                ledger.note(record(number))
    await ledger.flush()
