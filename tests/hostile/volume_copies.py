"""Another user of the machine, at the very moment at which root copies a volume to a directory that
is open to all; and copies that are let go of where there is none.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import apsw

import bailiwick
from bailiwick.build.care import copy_volume, discard_copies
from tests.hostile.children import fork
from tests.hostile.foreign_volume import BIG, become_attacker, new_place
from tests.hostile.layouts import snapshot, without_times

CONTROL_SECONDS_MAX = 20
ATTACKER_SECONDS_MAX = 600

RACED = {"the file": "", "its log": "-wal", "its journal": "-journal", "its blobs": "-blobs"}
"""Where a link comes and goes."""


@contextlib.contextmanager
def _swapping(link: str, leads_to: str) -> Iterator[None]:
    """Somebody who puts a link there and takes it away again, all the time."""

    def swap() -> None:
        become_attacker()
        signal.alarm(ATTACKER_SECONDS_MAX)
        while True:
            with contextlib.suppress(OSError):
                os.symlink(leads_to, link)
            with contextlib.suppress(OSError):
                os.unlink(link)

    child = fork(swap)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _emptied(directory: str) -> None:
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        try:
            shutil.rmtree(path)
        except NotADirectoryError:
            os.unlink(path)
        except OSError:  # a link, or one that has just gone
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


async def _volume(place: str) -> None:
    async with bailiwick.open(place) as fs:
        await fs.write_text("f", "the victim's")
        await fs.write_bytes("big", BIG)


def race(what: str, tries: int) -> dict[str, Any]:
    """Copies while a link to something private comes and goes where they are made."""
    place = new_place()
    shared, private = f"{place}/shared", f"{place}/private"
    os.mkdir(shared)
    os.chmod(shared, 0o1777)
    os.makedirs(f"{private}/folder", 0o700)
    source, target = f"sqlite:{place}/source.db", f"sqlite:{shared}/copy.db?volume=other"
    asyncio.run(_volume(source))
    asyncio.run(_volume(f"sqlite:{private}/v.db"))
    with open(f"{private}/report.txt", "w") as report:
        report.write("the victim's report")
    leads_to = {"the file": "v.db", "its blobs": "folder"}.get(what, "report.txt")
    before = without_times(snapshot(private))
    answers, link = Counter[str](), f"{shared}/copy.db{RACED[what]}"
    with _swapping(link, f"{private}/{leads_to}"):
        for _ in range(tries):
            for attempt in (copy_volume(source, target), discard_copies(target)):
                try:
                    asyncio.run(attempt)
                    answers["done"] += 1
                except bailiwick.BailiwickError as error:
                    answers[error.kind] += 1
                assert without_times(snapshot(private)) == before, dict(answers)
            _emptied(shared)
        control = _obeyed(link, f"{private}/{leads_to}")
    return {"answers": dict(answers), "control": control}


def _obeyed(link: str, leads_to: str) -> bool:
    """Whether a plain program that looks before it opens goes where the link leads."""
    before = os.stat(leads_to).st_mtime_ns
    deadline = time.monotonic() + CONTROL_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if not os.path.islink(link):
                if os.path.isdir(leads_to):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(link)
                    with open(f"{link}/obeyed", "w"):
                        pass
                else:
                    with open(link, "ab") as obeyed:
                        obeyed.write(b"!")
                _emptied(os.path.dirname(link))
        if os.stat(leads_to).st_mtime_ns != before:
            return True
    return False


# --- letting go of what is no copy ---------------------------------------------------------------


def _a_volume(path: str) -> None:
    asyncio.run(_volume(f"sqlite:{path}?volume=other"))


def _of_another_program(path: str) -> None:
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE volume (id, name)")
    connection.execute("INSERT INTO volume VALUES (1, 'other#copy-of-it')")
    connection.close()


def _a_document(path: str) -> None:
    with open(path, "wb") as file:
        file.write(b"dear to somebody\n" * 100)


def _nothing_yet(path: str) -> None:
    with open(path, "wb"):
        pass


NO_COPIES = {
    "a volume": _a_volume,
    "of another program": _of_another_program,
    "a document": _a_document,
    "an empty file": _nothing_yet,
    "a directory": os.mkdir,
    "a pipe": os.mkfifo,
    "nothing": lambda path: None,
}


def discard(name: str) -> dict[str, Any]:
    """What is no copy is as it was, and there is nothing beside it that was not."""
    place = new_place()
    os.mkdir(f"{place}/there")
    path = f"{place}/there/f"
    NO_COPIES[name](path)
    before = without_times(snapshot(f"{place}/there"))
    answers = []
    for volume in ("other", "main", "o", "othe", "other2"):
        try:
            asyncio.run(discard_copies(f"sqlite:{path}?volume={volume}"))
            answers.append("done")
        except bailiwick.BailiwickError as error:
            answers.append(error.kind)
    after = without_times(snapshot(f"{place}/there"))
    return {"answers": answers, "untouched": after == before, "changed": sorted(after)}


def _set(begun: asyncio.Event, done: int, of: int | None) -> None:
    begun.set()


def discard_under_way() -> dict[str, Any]:
    """A copy is let go of while somebody else makes it: that one is told, and nothing is left that
    could be taken for a volume. The source is as it was."""
    place = new_place()
    source, target = f"sqlite:{place}/source.db", f"sqlite:{place}/copy.db?volume=other"
    asyncio.run(_volume(source))

    async def both() -> tuple[list[str], int]:
        answers, let_go = [], 0
        while not let_go and len(answers) < 100:
            begun = asyncio.Event()
            told = partial(_set, begun)
            copying = asyncio.ensure_future(copy_volume(source, target, told=told))
            waiting = asyncio.ensure_future(begun.wait())
            await asyncio.wait((copying, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            with contextlib.suppress(bailiwick.RootNotFound):
                let_go += (await discard_copies(target)).copies
            try:
                await copying
                answers.append("done")
            except bailiwick.BailiwickError as error:
                answers.append(error.kind)
        return answers, let_go

    answers, let_go = asyncio.run(both())

    async def read(where: str) -> str:
        async with bailiwick.open(where) as fs:
            assert (await fs.read_bytes("big")).data == BIG
            return (await fs.read_text("f")).text

    left = [name for _, _, names in os.walk(f"{place}/copy.db-blobs") for name in names]
    asyncio.run(copy_volume(source, target))
    return {
        "answers": answers, "let_go": let_go, "left": left, "source": asyncio.run(read(source)),
        "copied_after_all": asyncio.run(read(target)),
    }  # fmt: skip
