"""What a machine lacks is said in words, with what to do."""

import shutil

import pytest

from bailiwick.errors import IoError, ParseError, Unsupported
from bailiwick.sandbox import CommandLimits, Invocation, Tree, View
from bailiwick.sandboxes import launch, seccomp
from bailiwick.sandboxes.bubblewrap import Bubblewrap


def fatal(sandbox):
    (lack,) = sandbox.missing()
    assert lack.fatal
    return lack


@pytest.mark.spec("EXEC-5")
async def test_without_bubblewrap_it_is_unsupported_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox = Bubblewrap()
    lack = fatal(sandbox)
    assert "apt install bubblewrap" in lack.remedy
    view = View(trees=(Tree(place="/work", lower=str(tmp_path)),))
    for attempt in (sandbox.start(Invocation(argv=("true",)), view), sandbox.open(view)):
        with pytest.raises(Unsupported) as caught:
            await attempt
        assert caught.value.hint == lack.remedy
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("EXEC-5")
async def test_on_an_unknown_processor_it_is_unsupported(monkeypatch):
    monkeypatch.setattr(seccomp, "ARCHITECTURES", frozenset(["other"]))
    assert "other" in fatal(Bubblewrap()).remedy


@pytest.mark.spec("EXEC-5")
async def test_a_bubblewrap_that_fails_says_why(workshop):
    sandbox = Bubblewrap(program="/usr/bin/false")
    assert "it said nothing" in fatal(sandbox).what
    workshop.sandbox = sandbox
    with pytest.raises(Unsupported):
        await workshop.start("true")
    said = launch.failure(b"", b"bwrap: Creating new namespace failed\n", CommandLimits())
    assert "Creating new namespace failed" in said.message
    assert "max_user_namespaces" in (said.hint or "")


@pytest.mark.parametrize(
    ("said", "kind", "word"),
    [
        (b"!namespaces 1", "unsupported", "namespaces"),
        (b"!proc 1", "unsupported", "/proc"),
        (b"!overlay 22", "unsupported", "overlaid"),
        (b"!open 2", "path_not_found", "not there"),
        (b"!open 116", "path_not_found", "not there"),
        (b"!start 7", "parse_error", "too long"),
        (b"!cgroup 13", "io_error", "cgroup"),
        (b"!mount 28", "io_error", "No space left"),
        (b"!", "io_error", ""),
    ],
)
def test_each_step_that_fails_has_its_words(said, kind, word):
    error = launch.failure(said, b"", CommandLimits())
    assert error.kind == kind
    assert word in error.message


@pytest.mark.spec("EXEC-3", "EXEC-5")
@pytest.mark.parametrize(
    "name", ["memory_bytes_max", "address_space_bytes_max", "scratch_bytes_max"]
)
async def test_limits_that_leave_no_room_to_start_are_told_as_such(workshop, name):
    """The machine lacks nothing: it is no sandbox that has to be installed."""
    with pytest.raises(ParseError) as caught:
        await workshop.start("true", limits=CommandLimits(**{name: 1}))
    assert caught.value.message.endswith(f"no room for it to start: {name} 1")
    enough = caught.value.details["enough"]
    assert caught.value.hint == f"enough is {name} {enough[name]}"
    assert (await workshop.run("true", limits=CommandLimits(**enough))).code == 0


@pytest.mark.spec("EXEC-5")
async def test_a_view_for_several_commands_that_has_no_room_is_told_as_such(workshop):
    with pytest.raises(ParseError, match="no room for it to start: scratch_bytes_max 1"):
        await workshop.sandbox.open(workshop.view(), limits=CommandLimits(scratch_bytes_max=1))


@pytest.mark.spec("EXEC-5")
def test_without_a_cgroup_the_memory_of_the_whole_is_said_not_to_be_limited(bubblewrap):
    lacks = bubblewrap.missing()
    assert not any(lack.fatal for lack in lacks)
    assert "memory" in lacks[0].what


@pytest.mark.spec("EXEC-5")
async def test_a_cgroup_that_is_given_holds_the_command(workshop, tmp_path, monkeypatch):
    """A directory stands for it, with what the kernel would put there."""

    def make(path):
        path.mkdir()
        for name in ("cgroup.procs", "memory.max", "memory.swap.max", "pids.max"):
            (path / name).touch()

    monkeypatch.setattr(launch, "make_cgroup", make)
    cgroup = tmp_path / "cgroup"
    cgroup.mkdir()
    workshop.sandbox = Bubblewrap(cgroup=cgroup)
    assert workshop.sandbox.missing() == ()
    for tried in cgroup.iterdir():
        shutil.rmtree(tried)
    limits = CommandLimits(memory_bytes_max=2**30, processes_max=30)
    assert (await workshop.run("true", limits=limits)).code == 0
    (made,) = cgroup.iterdir()
    assert {path.name: path.read_text() for path in made.iterdir()} == {
        "memory.max": str(2**30), "memory.swap.max": "0", "pids.max": "33", "cgroup.procs": "0",
    }  # fmt: skip


@pytest.mark.spec("EXEC-5")
async def test_a_cgroup_that_is_not_ours_is_said(workshop, tmp_path):
    workshop.sandbox = Bubblewrap(cgroup=tmp_path / "none")
    assert fatal(workshop.sandbox)
    with pytest.raises(IoError):
        await workshop.run("true")
