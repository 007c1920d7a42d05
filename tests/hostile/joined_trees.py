"""Attacks on trees that are joined: mounts beside each other, and an overlay over a directory.

Every function here runs behind the wall. Outside of a mount are the other mounts, too: what is
mounted to be read only is changed by nobody, whichever way leads there, and what one mount holds is
not had through another.
"""

import asyncio
import contextlib
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import bailiwick
from bailiwick.client import connect
from bailiwick.errors import BailiwickError
from tests.fronts.http.serving import serving
from tests.hostile import inside, sandboxed
from tests.hostile.attacker import Attacker
from tests.hostile.corpus import CONTAINMENTS
from tests.hostile.layouts import CANARY, SECRET_TEXT, empty, litter, snapshot

INSIDE = "alpha\nneedle inside\nomega\n"
EVERY = ("link", "absolute", "up", "up-twice", "through")


class Ground:
    """Two directories to be joined, and a third that is neither's business."""

    def __init__(self, name: str) -> None:
        self.place = f"{inside.arena()}/{name}"
        os.makedirs(self.place, exist_ok=True)
        empty(self.place)
        for folder in ("docs/mid", "books/box", "outside", "state"):
            os.makedirs(f"{self.place}/{folder}", mode=0o700)
        for path in ("docs/mid/f", "docs/f"):
            self.write(path, INSIDE)
        for path in ("books/f", "books/box/f", "outside/f"):
            self.write(path, SECRET_TEXT)
        self.before = self.look()

    def at(self, path: str) -> str:
        return f"{self.place}/{path}"

    def write(self, path: str, text: str) -> None:
        with open(self.at(path), "w") as file:
            file.write(text)

    def link(self, path: str, target: str) -> None:
        os.symlink(target, self.at(path))

    def look(self) -> object:
        """All that can be known of what no way through the mount ``docs`` may reach."""
        return [snapshot(self.at(each), outside=True) for each in ("books", "outside")]

    def check(self, answer: object = "") -> None:
        assert CANARY not in str(answer), "outside content in an answer"
        assert self.look() == self.before, "something else was touched"


def _mounted(ground: Ground, containment: str) -> Any:
    return bailiwick.open(
        "mounts:",
        mounts={
            "docs": ground.at("docs"),
            "books": {"place": ground.at("books"), "mode": "read-only"},
            "notes": f"sqlite:{ground.at('notes.db')}",
        },
        containment=containment,
        durability="rename",
        state_dir=ground.at("state"),
    )


async def _verbs(fs: bailiwick.Scope, path: str, number: int) -> tuple[str, object]:
    """One verb through ``path``, a directory that may be anything by now, and what it answered."""
    verbs = {
        "read": lambda: fs.read_bytes(f"{path}/f"),
        "write": lambda: fs.write_bytes(f"{path}/w", b"written\n"),
        "append": lambda: fs.append(f"{path}/w", b"more\n"),
        "overwrite": lambda: fs.write_bytes(f"{path}/f", INSIDE.encode()),
        "list": lambda: fs.list(path),
        "copy out": lambda: fs.copy(f"{path}/f", f"notes/f{number}"),
        "copy tree": lambda: fs.copy(path, f"notes/d{number}", recursive=True),
        "grep": lambda: fs.grep(CANARY, path, literal=True),
        "make": lambda: fs.make_dir(f"{path}/n{number}"),
        "remove": lambda: fs.remove(f"{path}/w"),
        "move": lambda: fs.move(f"{path}/w", "docs/moved", replace=True),
        "copy in": lambda: fs.copy("docs/f", f"{path}/c{number}"),
    }
    name = list(verbs)[number % len(verbs)]
    try:
        return name, await verbs[name]()
    except BailiwickError as error:
        _expected(error)
        return "refused", None


def _expected(error: BailiwickError) -> None:
    """A refusal is one of ours, and tells nothing of the outside."""
    assert error.kind != "internal_error", error
    assert "/outside" not in str(error), error


# --- links that stand there -------------------------------------------------------------------


async def _links(containment: str) -> dict[str, int]:
    """Links of one mount to another, by every spelling: none is followed, by any verb."""
    ground = Ground("joined-links")
    ground.link("docs/link", "../books")
    ground.link("docs/absolute", ground.at("books"))
    ground.link("docs/up", "..")
    ground.link("docs/up-twice", "mid/../../books/box")
    ground.link("docs/through", "/books")
    counts: Counter[str] = Counter()
    async with _mounted(ground, containment) as fs:
        for name in EVERY:
            path = f"docs/{name}/books" if name == "up" else f"docs/{name}"
            for number in range(12):
                done, answer = await _verbs(fs, path, number)
                # What is copied is the link itself, which leads nowhere in the volume either.
                counts["refused" if done == "copy tree" else done] += 1
                ground.check(answer)
        for entry in (await fs.find("notes", "*")).paths:
            with contextlib.suppress(BailiwickError):
                ground.check((await fs.read_bytes(entry)).data)
        for path in ("docs/../books/f", "docs/mid/../../books/f"):
            # Collapsed before anything is looked up: the other mount, and its rules hold.
            assert (await fs.read_text(path)).path == "books/f"
            for act in (fs.write_text(path, "x"), fs.remove(path), fs.move(path, "docs/x")):
                error = await _refusal(act)
                assert error in ("read_only", "unsupported"), error
    return dict(counts)


async def _refusal(act: object) -> str:
    try:
        await act  # type: ignore[misc]
    except BailiwickError as error:
        return error.kind
    return "done"


def links(containment: str) -> dict[str, int]:
    return asyncio.run(_links(CONTAINMENTS[containment]))


def links_control() -> list[str]:
    """By plain calls each of the links leads where it says; but for those that begin elsewhere."""
    ground = Ground("joined-links")
    ground.link("docs/link", "../books")
    ground.link("docs/absolute", ground.at("books"))
    ground.link("docs/up", "../books")
    ground.link("docs/up-twice", "mid/../../books/box")
    led = []
    for name in EVERY[:4]:
        with open(ground.at(f"docs/{name}/f")) as file:
            if CANARY in file.read():
                led.append(name)
    return led


# --- a live attacker --------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _scope_mounted(ground: Ground, containment: str) -> AsyncIterator[bailiwick.Scope]:
    """The directory ``docs`` by way of a scope on it."""
    settings = {"durability": "rename", "state_dir": ground.at("state")}
    async with bailiwick.open(ground.at("docs"), containment=containment, **settings) as docs:
        books = {"place": ground.at("books"), "mode": "read-only"}
        mounts = {"docs": docs, "books": books, "notes": f"sqlite:{ground.at('notes.db')}"}
        async with bailiwick.open("mounts:", mounts=mounts, **settings) as fs:
            yield fs


async def _raced(
    tries: int, containment: str, target: str, mounted: Any = _mounted
) -> dict[str, int]:
    """A directory of one mount is swapped with a link to another one while verbs go through it."""
    ground = Ground("joined-raced")
    ground.link("docs/evil", target)
    counts: Counter[str] = Counter()
    async with mounted(ground, containment) as fs:
        with Attacker("exchange", ground.at("docs/mid"), ground.at("docs/evil")) as attacker:
            for number in range(tries):
                done, answer = await _verbs(fs, "docs/mid", number)
                counts[done] += 1
                ground.check(answer)
        counts["swaps"] = attacker.report.swaps
        for entry in (await fs.files("notes")).paths:
            ground.check((await fs.read_bytes(entry)).data)
    assert litter(snapshot(ground.at("docs"))) == []
    return dict(counts)


def raced(tries: int, containment: str, target: str) -> dict[str, int]:
    return asyncio.run(_raced(tries, CONTAINMENTS[containment], target))


def scope_raced(tries: int, containment: str, target: str) -> dict[str, int]:
    return asyncio.run(_raced(tries, CONTAINMENTS[containment], target, _scope_mounted))


def raced_control(tries: int) -> bool:
    """Whoever resolves a path, looks which mount it lies in, and then opens it is led away."""
    ground = Ground("joined-raced")
    ground.link("docs/evil", "../books")
    with Attacker("exchange", ground.at("docs/mid"), ground.at("docs/evil")):
        for _ in range(tries):
            path = ground.at("docs/mid/f")
            with contextlib.suppress(OSError):
                if os.path.realpath(path).startswith(ground.at("docs/")):
                    with open(path) as file:
                        if CANARY in file.read():
                            return True
    return False


# --- an overlay -------------------------------------------------------------------------------


def _project(name: str) -> Ground:
    ground = Ground(name)
    ground.link("docs/evil", "../outside")
    return ground


@contextlib.asynccontextmanager
async def _overlaid(ground: Ground, containment: str) -> AsyncIterator[Any]:
    """The overlay of a directory: here, or by a server."""
    place = f"overlay:{ground.at('docs')}"
    if containment != "server":
        options = {"containment": CONTAINMENTS[containment], "durability": "rename"}
        async with bailiwick.open(place, state_dir=ground.at("state"), **options) as fs:
            yield fs
        return
    async with (
        serving(ground.place, place=place) as house,
        connect(house.url, token=house.token) as fs,
    ):
        yield fs


async def _overlay_raced(tries: int, containment: str) -> dict[str, int]:
    """What lies below is swapped while the overlay reads, is changed, and is applied."""
    ground = _project("overlay-raced")
    counts: Counter[str] = Counter()
    async with _overlaid(ground, containment) as fs:
        with Attacker("exchange", ground.at("docs/mid"), ground.at("docs/evil")) as attacker:
            for number in range(tries):
                verbs = (
                    lambda: fs.read_bytes("mid/f"),
                    lambda: fs.list("mid"),
                    lambda: fs.write_bytes("mid/f", INSIDE.encode() + b"%d" % number),  # noqa: B023
                    lambda: fs.diff("mid/f"),
                    lambda: fs.copy("mid/f", f"c{number}"),  # noqa: B023
                    lambda: fs.changes(),
                    lambda: fs.move("mid", f"moved{number}"),  # noqa: B023
                    lambda: fs.apply(publish="partial"),
                    lambda: fs.discard(),
                )
                try:
                    answer = await verbs[number % len(verbs)]()
                    counts["done"] += 1
                except BailiwickError as error:
                    _expected(error)
                    answer = ""
                    counts["refused"] += 1
                ground.check(answer)
                for name in await _names(fs):
                    with contextlib.suppress(BailiwickError):
                        ground.check((await fs.read_bytes(name)).data)
        counts["swaps"] = attacker.report.swaps
        with contextlib.suppress(BailiwickError):
            await fs.discard()
    ground.check()
    assert litter(snapshot(ground.at("docs"))) == []
    return dict(counts)


async def _names(fs: bailiwick.Scope) -> list[str]:
    try:
        return [str(each) for each in (await fs.files(".")).paths][:20]
    except BailiwickError as error:
        _expected(error)
        return []


def overlay_raced(tries: int, containment: str) -> dict[str, int]:
    return asyncio.run(_overlay_raced(tries, containment))


def overlay_raced_control(tries: int) -> bool:
    """A program that keeps changes apart by name, and looks before it reads, is led outside."""
    ground = _project("overlay-raced")
    with Attacker("exchange", ground.at("docs/mid"), ground.at("docs/evil")):
        for _ in range(tries):
            path = ground.at("docs/mid/f")
            with contextlib.suppress(OSError):
                if not os.path.islink(ground.at("docs/mid")):
                    with open(path) as file:
                        if CANARY in file.read():
                            return True
    return False


async def _overlay_programs_raced(tries: int) -> dict[str, int]:
    """What lies below is swapped while programs are run in the overlay: before what they see is
    written out, meanwhile, and when what they changed is brought back and applied."""
    sandboxed.sandbox()
    ground = _project("overlay-programs")
    counts: Counter[str] = Counter()
    place = f"overlay:{ground.at('docs')}"
    async with bailiwick.open(place, durability="rename", state_dir=ground.at("state")) as fs:
        with Attacker("exchange", ground.at("docs/mid"), ground.at("docs/evil")) as attacker:
            for number in range(tries):
                try:
                    execution = fs.exec(
                        shell="cat f mid/f evil/f; ls -lR . mid/ evil/; echo x > mid/w;"
                        f" echo {number} > mid/f; cp -r mid c{number}; rm -rf evil/f; true",
                        publish="partial",
                    )
                    ground.check(b"".join([piece.data async for piece in execution]).decode())
                    ground.check(await execution.result())
                    counts["ran"] += 1
                    ground.check(await fs.apply(publish="partial"))
                    counts["applied"] += 1
                except BailiwickError as error:
                    _expected(error)
                    counts["refused"] += 1
                for name in await _names(fs):
                    with contextlib.suppress(BailiwickError):
                        ground.check((await fs.read_bytes(name)).data)
        counts["swaps"] = attacker.report.swaps
        for each in await fs.work():
            with contextlib.suppress(BailiwickError):
                await (await fs.open_work(each.id)).discard()
    ground.check()
    return dict(counts)


def overlay_programs_raced(tries: int) -> dict[str, int]:
    return asyncio.run(_overlay_programs_raced(tries))


def overlay_programs_control() -> bool:
    """The same program is led outside where nobody confines it."""
    ground = _project("overlay-programs")
    done = subprocess.run(
        ["sh", "-c", "cat evil/f; echo x > evil/w"], cwd=ground.at("docs"), check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return CANARY in done.stdout and os.path.exists(ground.at("outside/w"))


# --- the folder in which an overlay keeps what was changed ------------------------------------


def _content_folder(ground: Ground) -> str:
    found = [folder for folder, _, _ in os.walk(ground.at("state")) if folder.endswith("/content")]
    assert len(found) == 1, found
    return found[0]


async def _state_linked() -> None:
    """Who puts a link in the place of a part of that folder while the overlay is open has nothing
    written, read or removed where it leads."""
    ground = _project("overlay-state")
    place = f"overlay:{ground.at('docs')}"
    async with bailiwick.open(place, durability="rename", state_dir=ground.at("state")) as fs:
        await fs.write_text("f", "first\n")
        await fs.write_text("mid/f", "first\n")
        content = _content_folder(ground)
        for name, there in (("content", "outside"), ("bases.pack", "outside/made")):
            part = os.path.join(os.path.dirname(content), name)
            os.rename(part, f"{part}.away")
            os.symlink(ground.at(there), part)
        for act in (
            lambda: fs.write_text("new", "second\n"),
            lambda: fs.write_text("f", "second\n"),
            lambda: fs.read_text("f"),
            lambda: fs.append("mid/f", b"more\n"),
            lambda: fs.diff("f"),
            lambda: fs.apply(["f"]),
            lambda: fs.discard(["mid/f"]),
        ):
            with contextlib.suppress(BailiwickError):
                ground.check(await act())
            ground.check()
    ground.check()


def state_linked() -> None:
    asyncio.run(_state_linked())


async def _state_raced(tries: int) -> dict[str, int]:
    """The folder is swapped with a link to the outside while the overlay is opened, changed and
    closed: each of these looks through it, and clears away what it does not know."""
    ground = _project("overlay-state-raced")
    place = f"overlay:{ground.at('docs')}"
    options = {"durability": "rename", "state_dir": ground.at("state")}
    counts: Counter[str] = Counter()
    async with bailiwick.open(place, **options) as fs:
        await fs.write_text("f", "kept\n")
    content = _content_folder(ground)
    os.symlink(ground.at("outside"), f"{content}.evil")
    with Attacker("exchange", content, f"{content}.evil") as attacker:
        for number in range(tries):
            try:
                async with bailiwick.open(place, **options) as fs:
                    await fs.write_text("mid/g", f"{number}\n")
                counts["done"] += 1
            except BailiwickError as error:
                _expected(error)
                counts["refused"] += 1
            ground.check()
    counts["swaps"] = attacker.report.swaps
    return dict(counts)


def state_raced(tries: int) -> dict[str, int]:
    return asyncio.run(_state_raced(tries))


def state_raced_control(tries: int) -> bool:
    """A program that looks whether its folder is a link and then clears it by name is led away."""
    ground = _project("overlay-state-raced")
    content = ground.at("state/content")
    os.mkdir(content)
    os.symlink(ground.at("outside"), f"{content}.evil")
    with Attacker("exchange", content, f"{content}.evil"):
        for _ in range(tries):
            with contextlib.suppress(OSError):
                if not os.path.islink(content) and os.listdir(content):
                    return True
    return False
