"""What a program left is told as what it changed, and hostile leavings as what they are."""

import json
import os
import shutil
import stat
import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from bailiwick.sandboxes.uppers import open_left
from tests.sandboxes.steps import PROGRAM, STEPS, pictured, taken
from tests.sandboxes.workshop import Workshop, opened


def told(workshop, **options):
    return {(change.path, change.kind) for change in workshop.changes(**options)}


@pytest.mark.spec("EXEC-9")
async def test_every_kind_of_change_is_told(workshop):
    workshop.plant({"f": "x", "d/a": "x", "d/b": "x", "r/old": "x", "t": "x", "l": "x", "m/k": "x"})
    (workshop.lower / "s").symlink_to("f")
    await workshop.shell(
        "echo y > f; rm d/a; rm -r r; mkdir r; echo n > r/new; rm t; mkdir t; touch t/in;"
        " rm l; ln -s d l; ln -sfn d s; chmod 700 m; mkdir -p new/deep; mkfifo pipe; ln f hard;"
        ' touch "$(printf "odd\\n\\377")"'
    )
    assert told(workshop) == {
        ("f", "file_changed"), ("hard", "file_created"),
        ("d/a", "removed"),
        ("r", "directory_replaced"), ("r/new", "file_created"),
        ("t", "removed"), ("t", "directory_created"), ("t/in", "file_created"),
        ("l", "removed"), ("l", "symlink_created"),
        ("s", "symlink_changed"),
        ("m", "directory_changed"),
        ("new", "directory_created"), ("new/deep", "directory_created"),
        ("pipe", "special_dropped"),
        ("odd\n\udcff", "file_created"),
    }  # fmt: skip
    targets = {change.path: change.target for change in workshop.changes() if change.target}
    assert targets == {"l": "d", "s": "d"}


@pytest.mark.spec("EXEC-9")
async def test_a_directory_that_was_renamed_has_moved_where_the_kernel_tells(workshop):
    workshop.plant({"old/a": "x", "old/sub/b": "x", "stay/c": "x"})
    await workshop.shell("mv old new; mv new/sub stay/sub; echo y > stay/sub/b; mv stay stood")
    moves = {change.path: change.moved_from for change in workshop.changes() if change.moved_from}
    if os.getuid() != 0:
        assert moves == {}
        return
    assert moves == {"new": "old", "stood": "stay", "stood/sub": "old/sub"}
    assert told(workshop) == {
        ("new", "directory_created"), ("new/sub", "removed"), ("old", "removed"),
        ("stay", "removed"), ("stood", "directory_created"), ("stood/sub", "directory_created"),
        ("stood/sub/b", "file_changed"),
    }  # fmt: skip


@pytest.mark.spec("EXEC-9")
async def test_a_program_cannot_mark_what_the_kernel_marks(workshop):
    """Nor does it see marks: overlayfs keeps its own attributes to itself."""
    workshop.plant({"d/a": "x"})
    program = """
import os
for prefix in ("trusted.overlay.", "user.overlay."):
    for name in ("opaque", "redirect", "whiteout", "metacopy"):
        for path in ("d", "new"):
            os.makedirs(path, exist_ok=True)
            try: os.setxattr(path, prefix + name, b"y")
            except OSError: pass
"""
    assert (await workshop.run("/usr/bin/python3", "-c", program)).err == ""
    assert told(workshop) == {("new", "directory_created")}
    assert (await workshop.shell("ls d")).out == "a\n"


@pytest.mark.spec("EXEC-9")
async def test_hostile_leavings_are_told_and_never_followed(workshop, tmp_path):
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "file").write_text("secret")
    await workshop.shell(
        f"ln -s {secret} out; ln -s / root; ln -s loop loop; mkdir shut; touch shut/in;"
        " chmod 000 shut; echo text > mute; chmod 000 mute; truncate -s 900M sparse;"
        " touch -- -rf ' ' '*'; i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done"
    )
    changes = workshop.changes(depth_max=100)
    by_path = {change.path: change for change in changes}
    assert not any("secret" in path or "file" in path for path in by_path)
    assert by_path["out"].kind == by_path["root"].kind == "symlink_created"
    assert by_path["shut"].mode == 0
    assert by_path["shut/in"].kind == "file_created"
    assert by_path["sparse"].size == 900 * 2**20
    assert {"-rf", " ", "*", "loop"} <= by_path.keys()
    deepest = "/".join(["d"] * 100)
    assert by_path[deepest].kind == "too_deep"
    assert len([path for path in by_path if path.endswith("d")]) == 100
    assert stat.S_IMODE((workshop.upper / "shut").stat().st_mode) == 0
    with opened(workshop.upper) as upper:
        with open(open_left(upper, "mute"), "rb") as file:
            assert file.read() == b"text\n"
        for name in ("out", "out/file", "root", "shut", "no"):
            with pytest.raises((FileNotFoundError, NotADirectoryError)):
                open_left(upper, name)


@pytest.mark.spec("EXEC-9")
@pytest.mark.slow
async def test_many_files_and_only_what_was_touched(workshop):
    for number in range(200):
        (workshop.lower / f"d{number}").mkdir()
        for inner in range(50):
            (workshop.lower / f"d{number}/{inner}").touch()
    await workshop.shell("mkdir many; cd many; seq 1 100000 | xargs touch; rm ../d7/3")
    changes = workshop.changes()
    assert len(changes) == 100_002
    assert changes[0].path == "d7/3"


# --- against a model -----------------------------------------------------------------------------


def bring_back(workshop):
    """Do to the lower tree what is told of the upper one, as a publisher would."""
    origin = workshop.lower.parent / "origin"
    shutil.copytree(workshop.lower, origin, symlinks=True)
    with opened(workshop.upper) as upper:
        for change in workshop.changes():
            _apply(change, workshop.lower / change.path, origin, upper)
    shutil.rmtree(origin)


def _apply(change, path, origin, upper):
    if change.kind in ("removed", "directory_replaced", "symlink_changed"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    if change.moved_from is not None:
        shutil.copytree(origin / change.moved_from, path, symlinks=True)
        os.chmod(path, change.mode)
    elif change.kind in ("directory_created", "directory_replaced"):
        path.mkdir()
        os.chmod(path, change.mode)
    elif change.kind == "directory_changed":
        os.chmod(path, change.mode)
    elif change.kind.startswith("file"):
        with open(open_left(upper, change.path), "rb") as file:
            path.write_bytes(file.read())
        os.chmod(path, change.mode)
    elif change.kind.startswith("symlink"):
        path.symlink_to(change.target)


@pytest.mark.spec("EXEC-9")
@pytest.mark.slow
@hypothesis.settings(
    max_examples=30, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(
    planted=st.lists(STEPS, max_size=8),
    first=st.lists(STEPS, min_size=1, max_size=10),
    second=st.lists(STEPS, max_size=6),
)
async def test_whatever_is_done_is_told_so_that_it_can_be_done_again(
    tmp_path_factory, bubblewrap, planted, first, second
):
    """The tree with what was told brought back is the tree that the program saw at its end."""
    directory = tmp_path_factory.mktemp("model")
    workshop = Workshop(directory, bubblewrap)
    seen = directory / "seen"

    taken(planted, workshop.lower)
    shutil.copytree(workshop.lower, seen, symlinks=True)
    for steps in (first, second):
        taken(steps, seen)
        data = json.dumps(steps).encode()
        said = await workshop.run("/usr/bin/python3", "-c", PROGRAM, stdin=data)
        assert said.err == ""
    bring_back(workshop)
    assert pictured(workshop.lower) == pictured(seen)
    workshop.clear()
    shutil.rmtree(directory)


LOOKING = """
import os, sys
from bailiwick.sandboxes.uppers import open_left, parent_left, touched
upper, lower = (os.open(each, os.O_RDONLY) for each in sys.argv[1:])
print(sorted(each.path for each in touched(upper, lower)))
print(os.read(open_left(upper, "shut/in/f"), 9))
with parent_left(upper, "shut/in/f") as (parent, name):
    os.unlink(name, dir_fd=parent)
"""


@pytest.mark.spec("EXEC-9")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing takes capabilities away")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has them")
@pytest.mark.parametrize("powers", ["all", "none"])
def test_what_lies_in_shut_directories_is_told_to_root_without_its_powers(tmp_path, powers):
    """As in a container that was given none of them."""
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    (upper / "shut" / "in").mkdir(parents=True)
    lower.mkdir()
    (upper / "shut" / "in" / "f").write_text("left")
    for each in (upper / "shut" / "in", upper / "shut"):
        each.chmod(0)
    words = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if powers == "none" else []
    words += [sys.executable, "-c", LOOKING, str(upper), str(lower)]
    said = subprocess.run(words, capture_output=True, check=False, text=True)
    assert said.stdout == "['shut', 'shut/in', 'shut/in/f']\nb'left'\n", said.stderr
    for each in (upper / "shut", upper / "shut" / "in"):
        assert stat.S_IMODE(each.stat().st_mode) == 0
    assert os.listdir(upper / "shut" / "in") == []
