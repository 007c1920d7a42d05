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

pytestmark = [pytest.mark.spec("OVER-1"), pytest.mark.slow]

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


def shown(fs):
    """What a scope shows, in the same form."""
    found, waiting = {}, ["."]
    for directory in waiting:
        for entry in fs.list(directory).entries:
            path = os.path.normpath(f"{directory}/{entry.name}")
            is_directory = entry.type == "directory"
            found[path] = None if is_directory else fs.read_bytes(path).data
            waiting += [path] if is_directory else []
    return found


class Directory:
    """What the overlay lies over, as a person has it."""

    def __init__(self, top):
        self.path = top / "lower"
        self.path.mkdir()
        self.place = str(self.path)
        self.options = {"durability": "rename"}

    def write(self, name, content):
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_bytes(content)

    def remove(self, name):
        (self.path / name).unlink()

    def tree(self):
        return tree(self.path)

    def close(self):
        pass


class Volume:
    """The same in a file."""

    def __init__(self, top):
        self.place = f"sqlite:{top}/lower.db"
        self.options = {}
        self._opening = bailiwick.open_sync(self.place, state_dir=str(top / "state"))
        self._fs = self._opening.__enter__()

    def write(self, name, content):
        self._fs.write_bytes(name, content, parents=True)

    def remove(self, name):
        try:
            self._fs.remove(name)
        except bailiwick.PathNotFound:
            raise FileNotFoundError(name) from None

    def tree(self):
        return shown(self._fs)

    def close(self):
        self._opening.__exit__(None, None, None)


class OverlayModel(RuleBasedStateMachine):
    """Verbs are done in the overlay and in a plain copy of the tree."""

    lower_kind = Directory

    @initialize()
    def begin(self):
        self.top = Path(tempfile.mkdtemp(prefix="overlay-"))
        self.state, self.copy = self.top / "state", self.top / "copy"
        self.lower = self.lower_kind(self.top)
        for name in ("a", "d/a", "d/e/a", *THEIRS):
            self.lower.write(name, b"at first\n")
        self.copy_anew()
        self.touched = set()
        self.made = set()
        self.theirs = set()
        self.open()

    def open(self):
        self.opening = bailiwick.open_sync(
            f"overlay:{self.lower.place}", state_dir=str(self.state), **self.lower.options
        )
        self.fs = self.opening.__enter__()

    def teardown(self):
        if hasattr(self, "top"):
            self.opening.__exit__(None, None, None)
            self.lower.close()
            shutil.rmtree(self.top)

    def copy_anew(self):
        shutil.rmtree(self.copy, ignore_errors=True)
        self.copy.mkdir()
        for path, content in self.lower.tree().items():
            place = self.copy / path
            if content is None:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)

    def touch(self, path):
        if path not in self.touched and path not in self.lower.tree():
            self.made.add(path)
        self.touched.add(path)

    def leave(self, path):
        """What was made in the overlay alone and is there no more was never touched: what a person
        has put there shows."""
        self.touch(path)
        if path not in self.made:
            return
        self.made.discard(path)
        self.touched.discard(path)
        content = self.lower.tree().get(path)
        if content is not None:
            (self.copy / path).write_bytes(content)

    # --- in the overlay and in the copy -------------------------------------------------------

    @rule(path=NAMES, content=CONTENT)
    def write(self, path, content):
        try:
            self.fs.write_bytes(path, content)
        except bailiwick.BailiwickError:
            return
        self.touch(path)
        (self.copy / path).write_bytes(content)

    @rule(path=NAMES)
    def make_dir(self, path):
        try:
            self.fs.make_dir(path)
        except bailiwick.BailiwickError:
            return
        self.touch(path)
        (self.copy / path).mkdir()

    @rule(path=NAMES)
    def remove(self, path):
        try:
            self.fs.remove(path, recursive=True)
        except bailiwick.BailiwickError:
            return
        place = self.copy / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        self.leave(path)

    @rule(source=NAMES, destination=NAMES)
    def move(self, source, destination):
        try:
            self.fs.move(source, destination)
        except bailiwick.BailiwickError:
            return
        if source != destination:
            (self.copy / source).rename(self.copy / destination)
            self.touch(destination)
            self.leave(source)

    # --- a person -----------------------------------------------------------------------------

    @rule(name=st.sampled_from(THEIRS), content=CONTENT)
    def a_person_writes(self, name, content):
        if self.lower.tree().get(name, b"") is None:
            return
        self.lower.write(name, b"theirs: " + content)
        self.theirs.add(name)
        if name not in self.touched:
            (self.copy / name).write_bytes(b"theirs: " + content)

    @rule(name=st.sampled_from(THEIRS))
    def a_person_removes(self, name):
        if self.lower.tree().get(name, b"") is None:
            return
        with suppress(FileNotFoundError):
            self.lower.remove(name)
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
        before, wanted = self.lower.tree(), tree(self.copy)
        told = {str(each.path) for each in self.fs.changes().conflicts}
        result = self.fs.apply(publish="partial", merge=False)
        conflicts = {str(each.path) for each in result.conflicts}
        assert conflicts == told <= self.theirs
        beneath = {str(each.path) for each in result.withheld}
        assert all(path.partition("/")[0] in conflicts for path in beneath)
        left = conflicts | beneath
        found = self.lower.tree()
        for path in before.keys() | wanted.keys() | found.keys():
            if path in left:
                assert found.get(path, 0) == before.get(path, 0), path
            else:
                assert found.get(path, 0) == wanted.get(path, 0), path
        self.touched &= left
        self.made &= left
        self.theirs &= conflicts

    @rule()
    def discard(self):
        self.fs.discard()
        assert self.fs.changes().changes == []
        self.copy_anew()
        self.touched.clear()
        self.made.clear()
        self.theirs.clear()

    @invariant()
    def it_shows_what_the_copy_has(self):
        if hasattr(self, "fs"):
            assert shown(self.fs) == tree(self.copy)


class VolumeOverlayModel(OverlayModel):
    """The same over a volume."""

    lower_kind = Volume


OverlayModel.TestCase.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, phases=PHASES
)
VolumeOverlayModel.TestCase.settings = settings(OverlayModel.TestCase.settings, max_examples=15)
TestOverlayModel = OverlayModel.TestCase
TestVolumeOverlayModel = VolumeOverlayModel.TestCase


@pytest.fixture(params=[OverlayModel, VolumeOverlayModel])
def model(request):
    model = request.param()
    model.begin()
    yield model
    model.teardown()


def test_what_was_new_and_is_removed_hides_nothing_after_others_were_applied(model):
    model.a_person_removes("p0")
    model.write("p0", b"one\n")
    model.a_person_writes("p0", b"")
    model.remove("d/a")
    model.apply()
    model.remove("p0")
    model.it_shows_what_the_copy_has()
    assert model.fs.read_bytes("p0").data == b"theirs: "


def test_what_was_removed_stays_so_after_others_were_applied(model):
    model.write("p0", b"one\n")
    model.a_person_removes("p0")
    model.remove("d/a")
    model.apply()
    model.remove("p0")
    model.a_person_writes("p0", b"")
    model.it_shows_what_the_copy_has()
    assert not model.fs.exists("p0")
    model.apply()


def test_what_comes_in_a_directory_waits_where_a_person_has_its_place(model):
    model.write("d/e/a", b"one\n")
    model.remove("p0")
    model.a_person_writes("p0", b"")
    model.move("d/e", "p0")
    model.apply()
    model.it_shows_what_the_copy_has()
    assert model.fs.read_bytes("p0/a").data == b"one\n"
    assert model.lower.tree()["p0"] == b"theirs: "
    model.a_person_removes("p0")
    model.it_shows_what_the_copy_has()
