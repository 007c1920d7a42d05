"""The live attacker of `attack`, against fronts that speak for a scope: ACP and fsspec.

What is answered must hold nothing of the outside, and nothing of what is written may land there.
The control is the reference server of MCP, in the same run.
"""

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator
from typing import Any

import bailiwick
from bailiwick.errors import KINDS
from bailiwick.fronts.fsspec import BailiwickFileSystem
from tests.fronts.acp.wires import Wires, wires
from tests.hostile.attack import FAMILIES, Family, Ground, Try, attacked, run_cell
from tests.hostile.controls import run_control
from tests.hostile.corpus import CONTAINMENTS, count_descriptors
from tests.hostile.layouts import INSIDE_TEXT


class TryAcp(Try):
    """The file calls of the protocol and those beyond it, by absolute paths as agents give them."""

    calls = ("read_text_file", "read_lines", "write_text_file", "listed", "edited", "removed")
    between: Wires

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        async with wires(self.fs) as self.between:
            yield

    async def call(self, method: str, **given: Any) -> Any:
        answer = await self.between.agent.request(method, {"sessionId": "s", **given})
        error = answer.get("error")
        if error is not None:
            raise KINDS[error["data"]["errorKind"]](error["message"])
        return answer["result"].get("content", repr(answer["result"]))

    def absolute(self, name: str) -> str:
        return f"{self.fs.root.mount_point}/{self.at(name)}"

    async def read_text_file(self) -> Any:
        return await self.call("fs/read_text_file", path=self.absolute("f"))

    async def read_lines(self) -> Any:
        return await self.call("fs/read_text_file", path=self.absolute("f"), line=1, limit=2)

    async def write_text_file(self) -> Any:
        self.without_link("w")
        path = self.absolute("w")
        return await self.call("fs/write_text_file", path=path, content=INSIDE_TEXT)

    async def listed(self) -> Any:
        return await self.call("_bailiwick/list", path=f"{self.fs.root.mount_point}/{self.where}")

    async def edited(self) -> Any:
        self.without_link("e")
        self.ensure("e")
        old = "noodle" if "noodle" in self.content(self.at("e")[-1], self.real) else "needle"
        new = "needle" if old == "noodle" else "noodle"
        path = self.absolute("e")
        return await self.call("_bailiwick/edit", path=path, oldText=old, newText=new)

    async def removed(self) -> Any:
        self.ensure("v")
        return await self.call("_bailiwick/remove", path=self.absolute("v"))


class TryFsspec(Try):
    """The methods of the fsspec filesystem."""

    calls = ("cat_file", "cat_range", "file", "pipe_file", "ls", "find", "info", "cp_file",
             "mv_file", "rm_file")  # fmt: skip
    tree: BailiwickFileSystem

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        self.tree = BailiwickFileSystem(self.fs, asynchronous=True)
        yield

    async def cat_file(self) -> Any:
        return await self.tree._cat_file(self.at("f"))

    async def cat_range(self) -> Any:
        return await self.tree._cat_file(self.at("f"), 0, 64)

    async def file(self) -> Any:
        async with await self.tree.open_async(self.at("f"), "rb") as file:
            return await file.read()

    async def pipe_file(self) -> Any:
        self.without_link("w")
        return await self.tree._pipe_file(self.at("w"), INSIDE_TEXT.encode())

    async def ls(self) -> Any:
        return repr(await self.tree._ls(self.where))

    async def find(self) -> Any:
        return repr(await self.tree._find(self.where))

    async def info(self) -> Any:
        return repr(await self.tree._info(self.at("f")))

    async def cp_file(self) -> Any:
        self.ensure("c")
        self.discard("copied", self.top)
        await self.tree._cp_file(self.at("c"), "copied")
        return self.content("copied", self.top)

    async def mv_file(self) -> Any:
        self.ensure("m")
        self.discard("moved", self.top)
        await self.tree._mv_file(self.at("m"), "moved")
        return self.content("moved", self.top)

    async def rm_file(self) -> Any:
        self.ensure("v")
        return await self.tree._rm_file(self.at("v"))


FRONTS: dict[str, type[TryAcp] | type[TryFsspec]] = {"acp": TryAcp, "fsspec": TryFsspec}


def run(front: str, tries: int, reference: str | None) -> dict[str, Any]:
    """Spread ``tries`` over calls, families and containments; called behind the wall."""
    ground, before = Ground(), count_descriptors()
    trying = FRONTS[front]
    each = math.ceil(tries / (len(trying.calls) * len(FAMILIES) * len(CONTAINMENTS)))
    control = run_control(ground, reference)
    cells: list[tuple[str, Any]] = []
    for family, containment in itertools.product(FAMILIES, CONTAINMENTS):
        cells += asyncio.run(_run_family(trying, family, containment, each, ground))
    return {
        "tries": sum(cell.tries for _, cell in cells),
        "escapes": sum(cell.escapes for _, cell in cells),
        "notes": [f"{name}: {note}" for name, cell in cells for note in cell.notes],
        "inside": {name: sum(c.inside for n, c in cells if n == name) for name in trying.calls},
        "refused": sum(cell.refused for _, cell in cells),
        "internal": sum(cell.kinds.get("internal_error", 0) for _, cell in cells),
        "control": control,
        "descriptors": count_descriptors() - before,
    }


async def _run_family(
    trying: type[TryAcp] | type[TryFsspec],
    family: Family,
    containment: str,
    tries: int,
    ground: Ground,
) -> list[tuple[str, Any]]:
    options = {"containment": CONTAINMENTS[containment], "durability": "rename"}
    cells = []
    async with bailiwick.open(ground.root, **options) as fs:
        attempt = trying(fs, family, ground)
        try:
            async with attempt.ready():
                with attacked(family, ground):
                    for name in trying.calls:
                        cells.append((name, await run_cell(getattr(attempt, name), tries, ground)))
                        attempt.tidy()
        finally:
            attempt.close()
    return cells
