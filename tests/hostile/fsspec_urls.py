"""URLs of fsspec from someone who wants out: what stands after the place, in every spelling.

Every function here runs behind the wall, as each spelling is also written to, moved and removed.
Outside stands a secret; nothing that is answered may hold it, and nothing outside may change. The
control is fsspec's own ``file://``, which hands it out.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import fsspec
from fsspec.implementations.dirfs import DirFileSystem

import bailiwick
from bailiwick.fronts.fsspec import BailiwickFileSystem
from bailiwick.fronts.fsspec.places import DirectoryFileSystem, VolumeFileSystem
from bailiwick.testing.hostile_paths import HOSTILE_PATHS
from tests.hostile.layouts import CANARY, Layout, snapshot, without_times
from tests.hostile.upheaval import new_layout

SECRET = "outside/secret"

REFUSED = (OSError, ValueError, TypeError, NotImplementedError, KeyError)
"""How fsspec and what stands on it say no."""

CLIMBS = (
    "../outside/secret", "d/../../outside/secret", "./../outside/secret", "..//outside/secret",
    "/../outside/secret", "//../outside/secret", "///../outside/secret",
    "../root/../outside/secret", "../../case/outside/secret", "../../outside/secret",
    "..\\outside\\secret", "..%2foutside%2fsecret", "%2e%2e/outside/secret",
    "%2e%2e%2foutside%2fsecret", "%252e%252e/outside/secret",
    "..%c0%afoutside/secret", "\uff0e\uff0e/outside/secret",
    ".. /outside/secret", "..;/outside/secret", "..?/outside/secret", "..#/outside/secret",
    "!/../outside/secret", "!/!/../../outside/secret", "d!/../../outside/secret",
    "~/../outside/secret",
    "../outside/secret\0", "\0../outside/secret", "../outside/secret?x=1", "../outside/secret#x",
    "../outside/*", "../**/secret", "{../outside/secret,f}", "[.][.]/outside/secret",
    "file:/etc/passwd", "file://etc/passwd", "bailiwick+file://outside!/secret", "::file:/x",
    "leaving/secret",
    "leaving", "d/leaving/secret", "sqlite:../outside/new.db", "memory:", "$HOME/../outside/secret",
)  # fmt: skip


def _register() -> None:
    for kind in (DirectoryFileSystem, VolumeFileSystem):
        fsspec.register_implementation(kind.protocol, kind, clobber=True)


def _spellings(layout: Layout) -> Iterator[str]:
    yield from CLIMBS
    yield from (row.text for row in HOSTILE_PATHS)
    outside = f"{os.path.dirname(layout.root)}/{SECRET}"
    yield from (outside, f"/{outside}", f"file://{outside}", quote(outside, safe=""))


VERBS: dict[str, Callable[[Any, str], Any]] = {
    "cat": lambda fs, path: fs.cat_file(path),
    "cat many": lambda fs, path: fs.cat(path, on_error="return"),
    "open": lambda fs, path: fs.open(path, "rb").read(),
    "head": lambda fs, path: fs.head(path),
    "find": lambda fs, path: [fs.cat_file(each) for each in fs.find(path)],
    "glob": lambda fs, path: [fs.cat_file(each) for each in fs.glob(path) if fs.isfile(each)],
    "ls": lambda fs, path: fs.ls(path),
    "info": lambda fs, path: fs.info(path),
    "copy out of it": lambda fs, path: (fs.cp_file(path, "copied"), fs.cat_file("copied")),
    "move out of it": lambda fs, path: (fs.mv(path, "moved"), fs.cat_file("moved")),
    "pipe": lambda fs, path: fs.pipe_file(path, b"overwritten"),
    "write": lambda fs, path: _written(fs, path),
    "append": lambda fs, path: _written(fs, path, "ab"),
    "copy onto it": lambda fs, path: fs.cp_file("f", path),
    "move onto it": lambda fs, path: fs.mv("f", path),
    "make": lambda fs, path: fs.makedirs(path, exist_ok=True),
    "touch": lambda fs, path: fs.touch(path),
    "edit": lambda fs, path: fs.edit(path, CANARY, "overwritten"),
    "remove": lambda fs, path: fs.rm(path, recursive=True),
}


def _written(fs: Any, path: str, mode: str = "wb") -> None:
    with fs.open(path, mode) as file:
        file.write(b"overwritten")


def _attempt(verb: str, fs: Any, path: str) -> str:
    """What came of it, as text: an error's words count as an answer."""
    try:
        return repr(VERBS[verb](fs, path))
    # A wrapper lacks what we have added, and asserts that what it finds lies beneath it.
    except (*REFUSED, AttributeError, AssertionError) as error:
        return f"{error!r} {getattr(error, 'hint', '')}"


def paths(way: str) -> int:
    """Every spelling by every verb, on a filesystem that was made for one place."""
    _register()
    layout = new_layout(lambda made: made.link("leaving", "../outside"))
    before = _outside(layout)
    faults, tries = [], 0
    with bailiwick.open_sync(layout.root, durability="rename") as scope:
        fs = _way_to(way, layout, scope)
        for path, verb in itertools.product(_spellings(layout), VERBS):
            _mend(layout)
            tries += 1
            answer = _attempt(verb, fs, path)
            if CANARY in answer:
                faults.append(f"{verb} {path!r} told the secret")
            if _outside(layout) != before:
                faults.append(f"{verb} {path!r} changed the outside")
                break
        if isinstance(fs, DirectoryFileSystem):
            fs.close()
    DirectoryFileSystem.clear_instance_cache()
    assert not faults, "\n".join(faults)
    return tries


def _mend(layout: Layout) -> None:
    """What an earlier try may have moved or removed is there again."""
    os.makedirs(f"{layout.root}/d", exist_ok=True)
    if not os.path.isfile(f"{layout.root}/f"):
        with open(f"{layout.root}/f", "w") as file:
            file.write("mine")
    if not os.path.lexists(f"{layout.root}/leaving"):
        os.symlink("../outside", f"{layout.root}/leaving")


def _way_to(way: str, layout: Layout, scope: bailiwick.SyncScope) -> Any:
    if way == "scope":
        return BailiwickFileSystem(scope)
    if way == "dirfs":
        return DirFileSystem(path="d", fs=BailiwickFileSystem(scope))
    return fsspec.filesystem("bailiwick+file", place=layout.root, durability="rename")


def _outside(layout: Layout) -> Any:
    top = os.path.dirname(layout.root)
    beside = [name for name in sorted(os.listdir(top)) if name != os.path.basename(layout.root)]
    return {name: without_times(snapshot(f"{top}/{name}")) for name in beside}


CHAINS = ("{url}", "simplecache::{url}", "filecache::{url}", "blockcache::{url}")


def urls() -> dict[str, Any]:
    """Every spelling as part of a URL, also through the caches that are put before one."""
    _register()
    layout = new_layout(lambda made: made.link("leaving", "../outside"))
    before = _outside(layout)
    faults, tries = [], 0
    for path, chain in itertools.product(_spellings(layout), CHAINS):
        url = chain.format(url=f"bailiwick+file://{layout.root}!/{path}")
        if "::" in path:
            continue  # whoever writes a chain names another filesystem, and says so: see `chains`
        tries += 1
        for mode in ("rb", "wb"):
            if mode == "wb" and "blockcache" in chain:
                continue
            try:
                with fsspec.open(url, mode) as file:
                    answer = repr(file.read()) if mode == "rb" else str(file.write(b"overwritten"))
            except REFUSED as error:
                answer = f"{error!r}"
            if CANARY in answer:
                faults.append(f"{url!r} told the secret")
        if _outside(layout) != before:
            faults.append(f"{url!r} changed the outside")
            break
    for fs in list(DirectoryFileSystem._cache.values()):
        fs.close()
    DirectoryFileSystem.clear_instance_cache()
    assert not faults, "\n".join(faults)
    return {"tries": tries, "control": _control(layout)}


def _control(layout: Layout) -> list[str]:
    """The same by fsspec's own filesystem of the host: which spellings hand the secret out."""
    leaks = []
    for path in CLIMBS:
        if path.startswith(("/", "file:", "bailiwick", "::")) or "*" in path:
            continue
        try:
            with fsspec.open(f"file://{layout.root}/{path}", "rb") as file:
                if CANARY.encode() in file.read():
                    leaks.append(path)
        except (OSError, ValueError):
            pass
    return leaks


def volumes() -> None:
    """A URL that names a volume which is not there leaves nothing behind, however it is used."""
    _register()
    layout = new_layout(lambda made: None)
    top = os.path.dirname(layout.root)
    before = _outside(layout), without_times(snapshot(layout.root))
    places = (
        f"{top}/outside/new.db", f"{layout.root}/new.db", f"{layout.root}/../outside/new.db",
        f"{top}/outside/new.db?volume=main", f"{layout.root}/new.db?blobs={top}/outside",
        f"{top}/outside/secret", f"{layout.root}/f", f"sqlite:{top}/outside/new.db",
    )  # fmt: skip
    for place, mode in itertools.product(places, ("rb", "wb")):
        answer = ""
        try:
            with fsspec.open(f"bailiwick+sqlite://{place}!/x", mode) as file:
                answer = repr(file.read()) if mode == "rb" else str(file.write(b"x"))
        except (OSError, ValueError, TypeError) as error:
            answer = repr(error)
        assert CANARY not in answer, place
        VolumeFileSystem.clear_instance_cache()
        now = _outside(layout), without_times(snapshot(layout.root))
        assert now == before, f"{place} {mode}: {answer}"
