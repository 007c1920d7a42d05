"""Others under the same attacker: that they leak shows that it was there.

The reference server for files of MCP; where there is none, a tool as one finds them.
"""

import json
import time
from typing import Any, Self

from tests.fronts.mcp.clients import RawClient
from tests.hostile.attack import FAMILIES, Ground, attacked, resolve_and_compare
from tests.hostile.layouts import CANARY

CONTROL_SECONDS_MAX = 20


def run_control(ground: Ground, reference: str | None) -> dict[str, Any]:
    """How often the other server leaks under the same attacker, until it has."""
    counts = {"server": "naive" if reference is None else "reference", "tries": 0, "leaks": 0}
    deadline = time.monotonic() + CONTROL_SECONDS_MAX
    with attacked(FAMILIES[0], ground):
        if reference is None:
            while not counts["leaks"] and time.monotonic() < deadline:
                counts["tries"] += 1
                counts["leaks"] += CANARY in json.dumps(naive_read_file(ground.root, "mid/f"))
        else:
            with _Reference(reference, ground.root) as server:
                while not counts["leaks"] and time.monotonic() < deadline:
                    counts["tries"] += 1
                    counts["leaks"] += CANARY in server.read(f"{ground.root}/mid/f")
    ground.plant_outside()
    ground.outside_before = ground.look()
    return counts


def naive_read_file(root: str, path: str) -> dict[str, Any]:
    """A tool as one finds them."""
    try:
        resolve_and_compare(root, path)
        with open(f"{root}/{path}") as file:
            return {"text": file.read()}
    except OSError as error:
        return {"ok": False, "message": str(error)}


class _Reference(RawClient):
    """A client of the reference server."""

    def __init__(self, file: str, root: str) -> None:
        self._command = ["node", file, root]
        self._count = 0

    def __enter__(self) -> Self:
        super().__enter__()
        self.handshake()
        return self

    def __exit__(self, *raised: object) -> None:
        self.process.kill()
        super().__exit__(*raised)

    def read(self, path: str) -> str:
        given = {"name": "read_text_file", "arguments": {"path": path}}
        return json.dumps(self.request("tools/call", given))
