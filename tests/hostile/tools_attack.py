"""The live attacker of `attack`, against the tools of models and what is built on them.

The same families of swaps; here it is the answers given to a model that must hold nothing of the
outside. The control is the reference server of MCP, in the same run.
"""

import asyncio
import contextlib
import itertools
import json
import math
import os
from collections.abc import Awaitable, Callable
from typing import Any

from agents.editor import ApplyPatchOperation

import bailiwick
from bailiwick.errors import KINDS
from bailiwick.fronts.tools import tools
from bailiwick.fronts.tools.deepagents import BailiwickBackend
from bailiwick.fronts.tools.openai_agents import PatchEditor
from bailiwick.fronts.tools.text_editor import Editor
from tests.hostile.attack import (
    FAMILIES,
    Family,
    Ground,
    Try,
    attacked,
    run_cell,
)
from tests.hostile.controls import run_control
from tests.hostile.corpus import CONTAINMENTS, count_descriptors
from tests.hostile.layouts import INSIDE_TEXT


def told(answer: Any) -> Any:
    """An answer as the model gets it; one that failed is raised, to be counted by its kind."""
    if isinstance(answer, dict) and answer.get("ok") is False:
        raise KINDS[answer["errorKind"]](answer["message"], hint=answer.get("hint"))
    error = getattr(answer, "error", None)
    if error is not None:
        raise KINDS[error.split(": ")[1]](error)
    return answer


EDITOR_COMMANDS = frozenset(("view", "create", "str_replace", "insert", "delete", "rename"))


class TryTools(Try):
    """The ten tools, by their names."""

    def __init__(self, fs: bailiwick.Scope, family: Family, ground: Ground) -> None:
        super().__init__(fs, family, ground)
        self.box = tools(fs, "w")

    async def call(self, operation: str, **given: Any) -> Any:
        return json.dumps(told(await self.box.call(f"workspace__w__{operation}", given)))

    async def read_file(self) -> Any:
        return await self.call("read_file", path=self.at("f"))

    async def write_file(self) -> Any:
        self.without_link("w")
        return await self.call("write_file", path=self.at("w"), content=INSIDE_TEXT)

    async def edit_file(self) -> Any:
        self.without_link("e")
        self.ensure("e")
        old = "noodle" if "noodle" in self.content(self.at("e")[-1], self.real) else "needle"
        new = "needle" if old == "noodle" else "noodle"
        return await self.call("edit_file", path=self.at("e"), oldText=old, newText=new)

    async def ls(self) -> Any:
        return await self.call("ls", path=self.where)

    async def glob(self) -> Any:
        return await self.call("glob", pattern="*", path=self.where)

    async def grep(self) -> Any:
        return await self.call("grep", pattern="needle", path=self.where)

    async def stat(self) -> Any:
        return await self.call("stat", path=self.at("f"))

    async def mkdir(self) -> Any:
        name = f"n{next(self.numbers) % 64}"
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=self.real)
        return await self.call("mkdir", path=f"{self.where}/{name}")

    async def rm(self) -> Any:
        self.ensure("v")
        return await self.call("rm", path=self.at("v"))

    async def move(self) -> Any:
        self.ensure("m")
        self.discard("moved", self.top)
        await self.call("move", **{"from": self.at("m"), "to": "moved"})
        return self.content("moved", self.top)


class TryEditor(TryTools):
    """The commands of the text editor and memory tools."""

    def __init__(self, fs: bailiwick.Scope, family: Family, ground: Ground) -> None:
        super().__init__(fs, family, ground)
        self.editor = Editor(self.box, EDITOR_COMMANDS, overwrite=True)

    async def obey(self, command: str, **given: Any) -> Any:
        return json.dumps(told(await self.editor.answer({"command": command, **given})))

    async def view(self) -> Any:
        return await self.obey("view", path=self.at("f"))

    async def view_directory(self) -> Any:
        return await self.obey("view", path=self.where)

    async def create(self) -> Any:
        self.without_link("w")
        return await self.obey("create", path=self.at("w"), file_text=INSIDE_TEXT)

    async def insert(self) -> Any:
        self.without_link("e")
        self.ensure("e")
        if next(self.numbers) % 64 == 0:
            self.discard("e", self.real)
            self.ensure("e")
        return await self.obey("insert", path=self.at("e"), insert_line=0, insert_text="x")

    async def rename(self) -> Any:
        self.ensure("m")
        self.discard("moved", self.top)
        await self.obey("rename", old_path=self.at("m"), new_path="moved")
        return self.content("moved", self.top)


class TryBackend(TryTools):
    """The methods of the deepagents backend."""

    def __init__(self, fs: bailiwick.Scope, family: Family, ground: Ground) -> None:
        super().__init__(fs, family, ground)
        self.backend = BailiwickBackend(fs)

    async def read(self) -> Any:
        return told(await self.backend.aread("/" + self.at("f")))

    async def write(self) -> Any:
        self.without_link("w")
        return told(await self.backend.awrite("/" + self.at("w"), INSIDE_TEXT))

    async def backend_ls(self) -> Any:
        return told(await self.backend.als("/" + self.where))

    async def backend_glob(self) -> Any:
        return told(await self.backend.aglob("**/*", "/" + self.where))

    async def backend_grep(self) -> Any:
        return told(await self.backend.agrep("needle", "/" + self.where))

    async def delete(self) -> Any:
        self.ensure("v")
        return told(await self.backend.adelete("/" + self.at("v")))

    async def download(self) -> Any:
        [response] = await self.backend.adownload_files(["/" + self.at("f")])
        return response.content


class TryPatch(TryTools):
    """The editor of the ``apply_patch`` tool."""

    def __init__(self, fs: bailiwick.Scope, family: Family, ground: Ground) -> None:
        super().__init__(fs, family, ground)
        self.patches = PatchEditor(self.box)

    async def apply(
        self, kind: str, path: str, diff: str | None = None, move_to: str | None = None
    ) -> Any:
        operation = ApplyPatchOperation(type=kind, path=path, diff=diff, move_to=move_to)
        done = await getattr(self.patches, kind)(operation)
        return done.output if done.status == "completed" else told(json.loads(done.output))

    async def create_file(self) -> Any:
        self.discard("w", self.real)
        diff = "".join(f"+{line}\n" for line in INSIDE_TEXT.splitlines())
        return await self.apply("create_file", self.at("w"), diff)

    async def update_file(self) -> Any:
        self.without_link("e")
        self.ensure("e")
        line = self.content(self.at("e")[-1], self.real).split("\n")[0]
        return await self.apply("update_file", self.at("e"), f"@@\n-{line}\n+{line}x\n")

    async def moving_update(self) -> Any:
        self.without_link("e")
        self.ensure("e")
        self.discard("n", self.real)
        line = self.content(self.at("e")[-1], self.real).split("\n")[0]
        diff = f"@@\n-{line}\n+{line}x\n"
        return await self.apply("update_file", self.at("e"), diff, move_to=self.at("n"))

    async def delete_file(self) -> Any:
        self.ensure("v")
        return await self.apply("delete_file", self.at("v"))


FRONTS: dict[str, tuple[type[TryTools], tuple[str, ...]]] = {
    "tools": (
        TryTools,
        ("read_file", "write_file", "edit_file", "ls", "glob", "grep", "stat", "mkdir", "rm",
         "move"),
    ),
    "text editor": (TryEditor, ("view", "view_directory", "create", "insert", "rename")),
    "apply_patch": (TryPatch, ("create_file", "update_file", "moving_update", "delete_file")),
    "deepagents": (
        TryBackend,
        ("read", "write", "backend_ls", "backend_glob", "backend_grep", "delete", "download"),
    ),
}  # fmt: skip


def run(front: str, tries: int, reference: str | None) -> dict[str, Any]:
    """Spread ``tries`` over calls, families and containments; called behind the wall."""
    ground, before = Ground(), count_descriptors()
    trying, calls = FRONTS[front]
    each = math.ceil(tries / (len(calls) * len(FAMILIES) * len(CONTAINMENTS)))
    cells = []
    control = run_control(ground, reference)
    for family, containment in itertools.product(FAMILIES, CONTAINMENTS):
        cells += asyncio.run(_run_family(trying, calls, family, containment, each, ground))
    return {
        "tries": sum(cell.tries for _, cell in cells),
        "escapes": sum(cell.escapes for _, cell in cells),
        "notes": [f"{name}: {note}" for name, cell in cells for note in cell.notes],
        "inside": {name: sum(c.inside for n, c in cells if n == name) for name in calls},
        "refused": sum(cell.refused for _, cell in cells),
        "internal": sum(cell.kinds.get("internal_error", 0) for _, cell in cells),
        "control": control,
        "descriptors": count_descriptors() - before,
    }


async def _run_family(
    trying: type[TryTools],
    calls: tuple[str, ...],
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
            with attacked(family, ground):
                for name in calls:
                    act: Callable[[], Awaitable[Any]] = getattr(attempt, name)
                    cells.append((name, await run_cell(act, tries, ground)))
                    attempt.tidy()
        finally:
            attempt.close()
    return cells
