"""Steps that a program takes in a tree, at random, and what the tree is then."""

import json
import os
import stat
import subprocess
import sys

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from(["1", "22"])),
    st.tuples(st.just("remove"), PATHS, st.just("")),
    st.tuples(st.just("mkdir"), PATHS, st.just("")),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("replace"), PATHS, PATHS),
    st.tuples(st.just("link"), PATHS, st.just("a")),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from(["700", "755"])),
)
PROGRAM = """
import json, os, shutil, sys
def remove(path):
    if os.path.isdir(path) and not os.path.islink(path): shutil.rmtree(path)
    else: os.unlink(path)
for verb, path, other in json.load(sys.stdin):
    try:
        if verb == "write": open(path, "w").write(other)
        elif verb == "mkdir": os.makedirs(path)
        elif verb == "link": os.symlink(other, path)
        elif verb == "chmod": os.chmod(path, int(other, 8), follow_symlinks=True)
        elif verb == "move": shutil.move(path, other)
        elif verb == "remove": remove(path)
        elif os.path.lexists(path) and not (path + "/").startswith(other + "/"):
            if os.path.lexists(other): remove(other)
            os.rename(path, other)
    except (OSError, shutil.Error, RecursionError): pass
"""


def pictured(directory):
    """Each path with what it is, links as links."""
    found = {}
    for at, names, files in os.walk(directory):
        for name in [*names, *files]:
            path = os.path.join(at, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                what = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                what = ("directory", stat.S_IMODE(status.st_mode))
            else:
                with open(path) as file:
                    what = ("file", stat.S_IMODE(status.st_mode), file.read())
            found[os.path.relpath(path, directory)] = what
    return found


TREES = [
    ("mkdir", "a/b", ""), ("write", "a/a", "1"), ("write", "a/b/c", "22"),
    ("mkdir", "b/a", ""), ("write", "b/a/c", "1"), ("write", "b/b", "22"), ("link", "b/c", "a"),
    ("mkdir", "c/b/a", ""), ("write", "c/b/c", "333"), ("link", "c/a", "b"),
]  # fmt: skip
"""Steps to a tree with enough in it that something is always in the way."""


def taken(steps, where):
    """The same without any sandbox."""
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM], input=json.dumps(steps), text=True, cwd=where,
        check=True, umask=0o022,
    )  # fmt: skip
