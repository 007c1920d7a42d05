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
    root = tmp_path / "root"
    root.mkdir()
    program = [sys.executable, "-c", TRIAL, str(root), str(tmp_path / "state"), sandbox, command]
    alone = ["unshare", "--mount", "--propagation", "private", *program]
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [changes, conflicts, left]
