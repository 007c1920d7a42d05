"""What POSIX says of each call, by rule: a mount answers as a plain directory does.

A port, by rule, of what test suites for POSIX filesystems ask: every call on every sort of place,
every way to open, every pair of a rename, modes and times. Each case is tried on a plain directory
too, which says what is right. What does not hold stands in `DIFFERENT` with its reason, and in
docs/fuse.md.
"""

import contextlib
import ctypes
import errno
import itertools
import os
import shutil
import stat

import pytest

from tests.fronts.fuse.mounts import KINDS, mounted, needs_fuse, opened

pytestmark = [needs_fuse, pytest.mark.spec("FUSE-2"), pytest.mark.slow]

LONG = "n" * 255

PLACES = (
    "none", "none/x", "file", "file/x", "dir", "dir/x", "full", "link", "link/x", "dirlink",
    "dirlink/x", "dangling", "dangling/x", "loop", "loop/x", ".", "..", "dir/.", "dir/..", "file/",
    "dir/", "none/", "full/", "dirlink/", "dangling/", "", LONG, LONG + "n", "dir/" + LONG,
    "/".join(["dir", *["."] * 2_100]),
)  # fmt: skip

CALLS = {
    "create": lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)),
    "create exclusively": lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o644)),
    "read": lambda path: _content(path),
    "mkdir": lambda path: os.mkdir(path, 0o755),
    "rmdir": os.rmdir,
    "unlink": os.unlink,
    "symlink": lambda path: os.symlink("target", path),
    "readlink": os.readlink,
    "truncate": lambda path: os.truncate(path, 2),
    "extend": lambda path: os.truncate(path, 10_000),
    "shrink below nothing": lambda path: os.truncate(path, -1),
    "chmod": lambda path: os.chmod(path, 0o700),
    "utime": lambda path: os.utime(path, ns=(10**18, 10**18)),
    "stat": lambda path: stat.S_IFMT(os.stat(path).st_mode),
    "lstat": lambda path: stat.S_IFMT(os.lstat(path).st_mode),
    "list": lambda path: sorted(os.listdir(path)) if not path.endswith("..") else None,
    "access": lambda path: os.access(path, os.R_OK),
    "rename from": lambda path: os.rename(path, "renamed"),
    "rename to": lambda path: os.rename("other", path),
    "chown to its owner": lambda path: os.chown(path, os.getuid(), os.getgid()),
    "hard link": lambda path: os.link(path, "hard", follow_symlinks=False),
    "mkfifo": os.mkfifo,
}

OPEN_FLAGS = [
    mode | sum(extra)
    for mode in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)
    for count in range(3)
    for extra in itertools.combinations(
        (os.O_CREAT, os.O_EXCL | os.O_CREAT, os.O_TRUNC, os.O_APPEND, os.O_NOFOLLOW,
         os.O_DIRECTORY), count,
    )
    # What is only read and cut at once is left open by POSIX.
    if not (mode == os.O_RDONLY and os.O_TRUNC in extra)
    # To make a directory by opening it is refused by newer kernels, whatever stands there.
    and not (os.O_DIRECTORY in extra and any(each & os.O_CREAT for each in extra))
]  # fmt: skip
OPENED = ("none", "file", "dir", "link", "dirlink", "dangling", "loop")

RENAMED = ("none", "file", "other", "dir", "full", "link", "dirlink", "dangling")
RENAME_NOREPLACE = 1
AT_FDCWD = -100


def _content(path):
    with open(path, "rb") as file:
        return file.read()


def _opened(path, flags):
    """What comes of opening, writing a little and reading it all."""
    descriptor = os.open(path, flags, 0o640)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return "a directory"
        found = []
        if flags & os.O_ACCMODE != os.O_RDONLY:
            found.append(os.write(descriptor, b"xy"))
        if flags & os.O_ACCMODE != os.O_WRONLY:
            found.append(os.pread(descriptor, 100, 0))
        return found
    finally:
        os.close(descriptor)


def _renamed(source, destination, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(source), os.fsencode(destination)
    if libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], flags):
        raise OSError(ctypes.get_errno(), "renameat2")


def _times_moved(act):
    """Whether the time of the directory, and of the file, is another after ``act``."""
    for path in (".", "file"):
        os.utime(path, ns=(10**18, 10**18))
    act()
    return [os.stat(path).st_mtime_ns != 10**18 for path in (".", "file") if os.path.exists(path)]


TIMED = {
    "create": lambda: os.close(os.open("x", os.O_CREAT | os.O_WRONLY)),
    "mkdir": lambda: os.mkdir("x"),
    "symlink": lambda: os.symlink("y", "x"),
    "unlink": lambda: os.unlink("other"),
    "rmdir": lambda: os.rmdir("dir"),
    "rename": lambda: os.rename("other", "x"),
    "replace": lambda: os.rename("other", "file"),
    "write": lambda: _opened("file", os.O_WRONLY),
    "read": lambda: _content("file"),
    "truncate": lambda: os.truncate("file", 1),
    "truncate to its own size": lambda: os.truncate("file", 4),
    "chmod": lambda: os.chmod("file", 0o600),
}


def cases():
    """Every case, by its name."""
    for (name, call), place in itertools.product(CALLS.items(), PLACES):
        shown = place if len(place) < 40 else f"a name of {len(place)}"
        yield f"{name} {shown!r}", lambda call=call, place=place: call(place)
    for flags, place in itertools.product(sorted(set(OPEN_FLAGS)), OPENED):
        yield f"open {place} {flags:#o}", lambda p=place, flags=flags: _opened(p, flags)
    for source, destination in itertools.product(RENAMED, RENAMED):
        for flags in (0, RENAME_NOREPLACE):
            name = f"rename {source} to {destination} {flags}"
            yield name, lambda a=source, b=destination, flags=flags: _renamed(a, b, flags)
    for inside in ("dir/x", "full/deep/x", "full/deep"):
        yield f"rename into {inside}", lambda i=inside: os.rename(i.partition("/")[0], i)
    for name, act in TIMED.items():
        yield f"time of {name}", lambda act=act: _times_moved(act)
    for mode in (*range(0, 0o1000, 0o11), 0o1777, 0o2755, 0o4755):
        for place in ("file", "dir"):
            yield f"mode {mode:o} {place}", lambda m=mode, p=place: _with_mode(p, m)
    for name in ("a b", "ü", "-", "#", "a\\b", "a\nb", "a:b", "*", "…", "\x7f", "CON", " ", "a."):
        yield f"name {name!r}", lambda name=name: (_opened(name, 0o102), os.listdir("."))[0]


def cases_for(kind):
    """A third of them: what is tried here is the same code for all kinds, and each case takes a
    dozen calls to look at all of what came of it."""
    return itertools.islice(cases(), KINDS.index(kind), None, len(KINDS))


def _with_mode(path, mode):
    os.chmod(path, mode)
    return oct(os.stat(path).st_mode)


def different(name, plain):
    """Why a case does not hold here; None where it must."""
    if name.startswith("hard link ") and plain == "ok":
        return "a file has one name"
    if name.startswith("mkfifo ") and plain == "ok":
        return "files, directories and links only"
    if name.startswith("mode ") and int(name.split()[1], 8) & 0o7000:
        return "permission bits only"
    if name in ("name 'a\\nb'", "name '\\x7f'"):
        return "control characters are no part of a path"
    return None


def build(make):
    """The world of a case."""
    with contextlib.chdir(make):
        for name in ("file", "other"):
            with open(name, "wb") as file:
                file.write(b"data")
            os.chmod(name, 0o644)
        for name in ("dir", "full"):
            os.mkdir(name, 0o755)
        os.mkdir("full/deep", 0o755)
        for name, target in (
            ("link", "file"), ("dirlink", "dir"), ("dangling", "nowhere"), ("loop", "loop"),
        ):  # fmt: skip
            os.symlink(target, name)


def outcome(directory, act):
    """What a call said, and what the tree is then."""
    with contextlib.chdir(directory):
        try:
            said = act()
            said = "ok" if said is None else said
        except OSError as error:
            said = errno.errorcode[error.errno]
        except ValueError as error:
            said = str(error)
        return said, sorted(_rows("."))


def _rows(top):
    for here, directories, files in os.walk(top):
        for name in (*directories, *files):
            path = os.path.join(here, name)
            if os.path.islink(path):
                yield path, "link", os.readlink(path)
            elif os.path.isdir(path):
                yield path, "directory", ""
            else:
                status = os.stat(path)
                if not stat.S_ISREG(status.st_mode):
                    yield path, "special", ""
                    continue
                yield path, oct(status.st_mode), _content(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mount_answers_as_a_plain_directory_does(kind, tmp_path):
    plain = tmp_path / "plain"
    (plain / "world").mkdir(parents=True)
    build(plain / "world")
    wrong, held, left_out, before = [], 0, 0, os.umask(0o022)
    try:
        with opened(kind, tmp_path) as scope, mounted(scope, tmp_path / "mnt") as top:
            (top / "world").mkdir()
            build(top / "world")
            for number, (name, act) in enumerate(cases_for(kind)):
                case = f"case-{number}"
                shutil.copytree(plain / "world", plain / case, symlinks=True)
                scope.copy("world", case, recursive=True)
                expected, found = outcome(plain / case, act), outcome(top / case, act)
                if different(name, expected[0]):
                    left_out += 1
                    assert found != expected, f"{name} holds: take it off the list"
                elif found == expected:
                    held += 1
                else:
                    wrong.append(f"{name}: {found[0]} for {expected[0]}")
                    if found[0] == expected[0]:
                        wrong[-1] += f", {set(found[1]) ^ set(expected[1])}"
                shutil.rmtree(plain / case)
                scope.remove(case, recursive=True)
    finally:
        os.umask(before)
    assert wrong == [], f"{len(wrong)} of {held + len(wrong)}; {left_out} left out"
