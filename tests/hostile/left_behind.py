"""Working copies whose folder somebody has edited, sessions that leave somebody behind, and what
`bailiwick run` is given that leads out: nothing outside is read, changed or made.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys

import msgspec

import bailiwick
from tests.hostile import inside, sandboxed
from tests.hostile.layouts import CANARY
from tests.sandboxes.workshop import remove
from tests.waiting import until_blocking


class Left:
    """A project with a session that was left, and a directory outside that could pass for a
    working copy."""

    def __init__(self):
        sandboxed.sandbox()
        self.arena = f"{inside.arena()}/left"
        shutil.rmtree(self.arena, ignore_errors=True)
        self.project = f"{self.arena}/project"
        self.outside = f"{self.arena}/outside"
        os.makedirs(self.project)
        for name in ("upper", "overlay", "kept"):
            os.makedirs(f"{self.outside}/{name}")
        for name in ("secret", "kept/secret", "upper/secret"):
            with open(f"{self.outside}/{name}", "w") as file:
                file.write(CANARY)
        with open(f"{self.project}/a", "w") as file:
            file.write("one\n")
        self.was = self.look()
        asyncio.run(self._leave())
        [folder] = [
            f"{directory}/{name}"
            for directory, names, _ in os.walk(f"{self.arena}/state/work")
            for name in names
            if os.path.exists(f"{directory}/{name}/about.json")
        ]
        self.folder = folder
        self.id = os.path.basename(folder)

    def opened(self):
        return bailiwick.open(self.project, state_dir=f"{self.arena}/state")

    async def _leave(self):
        async with self.opened() as fs, fs.session() as session:
            await session.exec(shell="echo two > a; mkdir d; echo x > d/x").result()

    def look(self):
        """All that lies outside, with its content."""
        found = {}
        for directory, names, files in os.walk(self.outside):
            for name in names:
                found[f"{directory}/{name}"] = None
            for name in files:
                with open(f"{directory}/{name}") as file:
                    found[f"{directory}/{name}"] = file.read()
        return found

    def edit(self, name, change):
        with open(f"{self.folder}/{name}", "rb") as file:
            found = file.read()
        with open(f"{self.folder}/{name}", "wb") as file:
            file.write(change(found))

    def lead_out(self, name):
        """A directory of the folder is a link to one outside."""
        os.rename(f"{self.folder}/{name}", f"{self.arena}/{name}-as-it-was")
        os.symlink(f"{self.outside}/{name}", f"{self.folder}/{name}")

    async def use(self):
        """All that can be done with what was left; what was said."""
        said = []
        async with self.opened() as fs:
            ids = {self.id, *(each.id for each in await fs.work())}
            for id in sorted(ids):
                for use in (self._in_session, self._looked_at, self._applied, self._given_up):
                    try:
                        said.append(await use(fs, id))
                    except bailiwick.BailiwickError as error:
                        said.append(error.kind)
            # Whatever was done to one, others are made and brought back.
            result = await fs.exec(shell="echo new > new").result()
            assert [str(each.path) for each in result.changes] == ["new"]
        return said

    @staticmethod
    async def _in_session(fs, id):
        async with await fs.open_session(id) as session:
            execution = session.exec(shell="pwd; cat secret; ls; touch made; rm -f secret")
            said = b"".join([piece.data async for piece in execution])
            await execution.result()
            return said.decode()

    @staticmethod
    async def _looked_at(fs, id):
        async with await fs.open_work(id) as work:
            found = await work.changes()
            return str([(await work.diff(each.path)).text for each in found.changes])

    @staticmethod
    async def _applied(fs, id):
        async with await fs.open_work(id) as work:
            return str(await work.apply(publish="partial"))

    @staticmethod
    async def _given_up(fs, id):
        async with await fs.open_work(id) as work:
            return str(await work.discard())


def _id_leads_out(left):
    there = os.path.relpath(left.outside, os.path.dirname(left.folder))
    left.edit("about.json", lambda found: json.dumps({**json.loads(found), "id": there}).encode())


def _publishing(left):
    """What is said to have been begun reaches for what lies outside."""
    there = f"../{os.path.basename(left.outside)}/secret"
    touch = [there, "deleted", "file", None, None, None, None]
    record = {"touches": [touch], "over": {there: None}, "mark": ["x", "r", None], "size_max": 9}
    with open(f"{left.folder}/publishing", "wb") as file:
        file.write(msgspec.msgpack.encode(record))


def _session_leads_out(left):
    note = {"cwd": f"../{os.path.basename(left.outside)}", "env": {}, "running": []}
    left.edit("session", lambda found: json.dumps(note).encode())


def _damaged(name):
    def change(left):
        with open(f"{left.folder}/{name}", "wb") as file:
            file.write(b"\x93\x01nothing")

    return change


def _other_kind(name, document):
    def change(left):
        with open(f"{left.folder}/{name}", "wb") as file:
            file.write(document)

    return change


def _begun_by_another_name(left):
    _publishing(left)
    _id_leads_out(left)


def _moved_from_outside(left):
    """As overlayfs marks a directory that was moved, which only root believes."""
    prefix = "trusted" if inside.identity() == "operator" else "user"
    there = f"/../{os.path.basename(left.outside)}".encode()
    os.setxattr(f"{left.folder}/upper/d", f"{prefix}.overlay.redirect", there)


def _marked_origin(left):
    directory = f"{left.folder}/upper/d"
    (mark,) = (each for each in os.listxattr(directory) if each.endswith(".redirect"))
    return left.project + os.fsdecode(os.getxattr(directory, mark))


EDITS = {
    "a directory was moved from outside": _moved_from_outside,
    "its id leads out, and it was begun": _begun_by_another_name,
    "its id leads out": _id_leads_out,
    "what is changed leads out": lambda left: left.lead_out("upper"),
    "what is kept leads out": lambda left: left.lead_out("kept"),
    "the mount's own leads out": lambda left: left.lead_out("overlay"),
    "what was begun leads out": _publishing,
    "its directory leads out": _session_leads_out,
    "what was begun is damaged": _damaged("publishing"),
    "what was begun is something else": _other_kind("publishing", msgspec.msgpack.encode([1])),
    "what was found is damaged": _damaged("survey"),
    "how it goes on is damaged": _damaged("session"),
    "how it goes on is something else": _other_kind("session", b'{"env": {"A B": 1}}'),
    "whose it is is damaged": _damaged("about.json"),
}


def edited(how):
    """Whoever edits a record gets a refusal, or what it says within the tree."""
    left = Left()
    try:
        EDITS[how](left)
        said = asyncio.run(left.use())
        assert CANARY not in str(said), said
        assert left.look() == left.was
        assert "internal_error" not in said, said
        held = sorted(os.listdir(left.project))
        assert held in (["a", "new"], ["a", "d", "made", "new"], ["a", "d", "new"]), held
    finally:
        remove(left.arena)


def _read(path):
    with open(path) as file:
        return json.load(file)


def edited_control():
    """The records do lead out, for whoever believes them."""
    for how, there in (
        ("its id leads out", lambda left: os.path.join(
            os.path.dirname(left.folder), _read(f"{left.folder}/about.json")["id"])),
        ("what is changed leads out", lambda left: f"{left.folder}/upper"),
        ("what is kept leads out", lambda left: f"{left.folder}/kept"),
        ("its directory leads out", lambda left: os.path.join(
            left.project, _read(f"{left.folder}/session")["cwd"])),
        ("a directory was moved from outside", _marked_origin),
    ):  # fmt: skip
        left = Left()
        try:
            EDITS[how](left)
            with open(f"{there(left)}/secret") as file:
                assert file.read() == CANARY
        finally:
            remove(left.arena)


# --- sessions ------------------------------------------------------------------------------------


def survivor():
    """Whoever was left behind by a command of a session is gone with it, and has not written."""
    marker = f"marker-{os.getpid()}"
    with sandboxed.place() as where:
        program = sandboxed.PRELUDE + sandboxed.SURVIVOR.format(leave=True, marker=marker)
        words = [sandboxed.PYTHON, "-c", program]

        async def behind():
            place, state = str(where.workshop.lower), f"{where.directory}/state"
            async with bailiwick.open(place, state_dir=state) as fs, fs.session() as session:
                beside = await session.exec(["sleep", "600"], timeout=3600)
                await session.exec(words).result()
                assert sandboxed._running(marker) == []
                seen = session.exec(shell="cat alive; echo; ls /proc | grep -c '^[0-9]*$'")
                told = b"".join([piece.data async for piece in seen]).split()
                assert len(told) == 2
                assert int(told[1]) < 8, "it sees its own processes, not those of others"
                await beside.aclose()
                await session.publish()
            assert sandboxed._running(marker) == []

        asyncio.run(behind())
        subprocess.run(words, cwd=where.outside, preexec_fn=sandboxed.unconfined, check=True)
        left = until_blocking(lambda: sandboxed._running(marker))
        for pid in left:
            os.kill(pid, 9)
        assert left, "the control leaves nobody"


RACING = """
import ctypes, os
libc = ctypes.CDLL(None)
marks = ("trusted.overlay.redirect", "user.overlay.redirect", "user.overlay.opaque")
for turn in range({turns}):
    libc.renameat2(-100, b"one", -100, b"two", 2)
    attempt(lambda: os.rename("one", "three"))
    for mark in marks:
        attempt(lambda: os.setxattr("three", mark, b"/../outside"))
        attempt(lambda: os.setxattr("three", mark, b"../outside"))
    attempt(lambda: os.symlink("../outside", "one"))
    attempt(lambda: os.unlink("one"))
    attempt(lambda: os.rename("three", "one"))
print("done")
"""
"""Directories that are moved to and fro, marked, and for an instant are links."""


def moving_while_it_is_read():
    """A program of a session moves directories while what it changed is looked at; nobody brings
    back meanwhile, and afterwards nothing of what lies outside has come."""
    left = Left()
    try:
        for name in ("one", "two"):
            os.makedirs(f"{left.project}/{name}/within")
            with open(f"{left.project}/{name}/within/file", "w") as file:
                file.write(f"{name}\n")
        program = sandboxed.PRELUDE + RACING.format(turns=1_000)
        said = asyncio.run(_looked_at_while(left, [sandboxed.PYTHON, "-c", program]))
        assert CANARY not in str(said), said
        assert left.look() == left.was
        held = []
        for directory, names, files in os.walk(left.project):
            assert not any(os.path.islink(f"{directory}/{name}") for name in (*names, *files))
            for name in files:
                with open(f"{directory}/{name}") as file:
                    held.append(file.read())
        assert sorted(held) == ["one\n", "one\n", "two\n"]
        _moving_is_followed_by_others(left)
    finally:
        remove(left.arena)


async def _looked_at_while(left, words):
    said = []
    async with left.opened() as fs, fs.session() as session:
        execution = await session.exec(words)
        ending = asyncio.ensure_future(execution.result())
        while not ending.done():
            for look in (session.changes, session.publish):
                try:
                    said.append(await look())
                    assert look == session.changes or ending.done()
                except bailiwick.BailiwickError as error:
                    said.append(error.kind)
        assert "internal_error" not in said, said
        assert (await ending).exit_code == 0
        said.append(await session.publish(publish="partial"))
        await session.discard()
    return said


def _moving_is_followed_by_others(left):
    """The same program beside whoever opens paths comes to show what lies outside."""
    program = sandboxed.PRELUDE + RACING.format(turns=1_000_000)
    with open(f"{left.project}/one/secret", "w") as file:
        file.write("own")
    racing = subprocess.Popen(
        [sandboxed.PYTHON, "-c", program], cwd=left.project, preexec_fn=sandboxed.unconfined
    )

    def follow():
        with contextlib.suppress(OSError), open(f"{left.project}/one/secret") as file:
            return file.read() == CANARY

    try:
        until_blocking(follow)
    finally:
        racing.kill()
        racing.wait()


# --- `bailiwick run` -----------------------------------------------------------------------------

LOOKING = (
    "cat {shared}/link {shared}/box/secret ~/link ~/box/secret; env; cat /proc/*/environ;"
    " echo evil > ~/link; echo evil > ~/box/made; echo evil > {shared}/link; ln {shared}/own ~/hard"
)


def run():
    """What a program is given leads nowhere else, and it has no variable that was not named."""
    with sandboxed.place() as where:
        shared, home = f"{where.directory}/shared", f"{where.directory}/home"
        for directory in (shared, home):
            os.makedirs(directory)
            os.symlink(where.secret, f"{directory}/link")
            os.symlink(where.outside, f"{directory}/box")
        with open(f"{shared}/own", "w") as file:
            file.write("own\n")
        text = LOOKING.format(shared=shared)
        more = {"HOME": home, "TOLD": "told", "XDG_STATE_HOME": f"{where.directory}/state"}
        place = str(where.workshop.lower)
        done = _bailiwick(
            "run", place, "--allow-read", shared, "--home", home, "--env", "TOLD", "--",
            "sh", "-c", text, env=more,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert "TOLD=told" in said, said
        assert not any(secret in said for secret in sandboxed.secrets()), said
        assert where.outside_is_as_it_was()
        assert not os.path.lexists(f"{home}/hard") or os.stat(f"{shared}/own").st_nlink == 1
        with open(f"{shared}/own") as file:
            assert file.read() == "own\n"
        for option in ("--allow-read", "--home"):
            for wrong in (
                place,
                where.directory,
                f"{where.directory}/state",
                f"{place}/..",
                "none",
            ):
                refused = _bailiwick("run", place, option, wrong, "--", "sh", "-c", text, env=more)
                assert refused.returncode == 125, (option, wrong, refused)
                assert refused.stdout == ""
        for wrong in ("A B", "=x", ""):
            refused = _bailiwick("run", place, "--env", wrong, "--", "env", env=more)
            assert refused.returncode in (2, 125), (wrong, refused)
        plain = subprocess.run(
            ["sh", "-c", f"cat {shared}/link ~/box/secret; env"],
            env={**os.environ, **more}, capture_output=True, text=True,
            preexec_fn=sandboxed.unconfined, check=False,
        )  # fmt: skip
        assert all(secret in plain.stdout for secret in sandboxed.secrets())


def _bailiwick(*words, env):
    return subprocess.run(
        [sys.executable, "-m", "bailiwick", *words], env={**os.environ, **env},
        capture_output=True, text=True, timeout=120, check=False, cwd=inside.CHECKOUT,
    )  # fmt: skip
