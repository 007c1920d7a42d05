"""Programs in a tree in which another filesystem is mounted: they do not see it, and what they do
there replaces and removes nothing of it."""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.spec("EXEC-8", "TREE-11"),
    pytest.mark.usefixtures("needs_bubblewrap"),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts something"),
]

TRIAL = """
import asyncio, os, pathlib, subprocess, sys
import bailiwick

root, state, sandbox, command = sys.argv[1:]
inside = pathlib.Path(root, "d/m")
inside.mkdir(parents=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", inside], check=True)
(inside / "f").write_text("theirs\\n")
(inside / "sub").mkdir()
(inside / "sub/g").write_text("theirs\\n")

async def main():
    share = bailiwick.HostShare(sandbox=sandbox)
    async with bailiwick.open(root, state_dir=state, commands=share) as fs:
        result = await fs.exec(["/bin/sh", "-c", command]).result()
        assert result.exit_code == 0, result
        print(*sorted(each.path for each in result.changes))
        print(*sorted(each.path for each in result.conflicts))
    assert oct(inside.stat().st_mode) == "0o41777"
    assert (inside / "f").read_text() == "theirs\\n"
    assert (inside / "sub/g").read_text() == "theirs\\n"
    print(*sorted(os.listdir(inside / "sub")))

asyncio.run(main())
"""


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
@pytest.mark.parametrize(
    ("command", "changes", "conflicts", "left"),
    [
        ("test ! -e d/m/f && echo more >> d/m/f", "", "d/m/f", "g"),
        ("mkdir d/m/sub && echo new > d/m/sub/new", "d/m/sub/new", "", "g new"),
        ("rm -r d/m", "", "d/m", "g"),
        ("chmod 700 d/m", "", "", "g"),
    ],
)
def test_what_is_mounted_stays(tmp_path, sandbox, command, changes, conflicts, left):
    assert _trial(TRIAL, tmp_path, sandbox, command) == [changes, conflicts, left]


def _trial(text, tmp_path, sandbox, command):
    root = tmp_path / "root"
    root.mkdir()
    program = [sys.executable, "-c", text, str(root), str(tmp_path / "state"), sandbox, command]
    alone = ["unshare", "--mount", "--propagation", "private", *program]
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


MEANWHILE = """
import asyncio, os, pathlib, subprocess, sys
import bailiwick

root, state, sandbox, command = sys.argv[1:]
inside = pathlib.Path(root, "d/m")
(inside / "sub").mkdir(parents=True)
for name in ("f", "sub/g", "only"):
    (inside / name).write_text("beneath\\n")
outside = pathlib.Path(root, "o")
outside.write_text("old\\n")

def pictured():
    return {
        str(x.relative_to(inside)): (oct(x.stat().st_mode), x.read_text() if x.is_file() else "")
        for x in [inside, *inside.rglob("*")]
    }

async def main():
    share = bailiwick.HostShare(sandbox=sandbox)
    async with bailiwick.open(root, state_dir=state, commands=share) as fs:
        ready = "cat d/m/f; read go;"
        words = ["/bin/sh", "-c", ready + command + "; echo new > o"]
        execution = await fs.exec(words, stdin="pipe", publish="partial")
        async for piece in execution:
            if piece.data == b"beneath\\n":
                how = ["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", inside]
                subprocess.run(how, check=True)
                (inside / "f").write_text("theirs\\n")
                (inside / "sub").mkdir()
                was = pictured()
                await execution.write(b"go\\n")
        result = await execution.result()
        assert result.exit_code == 0, result
        print(*sorted(each.path for each in result.changes))
        print(*sorted(each.path for each in (*result.conflicts, *result.withheld)))
    assert pictured() == was, pictured()
    assert outside.read_text() == "new\\n"
    subprocess.run(["umount", inside], check=True)
    print(*sorted(str(x.relative_to(inside)) for x in inside.rglob("*")))

asyncio.run(main())
"""


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo more >> d/m/f", "d/m/f"),
        ("rm d/m/f d/m/only", "d/m/f d/m/only"),
        ("rm -r d/m/sub", "d/m/sub"),
        ("chmod 700 d/m/sub", "d/m/sub"),
        ("chmod 700 d/m", "d/m"),
        ("echo new > d/m/new", "d/m/new"),
        ("rm -r d", "d d/m d/m/f d/m/only d/m/sub d/m/sub/g"),
    ],
)
def test_so_does_what_is_mounted_while_a_command_runs(tmp_path, sandbox, command, told):
    """What the program saw lies beneath it, and stays there too."""
    done = _trial(MEANWHILE, tmp_path, sandbox, command)
    assert done == ["o", told, "f only sub sub/g"]


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
def test_nothing_of_it_is_taken_for_what_was_moved(tmp_path, sandbox):
    changes, told, left = _trial(MEANWHILE, tmp_path, sandbox, "mv d e")
    copied = {"e", "e/m", "e/m/f", "e/m/only", "e/m/sub", "e/m/sub/g"}
    assert set(changes.split()) - copied == {"o"}
    assert {"d/m/f", "d/m/only", "d/m/sub", "d/m/sub/g"} <= set(told.split())
    assert left == "f only sub sub/g"
    for each in (tmp_path / "root").glob("e/m/*"):
        assert each.is_dir() or each.read_text() == "beneath\n"
