"""An overlay against a model, a copy of the tree, while a person changes what lies below."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import bailiwick

pytestmark = pytest.mark.spec("OVER-1")

THEIRS = ["p0", "p1", "p2"]
"""Files that a person changes, too."""

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/a", "f", "f/a", *THEIRS])
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""A run touches a disk: to make a failing one shorter takes minutes, and says little more."""

CONTENT = st.sampled_from([b"one\n", b"two\n", b"", b"a longer one\nwith two lines\n"])


def tree(top):
    """What stands in a directory: content, None for a directory."""
    found = {}
    for place, directories, files in os.walk(top):
        inside = os.path.relpath(place, top)
        for name in directories:
            found[os.path.normpath(os.path.join(inside, name))] = None
        for name in files:
            path = Path(place) / name
            found[os.path.normpath(os.path.join(inside, name))] = path.read_bytes()
    return found


class OverlayModel(RuleBasedStateMachine):
    """Verbs are done in the overlay and in a plain copy of the tree."""

    @initialize()
    def begin(self):
        self.top = Path(tempfile.mkdtemp(prefix="overlay-"))
        self.lower, self.state, self.copy = (self.top / x for x in ("lower", "state", "copy"))
        (self.lower / "d" / "e").mkdir(parents=True)
        for name in ("a", "d/a", "d/e/a", *THEIRS):
            (self.lower / name).write_bytes(b"at first\n")
        shutil.copytree(self.lower, self.copy)
        self.touched = set()
        self.theirs = set()
        self.open()

    def open(self):
        place = f"overlay:{self.lower}"
        options = {"state_dir": str(self.state), "durability": "rename"}
        self.opening = bailiwick.open_sync(place, **options)
        self.fs = self.opening.__enter__()

    def teardown(self):
        if hasattr(self, "top"):
            self.opening.__exit__(None, None, None)
            shutil.rmtree(self.top)

    # --- in the overlay and in the copy -------------------------------------------------------

    @rule(path=NAMES, content=CONTENT)
    def write(self, path, content):
        try:
            self.fs.write_bytes(path, content)
        except bailiwick.BailiwickError:
            return
        self.touched.add(path)
        (self.copy / path).write_bytes(content)

    @rule(path=NAMES)
    def make_dir(self, path):
        try:
            self.fs.make_dir(path)
        except bailiwick.BailiwickError:
            return
        self.touched.add(path)
        (self.copy / path).mkdir()

    @rule(path=NAMES)
    def remove(self, path):
        try:
            self.fs.remove(path, recursive=True)
        except bailiwick.BailiwickError:
            return
        self.touched.add(path)
        place = self.copy / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    @rule(source=NAMES, destination=NAMES)
    def move(self, source, destination):
        try:
            self.fs.move(source, destination)
        except bailiwick.BailiwickError:
            return
        if source != destination:
            self.touched |= {source, destination}
            (self.copy / source).rename(self.copy / destination)

    # --- a person -----------------------------------------------------------------------------

    @rule(name=st.sampled_from(THEIRS), content=CONTENT)
    def a_person_writes(self, name, content):
        if (self.lower / name).is_dir():
            return
        (self.lower / name).write_bytes(b"theirs: " + content)
        self.theirs.add(name)
        if name not in self.touched:
            (self.copy / name).write_bytes(b"theirs: " + content)

    @rule(name=st.sampled_from(THEIRS))
    def a_person_removes(self, name):
        if (self.lower / name).is_dir():
            return
        with suppress(FileNotFoundError):
            (self.lower / name).unlink()
            self.theirs.add(name)
        if name not in self.touched:
            with suppress(FileNotFoundError):
                (self.copy / name).unlink()

    # --- what becomes of it -------------------------------------------------------------------

    @rule()
    def restart(self):
        self.opening.__exit__(None, None, None)
        self.open()

    @rule()
    def apply(self):
        before, wanted = tree(self.lower), tree(self.copy)
        shown = {str(each.path) for each in self.fs.changes().conflicts}
        result = self.fs.apply(publish="partial", merge=False)
        conflicts = {str(each.path) for each in result.conflicts}
        assert conflicts == shown <= self.theirs
        assert not result.withheld
        found = tree(self.lower)
        for path in before.keys() | wanted.keys() | found.keys():
            if path in conflicts:
                assert found.get(path, 0) == before.get(path, 0), path
            else:
                assert found.get(path, 0) == wanted.get(path, 0), path
        self.touched &= conflicts
        self.theirs &= conflicts

    @rule()
    def discard(self):
        self.fs.discard()
        assert self.fs.changes().changes == []
        shutil.rmtree(self.copy)
        shutil.copytree(self.lower, self.copy)
        self.touched.clear()
        self.theirs.clear()

    @invariant()
    def it_shows_what_the_copy_has(self):
        if not hasattr(self, "fs"):
            return
        found, waiting = {}, ["."]
        for directory in waiting:
            for entry in self.fs.list(directory).entries:
                path = os.path.normpath(f"{directory}/{entry.name}")
                is_directory = entry.type == "directory"
                found[path] = None if is_directory else self.fs.read_bytes(path).data
                waiting += [path] if is_directory else []
        assert found == tree(self.copy)


OverlayModel.TestCase.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, phases=PHASES
)
TestOverlayModel = OverlayModel.TestCase
