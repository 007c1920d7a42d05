"""One directory, one past: however it is spelled, wherever it was moved, whoever works in it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import bailiwick
from bailiwick.build import homes
from bailiwick.build.homes import Homes, identity_of, readable_key, spelled_key
from bailiwick.build.served import named_places, state_for
from tests.fronts.cli.places import Typed

pytestmark = [pytest.mark.spec("PAST-1"), pytest.mark.slow]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's own state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "bailiwick"


@pytest.fixture
def project(own, tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    return place


def kept(directory, *, making=True):
    return Homes().kept(str(directory), making=making)[:2]


def state_of(*places):
    return state_for(named_places(map(str, places)))


def test_a_directory_is_known_however_it_is_spelled(project, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(project)
    (project / "sub").mkdir()
    monkeypatch.chdir(project)
    first = kept(project)
    for spelled in (tmp_path / "link", f"{project}/", ".", "sub/..", f"{tmp_path}//project"):
        assert kept(spelled) == first
        assert kept(spelled, making=False) == first
        assert state_of(spelled) == state_of(project)
    assert kept(project / "sub") != first


def test_a_bind_mount_is_the_same_directory(project, tmp_path):
    (tmp_path / "mounted").mkdir()
    program = (
        "import sys; from bailiwick.build.homes import Homes\n"
        "print(*Homes().kept(sys.argv[1], making=True)[:2])"
    )
    mounting = f'mount --bind "{project}" "{tmp_path}/mounted" || exit 77; exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounting, "sh", sys.executable, "-c", program,
         str(tmp_path / "mounted")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode in (1, 77) and "Traceback" not in done.stderr:
        pytest.skip("nothing can be mounted here")
    assert tuple(done.stdout.split()) == kept(project), done.stderr


def test_a_moved_directory_is_found_again_and_another_in_its_place_is_not(project, tmp_path):
    first = kept(project), state_of(project)
    if not identity_of(str(project)).born_ns:
        pytest.skip("this filesystem does not tell when a directory was made")
    project.rename(tmp_path / "elsewhere")
    project.mkdir()
    assert kept(project) != first[0]
    assert state_of(project) != first[1]
    assert (kept(tmp_path / "elsewhere"), state_of(tmp_path / "elsewhere")) == first
    # It is called what it was called: grants and answers name it so.
    assert list(named_places([str(tmp_path / "elsewhere")])) == ["workspace:project"]


def test_a_directory_that_was_made_anew_has_no_past(project):
    """Also where the filesystem gives it the number of the one that is gone."""
    if not identity_of(str(project)).born_ns:
        pytest.skip("this filesystem does not tell when a directory was made")
    seen = set()
    for _ in range(5):
        seen.add(kept(project))
        project.rmdir()
        project.mkdir()
    assert len(seen) == 5


def test_where_nobody_knows_when_it_was_made_the_path_counts(project, tmp_path, monkeypatch):
    monkeypatch.setattr(homes, "_born_ns", lambda descriptor: 0)
    first = kept(project)
    assert kept(f"{project}/") == first
    project.rename(tmp_path / "elsewhere")
    assert kept(tmp_path / "elsewhere") != first


def test_a_copy_of_a_filesystem_is_another_and_a_restart_is_none(project, monkeypatch):
    first, seen = kept(project), identity_of(str(project))
    monkeypatch.setattr(homes, "identity_of", lambda path: seen._replace(device=seen.device + 1))
    assert kept(project) == first, "the device has another number since the machine was started"
    other = project.parent / "copy"
    other.mkdir()
    monkeypatch.setattr(homes, "identity_of", lambda path: seen._replace(device=seen.device + 2))
    assert kept(other) != first
    assert kept(other) == kept(other)


def test_what_was_kept_by_path_is_used_and_by_nobody_else(project, own, tmp_path):
    """A state and a history of before directories had records."""
    served = own / "serve" / readable_key(f"{project}/.")
    (served / "history" / spelled_key(str(project))).mkdir(parents=True)
    assert state_of(project) == str(served)
    assert kept(project) == (str(served), spelled_key(str(project)))
    project.rename(tmp_path / "elsewhere")
    project.mkdir()
    assert state_of(project) != str(served)
    assert state_of(tmp_path / "elsewhere") == str(served)
    assert kept(tmp_path / "elsewhere") == (str(served), spelled_key(str(project)))


@pytest.mark.parametrize("part", ["history", "work"])
def test_what_commands_kept_by_path_is_used(project, own, part):
    (own / part / spelled_key(str(project))).mkdir(parents=True)
    assert kept(project) == (str(own), spelled_key(str(project)))


def test_a_configuration_goes_on_with_the_state_that_it_had(project, own):
    file = project / "bailiwick.toml"
    file.write_text('[[root]]\nkind = "workspace"\nid = "demo"\npath = "."\n')
    before = own / "authority" / readable_key(str(file))
    before.mkdir(parents=True)
    assert configured(file) == str(before)
    assert state_of(project) == str(before)


def configured(file):
    from bailiwick.build.configured import read_source, state_directory

    return state_directory(read_source(str(file)), None)


def test_a_configuration_and_none_share_the_state_of_a_directory(project):
    first = state_of(project)
    file = project / "bailiwick.toml"
    file.write_text('[[root]]\nkind = "workspace"\nid = "demo"\npath = "."\n')
    assert configured(file) == first
    # Its configuration says what a root is called, from then on for all.
    assert list(named_places([str(project)])) == ["workspace:demo"]


def test_directories_that_are_served_together_share_a_state(project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    together = state_of(project, other)
    assert state_of(other) == state_of(project) == state_of(other, project) == together
    assert kept(other) != kept(project)


def test_a_volume_is_known_by_its_file(own, tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    here = state_of("sqlite:agent.db")
    assert here == state_of(f"sqlite:{tmp_path}/one/agent.db")
    monkeypatch.chdir(tmp_path / "two")
    assert state_of("sqlite:agent.db") != here


def test_all_who_come_at_once_make_one_record(project, own):
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(kept, [project] * 32))) == 1
    assert len(list(own.glob("places/*.json"))) == 1


def test_names_that_are_no_text_are_kept(project, tmp_path):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff odd%41")
    os.mkdir(odd)
    first = kept(odd)
    assert kept(odd) == first


@pytest.mark.spec("DISK-8")
async def test_who_looks_leaves_no_record(project, own):
    async with bailiwick.open(project) as fs:
        await fs.list(".")
    assert not (own / "places").exists()


async def test_a_state_of_ones_own_has_its_own_records(project, own, tmp_path):
    for place in (project, tmp_path / "moved"):
        state = str(tmp_path / "state")
        async with bailiwick.open(place, history="on", state_dir=state) as fs:
            await fs.write_text("a", str(place))
            versions = (await fs.history("a")).versions
        if place == project:
            project.rename(tmp_path / "moved")
    assert len(versions) == 2, "a directory that was moved has its past in any state"
    assert not own.exists()


async def test_what_a_configuration_grants_is_nothing_without_its_rules(project):
    file = project / "bailiwick.toml"
    file.write_text(
        '[[root]]\nkind = "workspace"\nid = "project"\npath = "."\ntrusted = true\n'
        '[[grant]]\nsubject = "agent_run:*"\nroot = "workspace:*"\naccess = ["read"]\n'
    )
    agent = bailiwick.AgentRun("a", "b")
    async with bailiwick.Authority.from_config(file) as authority:
        scope = await authority.request_root(agent, "workspace:project", {"read"}, "read")
        held = scope.grant.id
        state = state_of(project)
        async with bailiwick.Authority.open(state_dir=state) as plain:
            await plain.add_root("workspace:project", str(project))
            with pytest.raises(bailiwick.MissingAccess):
                await plain.request_root(agent, "workspace:project", {"read"}, "read")
            with pytest.raises(bailiwick.GrantRevoked):
                await plain.resume(held, front="http")
        await (await authority.resume(held, front="http")).aclose()
        await scope.aclose()


def test_fronts_that_are_killed_at_work_leave_one_past(project, tmp_path):
    (tmp_path / "link").symlink_to(project)
    done = subprocess.run(
        [sys.executable, "-m", "tests.build.past_worker", str(project), "--kills=8", "--seed=7"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seen = json.loads(done.stdout or "{}")
    assert seen.pop("done", 0) >= 8, done.stderr
    assert seen == {
        "verified": True, "not kept": [], "not recorded": [], "of no run": [],
        "of several runs": 0, "left": 0,
    }  # fmt: skip


def test_a_directory_is_called_the_same_however_it_is_spelled(project, tmp_path):
    (tmp_path / "link").symlink_to(project)
    for spelled in (project, f"{project}/", tmp_path / "link", project / ".." / "link"):
        assert list(named_places([str(spelled)])) == [f"workspace:{project.name}"]


def test_the_old_key_is_what_it_was(project):
    digest = hashlib.sha256(os.fsencode(os.path.realpath(project))).hexdigest()
    assert spelled_key(str(project)) == digest[:32]


def write(directory):
    with bailiwick.open_sync(directory, history="on") as fs:
        fs.write_text("a", "one")
        return fs.history("a").versions


def test_who_moved_a_directory_to_another_disk_says_so(project, own, tmp_path):
    """What only its owner can know: a copy looks the same."""
    write(project)
    first = kept(project), state_of(project)
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    typed = Typed(copy)
    assert typed.refused("root", "moved", project) == "path_not_found", "it still stands there"
    shutil.rmtree(project)
    assert typed.json("history", ".")["versions"] == []
    typed.ok("root", "moved", project)
    assert (kept(copy), state_of(copy)) == first
    assert len(write(copy)) == 2
    # Once, and by one.
    other = tmp_path / "other"
    other.mkdir()
    assert Typed(other).refused("root", "moved", project) == "path_not_found"
    write(other)
    shutil.rmtree(copy)
    assert Typed(other).refused("root", "moved", copy) == "file_already_exists"
