"""Every verb twice: through a scope, and as the plain call of the operating system it stands for.

The plain half has two uses. On a *twin* tree it says what a case that does not escape should
answer and leave behind. On the hostile tree itself it is the *control*: it obeys the attack.
Values are brought to one form so that the halves can be compared.
"""

import contextlib
import errno
import json
import os
import shutil
import stat
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import bailiwick
from tests.hostile import kernel

NEEDLE = "needle"
STREAM_BYTES_MAX = 1 << 20
MODE = 0o640
TIME_NS = 1_000_000_000_123_456_789

Through = Callable[[bailiwick.Scope, str], Awaitable[Any]]
Plain = Callable[[str, str], Any]


class Verb(NamedTuple):
    name: str
    through: Through
    plain: Plain
    changes: bool


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


# --- through a scope -------------------------------------------------------------------------


async def _stream(fs: bailiwick.Scope, path: str) -> bytes:
    parts: list[bytes] = []
    async with contextlib.aclosing(fs.stream(path)) as chunks:
        async for chunk in chunks:
            parts.append(chunk)
            if sum(map(len, parts)) >= STREAM_BYTES_MAX:
                break
    return b"".join(parts)[:STREAM_BYTES_MAX]


async def _stat(fs: bailiwick.Scope, path: str) -> Any:
    return _status(await fs.stat(path))


async def _lstat(fs: bailiwick.Scope, path: str) -> Any:
    return _status(await fs.lstat(path))


def _status(found: bailiwick.Stat) -> Any:
    size = found.size if found.type == "file" else None
    mode = found.mode if found.type in ("file", "directory") else None
    # The text of a link that leads out is nobody's business, so it may not be there to compare.
    told = found.target or ""
    leads_out = [told] if told.startswith("/") or "outside" in told or "root" in told else []
    return (found.type, size, mode, *leads_out)


async def _list(fs: bailiwick.Scope, path: str) -> Any:
    page = await fs.list(path, include_ignored=True)
    return sorted((entry.name, entry.type) for entry in page.entries)


def _below(found: bailiwick.Found) -> Any:
    return sorted(str(path.relative_to(found.base)) for path in found.paths)


async def _find(fs: bailiwick.Scope, path: str) -> Any:
    return _below(await fs.find(path, include_ignored=True))


async def _files(fs: bailiwick.Scope, path: str) -> Any:
    return _below(await fs.files(path, include_ignored=True))


async def _glob(fs: bailiwick.Scope, path: str) -> Any:
    return _below(await fs.glob("**/*", path, include_ignored=True))


async def _grep(fs: bailiwick.Scope, path: str) -> Any:
    found = await fs.grep(NEEDLE, path, literal=True, include_ignored=True)
    return sorted((match.path.name, match.line, match.text) for match in found.matches)


async def _read_json(fs: bailiwick.Scope, path: str) -> Any:
    return (await fs.read_json(path)).value


async def _written(result: Awaitable[bailiwick.WriteResult]) -> Any:
    return (await result).size


async def _done(result: Awaitable[Any]) -> None:
    await result


# --- plainly ---------------------------------------------------------------------------------


def _join(root: str, path: str) -> str:
    return path if path.startswith("/") else f"{root}/{path}"


def _p_read(root: str, path: str) -> bytes:
    with open(_join(root, path), "rb") as file:
        return file.read(STREAM_BYTES_MAX)


def _p_json(root: str, path: str) -> Any:
    try:
        return json.loads(_p_read(root, path))
    except ValueError:
        raise OSError(errno.EINVAL, "no JSON") from None


def _p_status(path: str, follow: bool) -> Any:
    found = os.stat(path, follow_symlinks=follow)
    kind = _kind(found.st_mode)
    size = found.st_size if kind == "file" else None
    mode = stat.S_IMODE(found.st_mode) if kind in ("file", "directory") else None
    return (kind, size, mode)


def _p_exists(root: str, path: str) -> bool:
    return os.path.exists(_join(root, path))


def _p_list(root: str, path: str) -> Any:
    with os.scandir(_join(root, path)) as entries:
        return sorted((e.name, _kind(e.stat(follow_symlinks=False).st_mode)) for e in entries)


def _p_find(root: str, path: str) -> Any:
    top = _join(root, path)
    os.close(os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK))
    found = []
    for directory, directories, files in os.walk(top, followlinks=False):
        found += [os.path.relpath(f"{directory}/{name}", top) for name in directories + files]
    return sorted(found)


def _p_files(root: str, path: str) -> Any:
    top = _join(root, path)
    try:
        found = _p_find(root, path)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        if not stat.S_ISREG(os.stat(top).st_mode):
            raise
        return ["."]  # the file itself
    return [name for name in found if stat.S_ISREG(os.lstat(f"{top}/{name}").st_mode)]


def _p_grep(root: str, path: str) -> Any:
    top = _join(root, path)
    names = [top]
    if stat.S_ISDIR(os.stat(top).st_mode):
        names = [f"{top}/{name}" for name in _p_files(root, path)]
    found = []
    for name in names:
        with open(name, "rb") as file:
            text = file.read(STREAM_BYTES_MAX).decode(errors="replace")
        found += [
            (os.path.basename(os.path.realpath(name)), number, line)
            for number, line in enumerate(text.splitlines(), 1)
            if NEEDLE in line
        ]
    return sorted(found)


def _p_write(root: str, path: str, flags: int, data: bytes, parents: bool = False) -> int:
    if parents:
        os.makedirs(os.path.dirname(_join(root, path)), exist_ok=True)
    fd = os.open(_join(root, path), os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.write(fd, data)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _p_edit(root: str, path: str) -> None:
    data = _p_read(root, path)
    if data.count(NEEDLE.encode()) != 1:
        raise OSError(errno.EINVAL, "no such text")
    fd = os.open(_join(root, path), os.O_WRONLY | os.O_TRUNC)
    os.write(fd, data.replace(NEEDLE.encode(), b"noodle"))
    os.close(fd)


def _p_truncate(root: str, path: str) -> int:
    os.truncate(_join(root, path), 3)
    return 3


def _p_make_dir_parents(root: str, path: str) -> None:
    os.makedirs(_join(root, path), mode=0o700, exist_ok=True)


def _p_remove(root: str, path: str) -> None:
    path = _join(root, path)
    if stat.S_ISDIR(os.lstat(path).st_mode):
        os.rmdir(path)
    else:
        os.unlink(path)


def _p_remove_recursive(root: str, path: str) -> None:
    path = _join(root, path)
    if stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _p_move(root: str, path: str, to: str, flags: int = kernel.RENAME_NOREPLACE) -> None:
    kernel.renameat2(_join(root, path), _join(root, to), flags)


def _p_copy(root: str, path: str, to: str) -> None:
    source, destination = _join(root, path), _join(root, to)
    mode = os.lstat(source).st_mode
    if os.path.lexists(destination):
        raise FileExistsError(errno.EEXIST, "there")
    if stat.S_ISDIR(mode):
        shutil.copytree(source, destination, symlinks=True)
    elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        shutil.copy2(source, destination, follow_symlinks=False)
    else:
        raise OSError(errno.EINVAL, "no file")


def _p_equal(root: str, path: str, other: bytes) -> bool:
    return _p_read(root, path) == other


# --- the table -------------------------------------------------------------------------------


def _table() -> dict[str, Verb]:
    verbs: dict[str, Verb] = {}

    def add(name: str, through: Through, plain: Plain, changes: bool = False) -> None:
        verbs[name] = Verb(name, through, plain, changes)

    async def data(fs: bailiwick.Scope, path: str) -> bytes:
        return (await fs.read_bytes(path)).data

    async def text(fs: bailiwick.Scope, path: str) -> str:
        return (await fs.read_text(path)).text

    async def equal(fs: bailiwick.Scope, path: str) -> bool:
        return (await fs.diff(path, text="other\n")).equal

    async def equal_to(fs: bailiwick.Scope, path: str) -> bool:
        return (await fs.diff("other", path)).equal

    add("read_bytes", data, _p_read)
    add("read_text", text, lambda root, path: _p_read(root, path).decode())
    add("read_json", _read_json, _p_json)
    add("stream", _stream, _p_read)
    add("stat", _stat, lambda root, path: _p_status(_join(root, path), True))
    add("lstat", _lstat, lambda root, path: _p_status(_join(root, path), False))
    add("exists", lambda fs, path: fs.exists(path), _p_exists)
    add("list", _list, _p_list)
    add("find", _find, _p_find)
    add("files", _files, _p_files)
    add("glob", _glob, _p_find)
    add("grep", _grep, _p_grep)
    add("readlink", lambda fs, path: fs.readlink(path), lambda r, p: os.readlink(_join(r, p)))
    add("diff", equal, lambda root, path: _p_equal(root, path, b"other\n"))
    add("diff_to", equal_to, lambda root, path: _p_read(root, path) == _p_read(root, "other"))
    _add_writing(add)
    _add_shaping(add)
    return verbs


def _add_writing(add: Callable[..., None]) -> None:
    new = b"new content\n"

    add(
        "write_create",
        lambda fs, path: _written(fs.write_bytes(path, new, mode="create")),
        lambda root, path: _p_write(root, path, os.O_EXCL, new),
        True,
    )
    add(
        "write_overwrite",
        lambda fs, path: _written(fs.write_bytes(path, new)),
        lambda root, path: _p_write(root, path, os.O_TRUNC, new),
        True,
    )
    add(
        "write_text",
        lambda fs, path: _written(fs.write_text(path, new.decode())),
        lambda root, path: _p_write(root, path, os.O_TRUNC, new),
        True,
    )
    add(
        "write_stream",
        lambda fs, path: _written(fs.write_stream(path, [new[:4], new[4:]])),
        lambda root, path: _p_write(root, path, os.O_TRUNC, new),
        True,
    )
    add(
        "write_below",
        lambda fs, path: _written(fs.write_bytes(f"{path}/n/new", new, parents=True)),
        lambda root, path: _p_write(root, f"{path}/n/new", os.O_TRUNC, new, parents=True),
        True,
    )
    add(
        "append",
        lambda fs, path: _written(fs.append(path, b"more\n")),
        lambda root, path: _p_write(root, path, os.O_APPEND, b"more\n"),
        True,
    )
    add("edit", lambda fs, path: _done(fs.edit(path, old=NEEDLE, new="noodle")), _p_edit, True)
    add("truncate", lambda fs, path: _written(fs.truncate(path, 3)), _p_truncate, True)


def _add_shaping(add: Callable[..., None]) -> None:
    def plainly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Plain:
        return lambda root, path: function(_join(root, path), *args, **kwargs)

    def through(verb: str, *args: Any, **kwargs: Any) -> Through:
        return lambda fs, path: _done(getattr(fs, verb)(path, *args, **kwargs))

    def onto(verb: str, source: str, **kwargs: Any) -> Through:
        return lambda fs, path: _done(getattr(fs, verb)(source, path, **kwargs))

    add("make_dir", through("make_dir"), plainly(os.mkdir, 0o700), True)
    add("make_dir_parents", through("make_dir", parents=True), _p_make_dir_parents, True)
    add(
        "make_dir_below",
        lambda fs, path: _done(fs.make_dir(f"{path}/n/m", parents=True)),
        lambda root, path: _p_make_dir_parents(root, f"{path}/n/m"),
        True,
    )
    add("remove", through("remove"), _p_remove, True)
    add("remove_recursive", through("remove", recursive=True), _p_remove_recursive, True)
    add("move_from", through("move", "moved"), lambda r, p: _p_move(r, p, "moved"), True)
    add("move_to", onto("move", "other"), lambda r, p: _p_move(r, "other", p), True)
    add(
        "move_replace",
        onto("move", "other", replace=True),
        lambda root, path: _p_move(root, "other", path, 0),
        True,
    )
    add(
        "copy_from",
        through("copy", "copied", recursive=True),
        lambda r, p: _p_copy(r, p, "copied"),
        True,
    )
    add("copy_to", onto("copy", "other"), lambda r, p: _p_copy(r, "other", p), True)
    add(
        "copy_between",
        lambda fs, path: _done(fs.copy_from(fs, path, "brought", recursive=True)),
        lambda root, path: _p_copy(root, path, "brought"),
        True,
    )
    add("symlink", through("symlink", "f"), lambda r, p: os.symlink("f", _join(r, p)), True)
    add("set_mode", through("set_mode", MODE), plainly(os.chmod, MODE), True)
    add("set_times", through("set_times", TIME_NS), plainly(os.utime, ns=(TIME_NS, TIME_NS)), True)


def _no_plain(_root: str, _path: str) -> None:
    raise NotImplementedError


SPECIAL: dict[str, Verb] = {
    "move_directory_to": Verb(
        "move_directory_to", lambda fs, path: _done(fs.move("d", path)), _no_plain, True
    ),
    "copy_directory_to": Verb(
        "copy_directory_to",
        lambda fs, path: _done(fs.copy("d", path, recursive=True)),
        _no_plain,
        True,
    ),
}
"""Run only by rows that name them."""

VERBS: dict[str, Verb] = _table()
READING = tuple(name for name, verb in VERBS.items() if not verb.changes)
CHANGING = tuple(name for name, verb in VERBS.items() if verb.changes)
