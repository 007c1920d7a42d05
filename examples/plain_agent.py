"""An agent loop of one's own: any model that calls functions, the tools, a person who is asked.

Run it: ``python examples/plain_agent.py``. The model follows a script, so nothing is sent anywhere.
"""

import asyncio
import json
from typing import Any

import bailiwick
from bailiwick.tools import Pending, tools

SCRIPT: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "notes/today.md", "content": "buy milk\n"}),
    ("edit_file", {"path": "notes/today.md", "oldText": "milk", "newText": "bread"}),
    ("read_file", {"path": "notes/today.md"}),
    ("read_file", {"path": ".env"}),
    ("read_file", {"path": "../outside"}),
]


async def main() -> None:
    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".env", "KEY=1\n")
        box = tools(fs, name="notes")
        print(f"{len(box.tools)} tools, the first is {box.tools[0].name}")
        for operation, arguments in SCRIPT:
            name = box.tool_name(operation)
            answer = await box.attempt(name, arguments)
            if isinstance(answer, Pending):
                print(f"\nThe person is asked: {answer.prompt}. They say no.")
                answer = await box.resume(name, arguments, allowed=False, binding=answer.binding)
            print(f"\n{operation} {json.dumps(arguments)}\n  {json.dumps(answer)}")


if __name__ == "__main__":
    asyncio.run(main())
