"""What goes from the tree and could not be made anew comes back as it was, or is told."""

import os
import socket
import stat

import pytest

import bailiwick
from bailiwick.errors import IoError
from bailiwick.stores.disk import DiskStore
from tests.working_copies.support import CopyByHand

pytestmark = pytest.mark.spec("EXEC-8")

MANY = 20  # so many are changed together, and not one by one


def _socket(place):
    with socket.socket(socket.AF_UNIX) as made:
        before = os.getcwd()
        os.chdir(os.path.dirname(place))  # the name of a socket may not be long
        try:
            made.bind(os.path.basename(place))
        finally:
            os.chdir(before)


MAKING = {
    "a link that leads out": lambda place: os.symlink("/nowhere/out-of-here", place),
    "a link upwards": lambda place: os.symlink("../../../outside", place),
    "a broken link": lambda place: os.symlink("nothing", place),
    "a link that is no text": lambda place: os.symlink(b"odd-\xff", place),
    "a fifo": os.mkfifo,
    "a socket": _socket,
}


@pytest.fixture(params=["on", "off"])
def tree(request, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_text("theirs\n")
    (root / "zz").write_text("old\n")
    opening = bailiwick.open(str(root), state_dir=str(tmp_path / "state"), history=request.param)
    yield root, opening
    assert (tmp_path / "outside").read_text() == "theirs\n"


def look(root):
    """All that stands there, by what it is: to be renamed changes no inode."""
    found = {}
    for directory, names, files in os.walk(root):
        for name in names + files:
            place = os.path.join(directory, name)
            status = os.lstat(place)
            is_link = stat.S_ISLNK(status.st_mode)
            target = os.readlink(os.fsencode(place)) if is_link else None
            special = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)
            found[os.path.relpath(place, root)] = (
                oct(status.st_mode), target, status.st_ino if special else None,
            )  # fmt: skip
    return found


def failing(copy, error=None):
    """The last change of the plan fails."""

    async def content(path, plain=copy.content):
        if path == "zz":
            raise error or IoError("the disk is gone")
        async for chunk in plain(path):
            yield chunk

    copy.content = content
    return copy


async def removed(copy):
    for number in range(len(MAKING)):
        await copy.remove(f"it{number}")


async def replaced(copy):
    for number in range(len(MAKING)):
        await copy.write(f"it{number}", b"a file instead")


async def replaced_by_directories(copy):
    for number in range(len(MAKING)):
        await copy.make_dir(f"it{number}")
        await copy.write(f"it{number}/in", b"new")


async def with_their_directories(copy):
    for number in range(len(MAKING)):
        await copy.remove(f"d/in/it{number}")
    for path in ("d/in/f", "d/in", "d"):
        await copy.remove(path)


async def with_many(copy):
    await removed(copy)
    for number in range(MANY):
        await copy.remove(f"f{number}")


async def beside_what_is_moved(copy):
    """The directory goes elsewhere, without them."""
    await with_their_directories(copy)
    for path in ("e", "e/in"):
        await copy.make_dir(path)
    await copy.write("e/in/f", b"f\n")


CHANGES = [
    removed, replaced, replaced_by_directories, with_their_directories, with_many,
    beside_what_is_moved,
]  # fmt: skip


def planted(root):
    (root / "d" / "in").mkdir(parents=True)
    (root / "d" / "in" / "f").write_text("f\n")
    for number, make in enumerate(MAKING.values()):
        make(str(root / f"it{number}"))
        make(str(root / "d" / "in" / f"it{number}"))
    for number in range(MANY):
        (root / f"f{number}").write_text(f"{number}\n")
    return look(root)


@pytest.mark.parametrize("change", CHANGES)
async def test_they_stand_as_before_where_a_later_change_fails(tree, change):
    root, opening = tree
    before = planted(root)
    async with opening as fs:
        copy = CopyByHand(fs)
        await change(copy)
        await copy.write("zz", b"new\n")
        with pytest.raises(IoError):
            await fs._bring_back(failing(copy), "atomic")
        assert look(root) == before


@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_is_left_of_them_where_all_is_done(tree, change):
    root, opening = tree
    before = planted(root)
    async with opening as fs:
        copy = CopyByHand(fs)
        await change(copy)
        await copy.write("zz", b"new\n")
        told = await fs._bring_back(copy, "atomic")
        assert (told.conflicts, told.withheld) == ([], [])
        assert (root / "zz").read_text() == "new\n"
        after = look(root)
        assert not [name for name in after if name.rpartition("/")[2].startswith(".bailiwick")]
        assert [name for name in before if before[name] == after.get(name) and "it" in name]
        changed = [name for name in before if before[name] != after.get(name) and "it" in name]
        assert len(changed) == len(MAKING)


def unable(monkeypatch):
    """Nothing that lies aside can be put back."""
    plain = DiskStore.move

    async def move(store, source, destination, **how):
        if source.path.name.startswith(".bailiwick~"):
            raise IoError("it cannot be put back")
        return await plain(store, source, destination, **how)

    monkeypatch.setattr(DiskStore, "move", move)


async def test_what_cannot_be_put_back_is_told_and_lies_there_still(tree, monkeypatch):
    root, opening = tree
    planted(root)
    async with opening as fs:
        copy = CopyByHand(fs)
        await removed(copy)
        await copy.write("zz", b"new\n")
        unable(monkeypatch)
        with pytest.raises(IoError) as raised:
            await fs._bring_back(failing(copy), "atomic")
        lost = [f"it{number}" for number, kind in enumerate(MAKING) if kind != "a broken link"]
        assert raised.value.details == {"not_put_back": lost}
        assert "the disk is gone; what was done is taken back, but not" in str(raised.value)
        assert "it0, it1, it3 and 2 more" in str(raised.value)
        left = [each for each in os.listdir(root) if each.startswith(".bailiwick~aside-")]
        assert len(left) == len(lost)


async def test_what_others_put_in_its_place_stays(tree):
    root, opening = tree
    os.symlink("/nowhere/out-of-here", root / "it")
    async with opening as fs:
        copy = CopyByHand(fs)
        await copy.remove("it")
        await copy.write("zz", b"new\n")

        async def content(path):
            (root / "it").write_text("theirs\n")
            raise IoError("the disk is gone")
            yield

        copy.content = content
        with pytest.raises(IoError) as raised:
            await fs._bring_back(copy, "atomic")
        assert raised.value.details == {"not_put_back": ["it"]}
        assert sorted(os.listdir(root)) == ["it", "zz"]
        assert (root / "it").read_text() == "theirs\n"


@pytest.mark.parametrize("fails", [True, False])
async def test_it_is_found_where_others_have_moved_it(tree, fails):
    """Else it would lie there for ever, where nobody is shown it and its directory never empty."""
    root, opening = tree
    for name in ("d/in", "beside"):
        (root / name).mkdir(parents=True)
        os.symlink("/nowhere/out-of-here", root / name / "it")
        os.mkfifo(root / name / "fifo")
    async with opening as fs:
        copy = CopyByHand(fs)
        for path in ("d/in/it", "d/in/fifo", "beside/it", "beside/fifo"):
            await copy.remove(path)
        await copy.write("zz", b"new\n")
        plain = copy.content

        async def content(path):
            await fs.move("d", "e")
            await fs.make_dir("d/in", parents=True)
            if fails:
                raise IoError("the disk is gone")
            async for chunk in plain(path):
                yield chunk

        copy.content = content
        if fails:
            with pytest.raises(IoError):
                await fs._bring_back(copy, "atomic")
        else:
            assert not (await fs._bring_back(copy, "atomic")).conflicts
        kept = ["fifo", "it"] if fails else []
        assert [sorted(os.listdir(root / each)) for each in ("e/in", "beside")] == [kept, kept]
        assert os.listdir(root / "d" / "in") == []
        if fails:
            assert os.readlink(root / "e" / "in" / "it") == "/nowhere/out-of-here"


async def test_what_others_take_away_meanwhile_is_told(tree):
    root, opening = tree
    (root / "d").mkdir()
    os.symlink("/nowhere/out-of-here", root / "d" / "it")
    async with opening as fs:
        copy = CopyByHand(fs)
        await copy.remove("d/it")
        await copy.write("zz", b"new\n")

        async def content(path):
            await fs.remove("d", recursive=True)
            await fs.make_dir("d")
            raise IoError("the disk is gone")
            yield

        copy.content = content
        with pytest.raises(IoError) as raised:
            await fs._bring_back(copy, "atomic")
        assert raised.value.details == {"not_put_back": ["d/it"]}


async def test_it_comes_back_into_a_directory_that_is_shut(tree):
    root, opening = tree
    (root / "d").mkdir()
    os.symlink("/nowhere/out-of-here", root / "d" / "it")
    async with opening as fs:
        copy = CopyByHand(fs)
        await copy.remove("d/it")
        await copy.make_dir("d", 0o500)
        await copy.write("zz", b"new\n")
        before = look(root)
        with pytest.raises(IoError):
            await fs._bring_back(failing(copy), "atomic")
        assert look(root) == before
        del copy.content
        assert not (await fs._bring_back(copy, "atomic")).conflicts
        assert os.listdir(root / "d") == []
        assert stat.S_IMODE(os.lstat(root / "d").st_mode) == 0o500


async def test_no_caller_can_say_where_it_lies(tree):
    root, opening = tree
    os.symlink(root / "..", root / ".bailiwick~aside-1")
    async with opening as fs:
        for call in (fs.lstat, fs.readlink, fs.remove):
            with pytest.raises(bailiwick.ParseError):
                await call(".bailiwick~aside-1")
        with pytest.raises(bailiwick.ParseError):
            await fs.move(".bailiwick~aside-1", "out")
        assert [each.name for each in (await fs.list(".")).entries] == ["zz"]
