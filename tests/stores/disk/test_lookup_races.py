"""What changes between two steps of a lookup is looked up again, or told: never taken for found."""

import errno
import os

import pytest

from bailiwick.errors import BailiwickError, Busy, IoError
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup import beneath
from bailiwick.stores.disk.settings import KERNEL_LINK_HOPS
from tests.stores.disk.conftest import hold
from tests.stores.disk.test_lookup import answer, plant

pytestmark = pytest.mark.spec("DISK-2", "DISK-3")


@pytest.fixture(params=("walk", "bare"))
def walked(request, bare_place):
    bare_place.work_in(request.param)
    return bare_place


@pytest.fixture
def before(monkeypatch):
    """Have something happen once, before a call of the operating system about a name."""

    def arrange(call, name, happens):
        real, done = getattr(os, call), []

        def called(path, *arguments, **options):
            if path == name and "dir_fd" in options and not done:
                done.append(path)
                happens()
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, call, called)
        return done

    return arrange


def failing(number):
    def fail():
        raise OSError(number, os.strerror(number))

    return fail


def becomes(place, kind):
    """Something else stands under the name `n`."""

    def replace():
        (place / "n").rename(place / "was")
        if kind == "directory":
            (place / "n").mkdir()
        elif kind == "link":
            (place / "n").symlink_to("f")
        else:
            (place / "n").write_bytes(b"new")

    return replace


@pytest.mark.parametrize("kind", ["link", "file"])
async def test_a_directory_that_becomes_something_else_is_looked_up_again(walked, before, kind):
    plant(walked.root, {"f": b"x"})
    (walked.root / "n").mkdir()
    fs = walked.open()
    met = before("open", "n", becomes(walked.root, kind))
    assert await answer(fs, "n") == ("f" if kind == "link" else "n")
    assert met


@pytest.mark.parametrize("kind", ["link", "directory"])
async def test_a_file_that_becomes_something_else_is_looked_up_again(bare_place, before, kind):
    plant(bare_place.root, {"f": b"x", "n": b"old"})
    fs = bare_place.open(containment="walk")
    met = before("open", "n", becomes(bare_place.root, kind))
    assert await answer(fs, "n") == ("f" if kind == "link" else "n")
    assert met


@pytest.mark.spec("ERR-3")
@pytest.mark.parametrize(("call", "path"), [("open", "d"), ("readlink", "l"), ("stat", "f")])
async def test_a_fault_on_the_way_is_told_as_one(walked, before, call, path):
    plant(walked.root, {"d/f": b"x", "l": "->d/f", "f": b"x"})
    fs = walked.open()
    before(call, path, failing(errno.EIO))
    with pytest.raises(IoError):
        await hold(fs, path)


async def test_whether_a_path_still_leads_there(walked, before):
    plant(walked.root, {"d/f": b"x", "l": "->d"})
    lookup = walked.open().store._lookup
    status = os.stat(walked.root / "d")
    assert lookup.leads_to("d", status)
    assert lookup.leads_to("d/f", os.stat(walked.root / "d" / "f"), sole=True)
    assert not any(lookup.leads_to(path, status) for path in ("d/f", "gone", "d/f/x"))
    os.link(walked.root / "d" / "f", walked.root / "twin")
    assert not lookup.leads_to("twin", os.stat(walked.root / "twin"), sole=True)
    before("stat", "d", failing(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        lookup.leads_to("d", status)
    (walked.root / "n").mkdir()
    before("open", "n", becomes(walked.root, "file"))
    assert not lookup.leads_to("n", os.stat(walked.root / "n"))


@pytest.mark.spec("PATH-6")
async def test_another_spelling_leads_to_the_name_that_is_listed(every_place, monkeypatch):
    """A hard link stands for what a directory without case would find under both spellings."""
    plant(every_place.root, {"Name": b"x"})
    os.link(every_place.root / "Name", every_place.root / "name")
    monkeypatch.setattr(syscalls, "may_fold_names", lambda _fd: True)
    real, listed = syscalls.kernel_name, os.scandir

    def named(fd):
        return real(fd).removesuffix("/name") + "/Name" * real(fd).endswith("/name")

    class Listing:
        """Without the other spelling, as such a directory lists what it has."""

        def __init__(self, directory):
            self.real = listed(directory)

        def __enter__(self):
            return (each for each in self.real if each.name != "name")

        def __exit__(self, *_):
            self.real.close()

    fs = every_place.open()
    monkeypatch.setattr(syscalls, "kernel_name", named)
    monkeypatch.setattr(os, "scandir", Listing)
    assert await answer(fs, "name", "entry") == "Name"
    assert await answer(fs, "name") == "Name"


async def test_what_has_moved_before_it_was_named_is_walked_to_again(bare_place, monkeypatch):
    plant(bare_place.root, {"d/f": b"x"})
    monkeypatch.setattr(syscalls, "may_fold_names", lambda _fd: True)
    fs = bare_place.open(containment="walk")
    real, moved = syscalls.kernel_name, []

    def named(fd):
        if real(fd).endswith("/f") and len(moved) < times:
            moved.append(fd)
            return "/elsewhere/f"
        return real(fd)

    monkeypatch.setattr(syscalls, "kernel_name", named)
    times = 2
    assert await answer(fs, "d/f") == "d/f"
    times = 10_000
    assert await answer(fs, "d/f") == "busy"
    assert len(moved) < 300


async def test_an_entry_that_goes_while_its_name_is_asked_is_looked_at_again(place, monkeypatch):
    plant(place.root, {"f": b"x"})
    monkeypatch.setattr(syscalls, "may_fold_names", lambda _fd: True)
    fs = place.open()
    real, met = syscalls.kernel_name, []

    def gone(fd):
        if not met:
            met.append(fd)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return real(fd)

    monkeypatch.setattr(syscalls, "kernel_name", gone)
    assert await answer(fs, "f", "entry") == "f"
    assert met


def test_a_name_that_is_not_listed_stays_as_it_was_typed(tmp_path):
    (tmp_path / "file").touch()
    status = os.stat(tmp_path / "file")
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        os.link(tmp_path / "file", tmp_path / "twin")
        assert beneath.listed_spelling(directory, "FILE", status) == "FILE"
        for name in ("file", "twin"):
            (tmp_path / name).unlink()
        assert beneath.listed_spelling(directory, "FILE", status) == "FILE"
    finally:
        os.close(directory)


def test_what_cannot_be_looked_at_is_let_go(tmp_path, monkeypatch):
    fd = os.open(tmp_path, os.O_RDONLY)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", lambda _fd: failing(errno.EIO)())
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            beneath.hold(ScopedPath("d"), fd)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)


async def test_entries_beneath_what_is_not_there(every_place, monkeypatch):
    plant(every_place.root, {"f": b"x", "d/e/f": b"x", "dangling": "->d/nothing"})
    fs = every_place.open()

    async def with_parents(path):
        try:
            held = await hold(fs, path, "entry", parents=True)
        except BailiwickError as error:
            return error.kind
        held.close()
        return held.path, held.missing

    assert await answer(fs, "nothing/x", "entry") == "path_not_found"
    assert await answer(fs, "f/x", "entry") == "not_a_directory"
    assert await with_parents("a/b/c") == ("a/b/c", ("a", "b"))
    assert await with_parents("d/e/b/c") == ("d/e/b/c", ("b",))
    assert await with_parents("dangling/x") == "path_not_found"
    assert await with_parents("dangling/x/y") == "path_not_found"
    assert await with_parents("f/x/y") == "not_a_directory"
    monkeypatch.setattr(beneath.Lookup, "_find_deepest", lambda _self, _path: None)
    with pytest.raises(Busy):
        await hold(fs, "a/b/c", "entry", parents=True)


@pytest.mark.spec("LINK-2")
async def test_as_many_links_are_followed_as_the_kernel_follows(every_place):
    chain = {f"l{n}": f"->l{n - 1}" for n in range(1, KERNEL_LINK_HOPS + 1)}
    plant(every_place.root, {"l0": b"x"} | chain)
    fs = every_place.open()
    assert await answer(fs, f"l{KERNEL_LINK_HOPS}") == "l0"
    (every_place.root / "one-more").symlink_to(f"l{KERNEL_LINK_HOPS}")
    assert await answer(fs, "one-more") == "too_many_links"


@pytest.mark.spec("LINK-2")
@pytest.mark.parametrize("mode", [0o755, 0o1755, 0o777])
async def test_a_strangers_link_is_followed_where_not_everybody_may_put_one(
    place, monkeypatch, mode
):
    plant(place.root, {"f": b"x", "shared/l": "->../f"})
    (place.root / "shared").chmod(mode)
    os.chown(place.root / "shared", 1234, 1234)
    os.lchown(place.root / "shared" / "l", 4321, 4321)
    monkeypatch.setattr(syscalls, "protects_links", lambda: True)
    assert await answer(place.open(containment="walk"), "shared/l") == "f"
