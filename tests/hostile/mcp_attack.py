"""The live attacker of `attack`, against a server of MCP: a process of its own, spoken to by pipes.

The control is the reference server for files, under the same attacker in the same run; where there
is none, a tool as one finds them.
"""

import asyncio
import itertools
import json
import math
import os
import tempfile
from typing import Any

import bailiwick
from bailiwick.errors import KINDS, PathNotFound
from bailiwick.fronts.mcp.addresses import TEMPLATE
from tests.fronts.mcp.clients import RawClient
from tests.hostile.attack import FAMILIES, Family, Ground, attacked, run_cell
from tests.hostile.controls import run_control
from tests.hostile.corpus import CONTAINMENTS
from tests.hostile.tools_attack import TryTools

CALLS = (
    "read_file", "write_file", "edit_file", "ls", "glob", "grep", "stat", "mkdir", "rm", "move",
    "read_resource", "read_directory", "complete",
)  # fmt: skip

CONFIG = """\
[state]
memory = true

[[root]]
id = "w"
kind = "workspace"
path = "{root}"
trusted = true
durability = "rename"
containment = "{containment}"

[[grant]]
subject = "agent_run:*"
root = "workspace:w"
access = ["read", "list", "metadata", "write", "delete", "move"]
"""


class TryMcp(TryTools):
    """The ten tools and the resources, over pipes."""

    def __init__(
        self, fs: bailiwick.Scope, family: Family, ground: Ground, client: RawClient
    ) -> None:
        super().__init__(fs, family, ground)
        self._client = client

    async def call(self, operation: str, **given: Any) -> Any:
        result = self._client.tool(operation, **given)
        text = result["content"][0]["text"]
        if result["isError"]:
            told = json.loads(text)
            raise KINDS[told["errorKind"]](told["message"], hint=told.get("hint"))
        return json.dumps(result)

    async def _read(self, path: str) -> Any:
        answer = self._client.request("resources/read", {"uri": f"bailiwick:///w/{path}"})
        if "error" in answer:
            raise KINDS[answer["error"]["data"]["errorKind"]](answer["error"]["message"])
        return json.dumps(answer["result"])

    async def read_resource(self) -> Any:
        return await self._read(self.at("f"))

    async def read_directory(self) -> Any:
        return await self._read(self.where)

    async def complete(self) -> Any:
        asked = {
            "ref": {"type": "ref/resource", "uri": TEMPLATE},
            "argument": {"name": "path", "value": f"{self.where}/"},
        }
        found = self._client.request("completion/complete", asked)["result"]["completion"]
        if not found["values"]:
            raise PathNotFound("there is nothing to complete")
        return json.dumps(found)


def run(tries: int, reference: str | None) -> dict[str, Any]:
    """Spread ``tries`` over calls, families and containments; called behind the wall."""
    ground = Ground()
    each = math.ceil(tries / (len(CALLS) * len(FAMILIES) * len(CONTAINMENTS)))
    control = run_control(ground, reference)
    cells = []
    for family, containment in itertools.product(FAMILIES, CONTAINMENTS):
        cells += asyncio.run(_run_family(family, containment, each, ground))
    return {
        "tries": sum(cell.tries for _, cell in cells),
        "escapes": sum(cell.escapes for _, cell in cells),
        "notes": [f"{name}: {note}" for name, cell in cells for note in cell.notes],
        "inside": {name: sum(c.inside for n, c in cells if n == name) for name in CALLS},
        "refused": sum(cell.refused for _, cell in cells),
        "internal": sum(cell.kinds.get("internal_error", 0) for _, cell in cells),
        "control": control,
    }


async def _run_family(
    family: Family, containment: str, tries: int, ground: Ground
) -> list[tuple[str, Any]]:
    cells = []
    with tempfile.TemporaryDirectory() as place:
        config = os.path.join(place, "bailiwick.toml")
        with open(config, "w") as file:
            file.write(CONFIG.format(root=ground.root, containment=CONTAINMENTS[containment]))
        async with bailiwick.open("memory:") as unused:
            with RawClient("--config", config) as client:
                client.handshake()
                attempt = TryMcp(unused, family, ground, client)
                try:
                    with attacked(family, ground):
                        for name in CALLS:
                            cell = await run_cell(getattr(attempt, name), tries, ground)
                            cells.append((name, cell))
                            attempt.tidy()
                finally:
                    attempt.close()
    return cells
