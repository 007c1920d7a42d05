"""An agent that hands a part of its power to another: less access, one directory, ten minutes.

It works in a temporary directory and leaves nothing behind.
"""

import asyncio
import tempfile
from pathlib import Path

import bailiwick


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        project = Path(place, "project")
        (project / "docs").mkdir(parents=True)
        (project / "docs" / "guide.md").write_text("# Guide\n")
        (project / "app.py").write_text("print('hello')\n")

        async with bailiwick.Authority.open() as authority:
            await authority.add_root("workspace:demo", str(project), trusted=True)
            await authority.add_grant(
                subject="agent_run:*", root="workspace:demo",
                access={"read", "list", "metadata", "write"}, by=bailiwick.User("me"),
            )  # fmt: skip
            agent = await authority.request_root(
                bailiwick.AgentRun("c1", "r1"), "workspace:demo",
                {"read", "list", "write"}, "update the documentation",
            )  # fmt: skip
            writer = await agent.delegate(
                bailiwick.AgentRun("c1", "writer"), access={"read", "write"}, path="docs",
                rebase=True, expires_in=600, reason="write the guide",
            )  # fmt: skip

            written = await writer.write_text("guide.md", "# Guide\n\nStart here.\n")
            print("  the writer wrote   ", written.path)
            for what, attempt in (
                ("leave its directory", writer.read_text("../app.py")),
                ("list it", writer.list()),
            ):
                try:
                    await attempt
                except bailiwick.PolicyError as error:
                    print(f"  it could not        {what}: {error.kind}")

            ended = await authority.revoke(agent.grant.id, by=bailiwick.User("me"))
            print(f"  revoked             {ended} grants with one word")
            try:
                await writer.read_text("guide.md")
            except bailiwick.GrantRevoked as error:
                print("  the writer now      ", error.kind)


asyncio.run(main())
