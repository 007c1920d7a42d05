"""When words become paths: link texts, patterns, cursors, search words, numbers.

Every function here runs behind the wall.
"""

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable
from typing import Any

import bailiwick
from bailiwick.errors import BailiwickError
from tests.hostile import inside
from tests.hostile.corpus import CONTAINMENTS, SECRET_HASH
from tests.hostile.layouts import CANARY, INSIDE_TEXT, Layout, empty, snapshot, without_times
from tests.hostile.upheaval import kind_of, new_layout

ESCAPING_TARGETS = ("../outside/secret", "..", "../", "/", "/etc", "d/../../outside",
                    "./../outside", "d/e/../../../outside", "//outside", "../root/f")  # fmt: skip


async def _made_links(containment: str) -> list[str]:
    layout = new_layout(lambda made: made.link("dl", "d/e"))
    faults = []
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        refused = dict.fromkeys(ESCAPING_TARGETS, "symlink_escape")
        refused |= dict.fromkeys(("", " ", "\t\n", "a\0b", "x" * 4097, "\ud800"), "parse_error")
        kinds = {target: await kind_of(fs.symlink("new", target)) for target in refused}
        faults += [f"symlink to {t[:20]!r}: {kinds[t]}" for t in refused if kinds[t] != refused[t]]
        layout.reset()
        # The depth that counts is that of the place, not that of the words that led there.
        if (kind := await kind_of(fs.symlink("dl/up", "../../f"))) != "ok":
            faults.append(f"symlink in a linked directory: {kind}")
        elif (await fs.read_text("d/e/up")).text != INSIDE_TEXT:
            faults.append("the link does not lead where it says")
        # Inside where it stands, outside where it is moved to.
        for verb in ("move", "copy"):
            layout.reset()
            layout.link("d/e/deep", "../../f")
            kind = await kind_of(getattr(fs, verb)("d/e/deep", "shallow"))
            if kind not in ("ok", "symlink_escape"):
                faults.append(f"{verb} of a link to where it escapes: {kind}")
            if (
                kind == "ok"
                and (after := await kind_of(fs.read_bytes("shallow"))) != "symlink_escape"
            ):
                faults.append(f"reading the link that was moved out of its depth: {after}")
    return faults


def made_links(containment: str) -> None:
    faults = asyncio.run(_made_links(CONTAINMENTS[containment]))
    assert not faults, "\n".join(faults)


async def _patterns_and_cursors(containment: str) -> list[str]:
    layout = new_layout(lambda made: made.link("rel", "../outside"))
    faults = []
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        for pattern in ("..", "../*", "d/../../outside/*", "**/../*", "/etc/*", "/*", "{d,..}/*"):
            for name, call in (
                ("glob", fs.glob(pattern)),
                ("find", fs.find(".", pattern)),
                ("grep", fs.grep("needle", include=pattern)),
            ):
                kind = await kind_of(call)
                if kind != "parse_error" and not (name == "find" and "/" not in pattern):
                    faults.append(f"{name} {pattern}: {kind}")
        for pattern in ("rel/*", "rel/**", "*/secret", "**/secret", "{rel,d}/**"):
            found = repr(await fs.glob(pattern))
            if "secret" in found or "inner" in found:
                faults.append(f"glob {pattern} goes through a link out: {found[:200]}")
        for text in ("../../outside", "\0", "d/../..", "zz"):
            cursor = base64.urlsafe_b64encode(text.encode()).decode()
            page = await fs.list(".", cursor=cursor)
            if CANARY in repr(page) or "secret" in repr(page):
                faults.append(f"the cursor {text!r} shows the outside")
        for cursor in ("!!", "../..", "\ud800", "x" * 10_000, "-1"):
            kinds = {await kind_of(fs.list(".", cursor=cursor)),
                     await kind_of(fs.read_text("f", cursor=cursor))}  # fmt: skip
            if not kinds <= {"parse_error", "hash_mismatch", "ok"}:
                faults.append(f"the cursor {cursor[:10]!r}: {kinds}")
    return faults


def patterns_and_cursors(containment: str) -> None:
    faults = asyncio.run(_patterns_and_cursors(CONTAINMENTS[containment]))
    assert not faults, "\n".join(faults)


OPTION_PATTERNS = ("--pre=touch", "-f../outside/secret", "--files", "--help", "-e", "--", "-uuu",
                   "--follow", "--hostname-bin=touch")  # fmt: skip


async def _search_words(containment: str) -> list[str]:
    """What is searched for is never taken for an option of whatever does the searching."""
    marker = f"{inside.arena()}/tmp/was-run"
    script = f"{inside.arena()}/tmp/pre.sh"
    with open(script, "w") as file:
        file.write(f'#!/bin/sh\n: > {marker}\ncat "$1"\n')
    os.chmod(script, 0o700)
    settings = f"{inside.arena()}/tmp/ripgreprc"
    with open(settings, "w") as file:
        file.write(f"--follow\n--no-ignore\n--pre={script}\n")
    os.environ["RIPGREP_CONFIG_PATH"] = settings

    def build(layout: Layout) -> None:
        layout.link("rel", "../outside")
        layout.link("rel-file", "../outside/secret")
        layout.file("words", "".join(f"{word}\n" for word in OPTION_PATTERNS))
        layout.file("-rf", INSIDE_TEXT)
        layout.file("line\nbreak", INSIDE_TEXT)
        os.mkfifo(f"{layout.root}/fifo")
        for number in range(40):
            layout.file(f"many/{number}", INSIDE_TEXT)

    layout = new_layout(build)
    faults = []
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        for word in OPTION_PATTERNS:
            found = await fs.grep(word, literal=True)
            lines = {match.text for match in found.matches}
            if not lines or any(word not in line for line in lines):
                faults.append(f"grep {word!r} found {sorted(lines)[:5]}")
        found = await fs.grep("needle")
        if CANARY in repr(found):
            faults.append("grep went through a link out")
        if len({match.path for match in found.matches}) != 45:
            faults.append(f"grep found {len(found.matches)} files, not 45")
        if not {"-rf", "line\nbreak"} <= {str(match.path) for match in found.matches}:
            faults.append("grep lost a file with an odd name")
    del os.environ["RIPGREP_CONFIG_PATH"]
    if os.path.exists(marker):
        faults.append("ESCAPE: a search ran a program that a settings file names")
    return faults


def search_words(containment: str) -> None:
    faults = asyncio.run(_search_words(CONTAINMENTS[containment]))
    assert not faults, "\n".join(faults)


# --- arguments that are no paths -------------------------------------------------------------


def _strange_calls(fs: bailiwick.Scope) -> dict[str, Callable[[], Awaitable[Any]]]:
    huge = 1 << 80
    return {
        "read before the start": lambda: fs.read_bytes("f", offset=-1),
        "read a negative length": lambda: fs.read_bytes("f", length=-1),
        "read at a huge offset": lambda: fs.read_bytes("f", offset=huge),
        "read a huge length": lambda: fs.read_bytes("f", length=huge),
        "stream at a huge offset": lambda: anext(fs.stream("f", offset=huge)),
        "stream a negative length": lambda: anext(fs.stream("f", length=-5)),
        "line zero": lambda: fs.read_text("f", line=0),
        "a negative limit": lambda: fs.read_text("f", limit=-1),
        "a negative tail": lambda: fs.read_text("f", tail=-1),
        "a huge line": lambda: fs.read_text("f", line=huge, limit=huge),
        "no such encoding": lambda: fs.read_text("f", encoding="../../outside"),
        "an encoding that is a codec of bytes": lambda: fs.read_text("f", encoding="zip"),
        "truncate to less than nothing": lambda: fs.truncate("f", -1),
        "truncate to too much": lambda: fs.truncate("f", 1 << 62),
        "truncate to far too much": lambda: fs.truncate("f", huge),
        "a mode out of range": lambda: fs.set_mode("f", huge),
        "a time out of range": lambda: fs.set_times("f", huge),
        "a time before time": lambda: fs.set_times("f", -huge),
        "a page of nothing": lambda: fs.list(".", limit=0),
        "a page of everything": lambda: fs.list(".", limit=huge),
        "matches without end": lambda: fs.glob("**", limit=huge),
        "context without end": lambda: fs.grep("needle", context=huge),
        "a negative size": lambda: fs.grep("needle", max_file_bytes=-7),
        "a depth below zero": lambda: fs.find(".", depth=-1),
        "a broken pattern": lambda: fs.grep("(((("),
        "a pattern of its own power": lambda: fs.grep(r"(\\w+)\\1"),
        "a pattern too large": lambda: fs.grep("(a{1000}){1000}"),
        "a broken glob": lambda: fs.glob("[" * 5_000),
        "a glob of many branches": lambda: fs.glob("{a,b}" * 200),
        "a hash that is none": lambda: fs.write_bytes("f", b"x", expected_sha256="../f"),
        "a version that is none": lambda: fs.write_bytes("f", b"x", expected_version="\0"),
        "a mode that is none": lambda: fs.write_bytes("f", b"x", mode="append"),
        "text for bytes": lambda: fs.write_bytes("f", "text"),
        "bytes for text": lambda: fs.write_text("f", b"bytes"),
        "a lone surrogate": lambda: fs.write_text("f", "\ud800"),
        "a stream of text": lambda: fs.write_stream("f", ["text"]),
        "bytes for a path": lambda: fs.read_bytes(b"f"),
        "nothing for a path": lambda: fs.read_bytes(None),
        "a number for a path": lambda: fs.read_bytes(3),
        "an edit of nothing": lambda: fs.edit("f", old="", new="x"),
    }


async def _strange_arguments(containment: str) -> list[str]:
    layout = new_layout()
    before = without_times(snapshot(layout.root))
    faults = []
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        for what, call in _strange_calls(fs).items():
            try:
                await call()
                kind = "ok"
            except BailiwickError as error:
                kind = error.kind
            except StopAsyncIteration:
                kind = "ok"
            except Exception as error:
                kind = f"UNTYPED {type(error).__name__}: {error}"
            if kind == "internal_error" or kind.startswith("UNTYPED"):
                faults.append(f"{what}: {kind}")
            if kind != "ok" and without_times(snapshot(layout.root)) != before:
                faults.append(f"{what}: {kind}, yet something changed")
            layout.reset()
    return faults


def strange_arguments(containment: str) -> None:
    faults = asyncio.run(_strange_arguments(CONTAINMENTS[containment]))
    assert not faults, "\n".join(faults)


# --- copying in ------------------------------------------------------------------------------


async def _copying_in(containment: str) -> list[str]:
    """Only from the host directories that were listed, by components, never through a link out."""
    layout = new_layout()
    inbox = f"{layout.place}/inbox"
    for directory in (inbox, f"{inbox}-evil"):
        os.makedirs(directory, exist_ok=True)
        empty(directory)
    for path, text in ((f"{inbox}/good", INSIDE_TEXT), (f"{inbox}-evil/secret", CANARY)):
        with open(path, "w") as file:
            file.write(text)
    os.symlink("../outside/secret", f"{inbox}/out")
    os.symlink("../outside", f"{inbox}/dir")
    hostile = [f"{layout.outside}/secret", f"{inbox}/../outside/secret", f"{inbox}-evil/secret",
               f"{inbox}/out", f"{inbox}/dir/secret", f"{inbox}/dir", "../outside/secret", "~",
               f"{inbox}/\0", "", "/", f"{layout.root}/../outside/secret"]  # fmt: skip
    faults = []
    options = {"containment": containment, "durability": "rename", "copy_in": [inbox]}
    async with bailiwick.open(layout.root, **options) as fs:
        for path in hostile:
            kind = await kind_of(fs.copy_in(path, "brought", recursive=True))
            if kind in ("ok", "internal_error"):
                faults.append(f"copy_in of {path[len(layout.place) :]!r}: {kind}")
            if any(each.content == SECRET_HASH for each in snapshot(layout.root).values()):
                faults.append(f"ESCAPE: copy_in of {path[len(layout.place) :]!r}")
            layout.reset()
        if (kind := await kind_of(fs.copy_in(f"{inbox}/good", "brought"))) != "ok":
            faults.append(f"copy_in of a file that is listed: {kind}")
        for to in ("../outside/new", "rel/new", f"{layout.outside}/new"):
            layout.link("rel", "../outside")
            if (kind := await kind_of(fs.copy_in(f"{inbox}/good", to))) == "ok":
                faults.append(f"copy_in to {to}")
            layout.reset()
    return faults


def copying_in(containment: str) -> None:
    faults = asyncio.run(_copying_in(CONTAINMENTS[containment]))
    assert not faults, "\n".join(faults)
