"""A client of `bailiwick mcp`: tools, a file as a resource, and a question to the person.

Run it: ``python examples/mcp_client.py``. It starts the server itself and speaks with it by the
official SDK, as any client does; no model is asked.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client.stdio import stdio_client
from mcp_types import ElicitRequestParams, ElicitResult


async def ask_the_person(
    context: ClientRequestContext, params: ElicitRequestParams
) -> ElicitResult:
    """A client shows a form here. Ours says no."""
    print(f"\nThe person is asked:\n{params.message}\nThey say no.\n")
    return ElicitResult(action="accept", content={"answer": "no"})


async def main(project: Path) -> None:
    (project / "notes.md").write_text("buy milk\n")
    (project / ".env").write_text("KEY=1\n")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "bailiwick", "mcp", str(project), "--state", str(project.parent / "state")],
        env=dict(os.environ),
    )
    async with Client(stdio_client(server), elicitation_callback=ask_the_person) as client:
        listed = await client.list_tools()
        print("tools:", ", ".join(tool.name for tool in listed.tools))
        change = {"path": "notes.md", "oldText": "milk", "newText": "bread"}
        edited = await client.call_tool("edit_file", change)
        print(edited.structured_content)
        for path in ("notes.md", ".env", "../outside"):
            read = await client.call_tool("read_file", {"path": path})
            print(path, "→", read.content[0])
        content = await client.read_resource("bailiwick:///project/notes.md")
        print(content.contents[0])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        Path(place, "project").mkdir()
        asyncio.run(main(Path(place, "project")))
