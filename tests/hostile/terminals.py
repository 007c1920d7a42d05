"""Names, texts and notes that would control the terminal of whoever looks at what agents did, in a
directory that is called so, too.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Coroutine
from typing import Any

from bailiwick import Edit
from bailiwick.build.served import named_places, open_served, state_for
from bailiwick.errors import BailiwickError
from bailiwick.grant import AgentRun, User
from bailiwick.operations import FILE_ACCESS
from tests.fronts.cli.command import within

ODD = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\n\u202e\u2066\u200b\x7f\u3164\U000e0041evil"
SEEN = "\u202e\u200b\u3164evil"
"""Of that, what a new name may hold."""

Controls = dict[str, list[str]]


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        project = pathlib.Path(directory) / f"project{ODD}"
        project.mkdir()
        for name in ("a", "gone", "moved"):
            (project / f"{name}{ODD}").write_text(f"1 {ODD}\n2\n3\n")
        (project / f"d{ODD}").mkdir()
        (project / "both").write_text("1\n2\n3\n")
        asyncio.run(_work(project))
        os.chdir(project)
        try:
            return _looked_at(project)
        finally:
            os.chdir(directory)


async def _work(project: pathlib.Path) -> None:
    places = named_places([str(project)])
    async with open_served(places, None, state_for(places), history="on") as authority:
        person = await authority.request_root(
            User("local"), next(iter(places)), FILE_ACCESS, f"to pass on {SEEN}", front="mcp"
        )
        agent = await person.delegate(AgentRun("mcp", "one"))
        agent = agent.with_run(title="Tidy up", step="one")
        await agent.edit(f"a{ODD}", [Edit("2\n", f"two {ODD}\n")])
        await agent.edit("both", [Edit("2\n", "two\n")])
        await person.write_text("both", "1\nzwei\n3\n")
        tries: tuple[Coroutine[Any, Any, Any], ...] = (
            agent.remove(f"gone{ODD}"), agent.move(f"moved{ODD}", f"there{SEEN}"),
            agent.write_text(f"d{ODD}/{SEEN}", f"{ODD}\n"), agent.symlink("link", f"a{ODD}"),
            agent.write_text(f"new{ODD}", "x\n"), agent.write_text(f"../{ODD}", "x\n"),
        )  # fmt: skip
        for each in tries:
            with contextlib.suppress(BailiwickError):
                await each


def _looked_at(project: pathlib.Path) -> dict[str, Any]:
    found: Controls = {}
    shown = 0

    def look(*arguments: str) -> str:
        nonlocal shown
        done = within(*arguments)
        text = done.stdout + done.stderr
        shown += "evil" in text
        controls = sorted(set(text) & set(ODD) - {"\n"} - set("[]0;2J31mownedevil"))
        if controls or "Traceback" in text:
            found[" ".join(arguments)] = controls
        return done.stdout

    run_id = json.loads(look("runs", "--json"))["runs"][0]["id"]
    name = f"a{ODD}"
    for command in (
        ("runs",), ("runs", "show", run_id), ("runs", "show", ODD), ("review",), ("review", run_id),
        ("review", "--json"), ("review", ODD), ("review", "--accept", ODD),
        ("undo", "--run", run_id, "--preview"), ("undo", "--run", run_id), ("undo", ODD),
        ("undo", "--run", run_id, name, "--preview"), ("undo", "--run", ODD), ("history", name),
        ("ls",), ("tree",), ("find", "."), ("stat", name), ("stat", "link"), ("work", "list"),
        ("work", "show", ODD), ("approvals", "list"), ("approvals", "show", ODD),
        ("approvals", "rules"), ("approvals", "forget", ODD), ("grant", "list"), ("root", "list"),
        ("rm", f"no{ODD}"), ("mv", name, f"b{ODD}"), ("cp", name, f"b{ODD}"), ("mkdir", ODD),
        (ODD,), ("-p", ODD, "ls"), ("guard", ODD), ("policy", "explain", ODD, "write", ODD),
    ):  # fmt: skip
        look(*command)
    for number, file in enumerate(json.loads(look("review", "--json"))["files"]):
        verdict = ("--reject", "--note", ODD) if number % 2 else ("--accept",)
        look("review", verdict[0], file["hunks"][0]["id"], *verdict[1:])
    # The names are there, and a program that prints them as they are is owned.
    return {"controls": found, "shown": shown, "control": "\n".join(os.listdir(project))}
