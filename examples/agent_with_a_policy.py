"""An agent run under a policy: what a rule allows, asks about, denies and hides, all on record.

It works in a temporary directory and leaves nothing behind.
"""

import asyncio
import tempfile
from pathlib import Path

import bailiwick

CONFIGURATION = """\
[state]
path = "state"

[[root]]
id = "demo"
kind = "workspace"
path = "project"
trusted = true
mount_point = "/workspace"

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write", "delete"]
reason = "coding agents may work in the demo project"

[[rule]]
id = "keep-the-licence"
path = ["LICENSE"]
access = ["write", "delete", "move"]
effect = "deny"
reason = "the licence is not for agents to change"

[[rule]]
id = "no-payroll"
path = ["payroll"]
effect = "hide"
reason = "agents have no business here"
"""


def plant(place: Path) -> Path:
    project = place / "project"
    (project / "payroll").mkdir(parents=True)
    (project / "payroll" / "2026.csv").write_text("ada,1000000\n")
    (project / "LICENSE").write_text("Apache-2.0\n")
    (project / "app.py").write_text("DEBUG = True\n")
    (project / ".env").write_text("TOKEN=secret\n")
    configuration = place / "bailiwick.toml"
    configuration.write_text(CONFIGURATION)
    return configuration


async def act(fs: bailiwick.Scope) -> None:
    edited = await fs.edit("app.py", old="DEBUG = True", new="DEBUG = False")
    print("  edited  ", edited.path)
    print("  lists   ", [entry.name for entry in (await fs.list()).entries])
    attempts = {
        "LICENSE": fs.write_text("LICENSE", "mine\n"),
        "payroll/2026.csv": fs.read_text("payroll/2026.csv"),
        ".env": fs.read_text(".env"),
    }
    for name, attempt in attempts.items():
        try:
            await attempt
        except bailiwick.BailiwickError as error:
            print(f"  refused  {name}: {error.kind} (decided by {error.decided_by})")


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        configuration = plant(Path(place))
        async with bailiwick.Authority.from_config(configuration) as authority:
            fs = await authority.request_root(
                subject=bailiwick.AgentRun(conversation_id="c1", run_id="r7"),
                root="workspace:demo",
                access={"read", "list", "write"},
                reason="switch debugging off",
            )
            await act(fs)
            await authority.ledger.flush()
            for record in await authority.ledger.tail(10):
                print(f"  {record.seq:>3}  {record.outcome:<8} {record.operation:<7} {record.path}")
            print("  ledger  ", (await authority.ledger.verify()).words)


asyncio.run(main())
