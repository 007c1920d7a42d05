"""Attacks on reviews and on answers that are kept: by agents who would agree to their own work, by
names that lead elsewhere, by too much of anything, and by a directory that becomes a link to the
outside between what a person was shown and what they say."""

import asyncio
import os
import pathlib
import tempfile
from typing import Any

from bailiwick.errors import KINDS
from tests.fronts.http.serving import serving

SECRET = "outside: SECRET\n"
ALL = ("read", "write", "list", "delete", "move", "metadata")
NAMES = (
    "../outside/secret", "/etc/hostname", "..", "%2e%2e", "a\0b", "\ud800", "RUN:../outside/secret",
    "0" * 100_000, "@", "4b03@", "@1", "4b03@../outside", "' OR 1=1 --", "a.txt@1", "*",
)  # fmt: skip


def run() -> dict[str, Any]:
    """Everything once, in a place of its own beside a planted secret."""
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_attacked(pathlib.Path(directory)))


async def _attacked(place: pathlib.Path) -> dict[str, Any]:
    (place / "outside").mkdir()
    (place / "outside" / "f").write_text(SECRET)
    (place / "house").mkdir()
    tree = place / "tree"
    tree.mkdir()
    said: list[str] = []
    found: dict[str, Any] = {"internal": 0, "allowed": [], "refused": 0, "kinds": set()}

    def note(answer: Any, what: str, *, may_pass: bool = False) -> None:
        said.append(answer.text)
        kind = answer.json().get("errorKind") if answer.status_code >= 400 else None
        found["internal"] += kind == "internal_error" or answer.status_code == 500
        if answer.status_code < 400:
            if not may_pass:
                found["allowed"].append(what)
        else:
            found["refused"] += 1
            found["kinds"].add(kind if kind in KINDS else f"no kind: {kind}")

    config = (
        f'[[root]]\nkind = "workspace"\nid = "demo"\npath = "{tree}"\ntrusted = true\n'
        'history = "on"\n'
    )
    async with serving(place / "house", config=config) as house:
        person, agent = house.client(), await house.agent(*ALL)
        write = {"path": "d/f", "content": "mine\n", "parents": True}
        assert (await agent.post("/file/write", json=write)).status_code < 300
        queue = (await person.get("/review")).json()
        (file,) = [each for each in queue["files"] if each["path"] == "d/f"]
        hunk, run_id = file["hunks"][0]["id"], file["hunks"][0]["run"]
        shown = f"{hunk}@{file['version']}"
        await _by_an_agent(agent, note, (hunk, shown, run_id, f"{run_id}:d/f", "."))
        await _by_names(person, note)
        await _by_size(person, note, hunk)
        found["left"] = queue["left"], (await person.get("/review")).json()["left"]
        # What was shown becomes a link to the outside: neither verdict may reach there.
        os.rename(tree / "d", tree / "aside")
        os.symlink(place / "outside", tree / "d")
        found["control"] = (tree / "d" / "f").read_text()
        for body in ({"reject": [shown]}, {"accept": [shown]}, {"reject": [run_id]}):
            note(
                await person.post("/review", json={**body, "insist": True}), "a link", may_pass=True
            )
            note(await person.get("/review?path=d/f"), "a link", may_pass=True)
            note(await person.get(f"/runs/{run_id}/changes"), "a link", may_pass=True)
        found["outside"] = (place / "outside" / "f").read_text()
        found["names"] = sorted(os.listdir(place / "outside"))
    found["leaks"] = sum("SECRET" in each for each in said)
    found["kinds"] = sorted(found["kinds"])
    return found


async def _by_an_agent(agent: Any, note: Any, names: tuple[str, ...]) -> None:
    """Nobody agrees to what they did themselves, or takes an answer back."""
    for query in ("", "?run=x", "?path=d", "?work=w1234567890", "?ofFork=main"):
        note(await agent.get(f"/review{query}"), f"GET /review{query}")
    for name in names:
        for verdict in ("accept", "reject"):
            for more in ({}, {"preview": True}, {"work": "w1234567890"}, {"ofFork": "main"}):
                body = {verdict: [name], **more}
                note(await agent.post("/review", json=body), f"POST /review {body}")
    note(await agent.get("/rules"), "GET /rules")
    for name in ("1", "..", "%2e%2e%2f", "x" * 5_000):
        note(await agent.delete(f"/rules/{name}"), f"DELETE /rules/{name[:20]}")


async def _by_names(person: Any, note: Any) -> None:
    for name in NAMES:
        text = name.encode("utf-8", "replace").decode()
        for body in ({"accept": [text]}, {"reject": [text]}, {"accept": [text], "work": text},
                     {"reject": [text], "ofFork": text}):  # fmt: skip
            note(await person.post("/review", json=body), f"POST /review {text[:20]}")
        if len(text) < 1_000:
            for key in ("run", "work", "ofFork"):
                note(await person.get("/review", params={key: text}), f"{key}={text[:20]}")
            note(await person.get("/review", params={"path": text}), text, may_pass=True)
            note(await person.delete(f"/rules/{text.encode().hex()}"), "a rule")


async def _by_size(person: Any, note: Any, hunk: str) -> None:
    for words in ("x" * 2_001, "x" * 3_000_000, "\x1b[2J", "a\0b", 5, ["x"]):
        note(await person.post("/review", json={"reject": [hunk], "note": words}), "a note")
    for ids in (["0" * 32] * 50_000, [5], "x", [[hunk]], [None], {}):
        note(await person.post("/review", json={"accept": ids}), "ids")
    for cursor in ("-1", "9" * 400, "x", "1e9"):
        note(await person.get("/review", params={"cursor": cursor}), "a cursor")
