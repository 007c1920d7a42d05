"""A guided first look: what an agent may do in its bailiwick, and what it cannot.

Run it with ``make run``. It works in a temporary directory and leaves nothing behind.
"""

import asyncio
import tempfile
from pathlib import Path

import bailiwick

FIVE_LINES = """\
Your turn. Five lines, in any directory you like:

    import bailiwick
    with bailiwick.open_sync(".") as fs:
        fs.write_text("hello.txt", "hello\\n")
        print(fs.read_text("hello.txt").text)
        print([entry.name for entry in fs.list().entries])
"""


def plant(place: Path) -> Path:
    """A project, a secret beside it that no agent may see, and a link that leads there."""
    project = place / "project"
    project.mkdir()
    (place / "secret.txt").write_text("the launch code is 0000\n")
    (project / "innocent.txt").symlink_to("../secret.txt")
    return project


def say(what: str, about: str) -> None:
    print(f"  {what:<12}{about}")


async def work(fs: bailiwick.Scope) -> None:
    say("opened", repr(fs))
    say("contained", f"by the {fs.description['containment']}")
    written = await fs.write_text("notes/today.md", "buy milk\nwrite tests\n", parents=True)
    say("wrote", f"{written.path}, {written.size} bytes, atomically")
    read = await fs.read_text("notes/today.md")
    say("read", f"{read.text.splitlines()}, {read.encoding}, {read.line_ending}")
    edited = await fs.edit("notes/today.md", old="buy milk", new="buy oat milk")
    say("edited", edited.diff.rstrip().replace("\n", "\n" + " " * 14))
    found = await fs.grep("milk")
    say("searched", ", ".join(f"{match.path}:{match.line}" for match in found.matches))


async def attack(fs: bailiwick.Scope, secret: Path) -> None:
    attempts = {"../secret.txt": "upwards", str(secret): "by its absolute path"}
    attempts["innocent.txt"] = "through a link"
    for path, how in attempts.items():
        try:
            await fs.read_text(path)
        except bailiwick.BailiwickError as error:
            say("refused", f"reading the secret {how}: {error.kind}")
        else:
            raise SystemExit("the secret was read: this must never happen")
    seen = (await fs.read_text("notes/today.md")).sha256
    await fs.append("notes/today.md", "call home\n")
    try:
        await fs.write_text("notes/today.md", "stale\n", expected_sha256=seen)
    except bailiwick.HashMismatch as error:
        say("refused", f"writing over a newer version: {error.kind}")


async def main(place: Path) -> None:
    project = plant(place)
    async with bailiwick.open(project) as fs:
        print("What an agent can do in its bailiwick:\n")
        await work(fs)
        print("\nWhat it cannot do. A secret lies one directory up:\n")
        await attack(fs, place / "secret.txt")
    print(f"\n{FIVE_LINES}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="bailiwick-first-") as directory:
        asyncio.run(main(Path(directory)))
