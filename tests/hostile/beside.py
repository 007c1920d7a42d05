"""Attacks by the commands of a session on the roots that it sees beside its own, and the same by a
program that is not confined.

Of such a root a command sees what its subject may read, and changes nothing. Every function here
runs behind the wall.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import bailiwick
from bailiwick.errors import ParseError, RootNotFound
from tests.hostile.layouts import CANARY
from tests.hostile.sandboxed import PRELUDE, PYTHON, Place, place, sandbox, secrets

AGENT = bailiwick.AgentRun("c1", "r1")
PERSON = bailiwick.User("me")
SEEN = "/roots/knowledge/notes"

CONFIGURATION = """
[state]
memory = true
[[root]]
id = "demo"
kind = "workspace"
trusted = true
path = {lower!r}
symlinks = "in-root"
[[root]]
id = "notes"
kind = "knowledge"
trusted = true
path = {notes!r}
[[root]]
id = "mine"
kind = "knowledge"
trusted = true
path = {mine!r}
[[grant]]
subject = "agent_run:c1/r1"
root = "workspace:demo"
access = ["read", "list", "metadata", "write", "delete", "execute"]
[[rule]]
id = "run"
operation = ["exec"]
effect = "allow"
[[rule]]
id = "kept"
path = ["secret", "deep/secret", "private/**"]
effect = "hide"
"""


class Beside:
    """A session whose commands see another root, and what is planted in that."""

    def __init__(self, where: Place, session: Any, authority: Any, grant_id: str) -> None:
        self.where = where
        self.session = session
        self.authority = authority
        self.grant_id = grant_id
        self.notes = f"{where.directory}/notes"

    async def said_by(self, program: str, **options: Any) -> str:
        execution = self.session.exec([PYTHON, "-c", PRELUDE + program], **options)
        said = b"".join([piece.data async for piece in execution]).decode(errors="replace")
        await execution.result()
        return said

    def tree(self) -> dict[str, Any]:
        """All of the other root, with what a change would show by."""
        found = {}
        for at, names, files in os.walk(self.notes):
            for name in (*names, *files):
                path = os.path.join(at, name)
                status = os.lstat(path)
                found[path] = status.st_mode, status.st_size, status.st_mtime_ns, status.st_nlink
        return found


@contextlib.asynccontextmanager
async def opened(where: Place) -> AsyncIterator[Beside]:
    sandbox()
    notes, mine = f"{where.directory}/notes", f"{where.directory}/mine"
    for directory in (mine, f"{notes}/deep", f"{notes}/private"):
        os.makedirs(directory)
    for name in ("notes/secret", "notes/deep/secret", "notes/private/key", "mine/m"):
        with open(f"{where.directory}/{name}", "w") as file:
            file.write(CANARY)
    with open(f"{notes}/n", "w") as file:
        file.write("note")
    os.symlink(where.secret, f"{notes}/out")
    os.symlink("../mine/m", f"{notes}/other")
    config = f"{where.directory}/bailiwick.toml"
    with open(config, "w") as file:
        lower = str(where.workshop.lower)
        file.write(CONFIGURATION.format(lower=lower, notes=notes, mine=mine))
    state = f"{where.directory}/state"
    async with bailiwick.Authority.from_config(config, state_dir=state) as authority:
        access = ("read", "list", "metadata", "write", "delete", "execute")
        grant = await authority.add_grant(
            subject=str(AGENT), root="knowledge:notes", by=PERSON,
            access=["read", "list", "metadata", "write", "delete"],
        )  # fmt: skip
        scope = await authority.request_root(AGENT, "workspace:demo", access, "an attack")
        async with scope.session(roots=["knowledge:notes"]) as session:
            yield Beside(where, session, authority, grant.id)
            await session.discard()


READING = """
top = {top!r}
names = ["secret", "deep/secret", "private/key", "private", "out", "other", "../mine/m", "./secret",
         "deep/../secret", "../notes/secret", "../../knowledge/notes/secret"]
print(sorted(os.listdir(top)), [list(each) for each in os.walk(top)])
os.chdir(top)
fd = os.open(".", os.O_RDONLY)
for name in names:
    for path in (name, os.path.join(top, name), "/proc/self/cwd/" + name):
        for call in (read, os.stat, os.lstat, os.listdir, os.listxattr):
            print(name if not isinstance(got := attempt(lambda: call(path)), str) else "", end=" ")
            print(got if isinstance(got, bytes) else "")
    print(attempt(lambda: os.read(os.open(name, os.O_RDONLY, dir_fd=fd), 99)))
s = attempt(lambda: socket.socket(socket.AF_UNIX))
print(attempt(lambda: (s.connect("door"), s.recv(99))))
"""


def reading() -> None:
    """What is hidden there from the subject is not there, in the first command nor in a later one,
    and nothing in it leads anywhere else."""

    async def attack(where: Place) -> None:
        async with opened(where) as beside:
            before = os.getcwd()
            os.chdir(beside.notes)  # the path of a socket is short
            with socket.socket(socket.AF_UNIX) as door:
                door.bind("door")
                door.listen()
                os.chdir(before)
                for _ in range(2):
                    said = await beside.said_by(READING.format(top=SEEN))
                    assert not any(each in said for each in secrets()), said
                    assert "'n'" in said
                    assert "Traceback" not in said, said
                    for hidden in ("'secret'", "'key'", "'door'"):
                        assert hidden not in said, said
                said = await beside.said_by(
                    "print(os.listdir('/roots'), os.listdir('/roots/knowledge'))"
                )
                assert said == "['knowledge'] ['notes']\n"
            plain = where.plain(READING.format(top=beside.notes))
            assert CANARY in plain, "the control gets nothing"

    with place() as where:
        asyncio.run(attack(where))
        assert where.outside_is_as_it_was()


WRITING = """
top = {top!r}
os.chdir({own!r})
open("own", "w").close()
for path in (top + "/n", top + "/new", top + "/deep", top + "/secret", top + "/private/key", top):
    for call in (lambda p: open(p, "w").close(), lambda p: open(p, "r+b").close(), os.unlink,
                 os.rmdir, os.mkdir, lambda p: os.rename(p, "taken"), lambda p: os.chmod(p, 0o777),
                 lambda p: os.rename("own", p), lambda p: os.symlink("x", p),
                 lambda p: os.link(p, "linked"), lambda p: os.link("own", p),
                 lambda p: os.truncate(p, 0), lambda p: os.utime(p, (1, 1)), os.mkfifo,
                 lambda p: os.setxattr(p, "user.x", b"x"), lambda p: os.chown(p, 1, 1)):
        got = attempt(lambda: call(path))
        if got is None: print("did", path)
fd = os.open(top, os.O_RDONLY)
for name in ("n", "new"):
    if not isinstance(attempt(lambda: os.open(name, os.O_RDWR | os.O_CREAT, dir_fd=fd)), str):
        print("opened", name)
for flags in (32 | 4096, 4096, 32):
    if libc.mount(b"none", top.encode(), None, ctypes.c_ulong(flags), None) == 0: print("mounted")
"""


def writing() -> None:
    """It is read-only, also for a subject that may write there."""

    async def attack(where: Place) -> None:
        async with opened(where) as beside:
            was = beside.tree()
            for _ in range(2):
                said = await beside.said_by(WRITING.format(top=SEEN, own="/tmp"))
                assert said == "", said
                assert beside.tree() == was
            published = await beside.session.publish("partial")
            assert not published.changes
            assert beside.tree() == was
            own = str(where.workshop.lower)
            assert "did" in where.plain(WRITING.format(top=beside.notes, own=own))
            assert beside.tree() != was, "the control changes nothing"

    with place() as where:
        asyncio.run(attack(where))
        assert where.outside_is_as_it_was()


def links() -> None:
    """What a command leaves that leads there is no way in, neither for the next one nor for those
    who read the tree once it was published."""

    async def attack(where: Place) -> None:
        async with opened(where) as beside:
            program = f"os.symlink({SEEN!r} + '/secret', 'l'); os.symlink({SEEN!r}, 'd')"
            await beside.said_by(program)
            said = await beside.said_by(
                "for path in ('l', 'd/secret', 'd/private/key', 'd/../mine/m', 'd/out'):\n"
                "    print(attempt(lambda: read(path)))"
            )
            assert not any(each in said for each in secrets()), said
            published = await beside.session.publish("partial")
            assert {each.path for each in published.withheld} == {"l", "d"}
            assert os.listdir(where.workshop.lower) == []

    with place() as where:
        asyncio.run(attack(where))


HOLDING = """
import select
fd = os.open({seen!r}, os.O_RDONLY)
print("held", flush=True)
while True:
    try: print(os.read(os.open("later", os.O_RDONLY, dir_fd=fd), 99), flush=True)
    except OSError: pass
    select.select([], [], [], 0.01)
"""


def held() -> None:
    """Whoever holds a directory there, in the background of a session, is ended with the grant."""

    async def attack(where: Place) -> None:
        async with opened(where) as beside:
            words = [PYTHON, "-c", PRELUDE + HOLDING.format(seen=SEEN)]
            execution = beside.session.exec(words, timeout=3600)
            pieces = execution.output()
            assert (await anext(pieces)).data == b"held\n"
            await beside.authority.revoke(beside.grant_id, by=PERSON)
            ended = await execution.result()
            assert ended.signal == 9
            with open(f"{beside.notes}/later", "w") as file:
                file.write(CANARY)
            assert CANARY not in "".join([repr(each.data) async for each in pieces])
            try:
                await beside.said_by("print(os.listdir('/roots/knowledge/notes'))")
            except RootNotFound:
                return
            raise AssertionError("the session goes on to see it")

    with place() as where:
        asyncio.run(attack(where))


NAMES = (
    "knowledge:mine", "knowledge:notes/..", "knowledge:../mine", "workspace:demo/../..", "../mine",
    "/etc", "knowledge:", ":notes", "knowledge:notes\0", "knowledge:*", "KNOWLEDGE:notes", "",
)  # fmt: skip


def names() -> None:
    """A name is one of a root that the subject holds a grant on, and nothing else."""

    async def attack(where: Place) -> None:
        async with opened(where) as beside:
            scope = beside.session._scope
            for name in NAMES:
                try:
                    async with scope.session(roots=[name]) as session:
                        await session.exec(["true"]).result()
                except (ParseError, RootNotFound):
                    continue
                raise AssertionError(f"{name!r} is taken for a root")

    with place() as where:
        asyncio.run(attack(where))
