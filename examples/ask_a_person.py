"""A person who is asked: an agent wants to change a migration, someone looks at it and says yes.

The person here is a function; in a program of your own it is a terminal, a window or a chat. It
works in a temporary directory and leaves nothing behind.
"""

import asyncio
import tempfile
from pathlib import Path

import bailiwick

CONFIGURATION = """\
[state]
memory = true

[[root]]
id = "demo"
kind = "workspace"
path = "project"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write"]

[[rule]]
id = "migrations"
subject = "agent_run:*"
path = ["migrations/**"]
access = ["write"]
effect = "ask"
reason = "migrations are reviewed"
"""


async def person(approval: bailiwick.Approval) -> bailiwick.Answer:
    """Look at what would happen, and answer: once, grant, always, no or never."""
    question = approval.question
    print(f"  ? may {question.subject} {question.operation} {', '.join(question.paths)}")
    print(f"    {question.prompt}")
    for line in (question.preview.diff or "").splitlines():
        print(f"    {line}")
    return "no" if "DROP" in (question.preview.diff or "") else "once"


def plant(place: Path) -> Path:
    (place / "project" / "migrations").mkdir(parents=True)
    configuration = place / "bailiwick.toml"
    configuration.write_text(CONFIGURATION)
    return configuration


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        async with bailiwick.Authority.from_config(plant(Path(place))) as authority:
            fs = await authority.request_root(
                bailiwick.AgentRun("c1", "r1"), "workspace:demo", {"read", "write"},
                "add a column", asker=person,
            )  # fmt: skip
            for sql in ("ALTER TABLE users ADD email TEXT;\n", "DROP TABLE users;\n"):
                try:
                    written = await fs.write_text("migrations/002.sql", sql)
                    print("  written ", written.path)
                except bailiwick.ApprovalDenied as error:
                    print("  refused ", error.kind)
            for record in await authority.ledger.tail(9):
                if record.approval_id or record.operation == "approve":
                    print(f"  on record: {record.subject} {record.operation} {record.outcome}")


asyncio.run(main())
