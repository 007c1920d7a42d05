"""A state that somebody else has planted where that of the user would be looked for: work that was
begun to be brought back, which whoever opens the volume next would finish.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import bailiwick
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk.syscalls import flush_all
from bailiwick.versions import Mark, Plan, Touch
from bailiwick.working_copies.folder import Folders
from bailiwick.working_copy import Publishing

STRANGER = 12_345
CONTENT = b"* * * * * run me\n"


def run(owner: int | None) -> list[str]:
    """What lies in a volume once it was opened, with a state in the way that belongs to ``owner``,
    or with None to whoever opens it."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        volume, shared = f"sqlite:{place}/volume.db", place / "tmp"
        shared.mkdir()
        asyncio.run(_begin(place / "theirs", volume))
        planted = shared / f"bailiwick-{os.getuid()}"
        shutil.copytree(place / "theirs" / "work", planted / "work")
        for each in (planted, *planted.rglob("*")):
            if owner is not None:
                os.chown(each, owner, owner)
        os.chmod(planted, 0o777 if owner is not None else 0o700)
        with _user_of(place / "home", shared):
            return asyncio.run(_names_in(volume))


async def _begin(state: pathlib.Path, volume: str) -> None:
    """Begin to bring something into the volume, and stop there."""
    async with bailiwick.open(volume, state_dir=str(state)):
        pass
    overlay: Any = bailiwick.open(f"overlay:{volume}", state_dir=str(state))
    async with overlay as fs:
        await fs.write_bytes("planted", CONTENT)
    (key,) = os.listdir(state / "work")
    folders = Folders(str(state), key, flush_all)
    (about,) = folders.all()
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    touch = Touch(
        ScopedPath("planted"), "created", "file", size=len(CONTENT), sha256=sha256, mode=0o644
    )
    folder = folders.open(about.id)
    folder.note_publishing(Publishing(Plan([touch]), {}, Mark(), len(CONTENT)))
    folder.close()


@contextlib.contextmanager
def _user_of(home: pathlib.Path, shared: pathlib.Path) -> Iterator[None]:
    """Somebody who has never used it: there is no state of theirs yet."""
    home.mkdir()
    before = {name: os.environ.get(name) for name in ("HOME", "XDG_STATE_HOME")}
    os.environ["HOME"] = str(home)
    os.environ.pop("XDG_STATE_HOME", None)
    tempfile.tempdir = str(shared)
    try:
        yield
    finally:
        tempfile.tempdir = None
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value


async def _names_in(volume: str) -> list[str]:
    async with bailiwick.open(volume) as fs:
        return [str(each.name) for each in (await fs.list(".")).entries]
