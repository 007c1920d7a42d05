"""Section D: what lies in a root and is no plain file, or has another name elsewhere."""

import fcntl
import os
import signal
import socket
import stat
from collections.abc import Callable

from tests.hostile import inside
from tests.hostile.layouts import Layout
from tests.hostile.profiles import (
    DIRECTORY,
    HARDLINK_ALLOWED,
    HARDLINKED,
    MIDDLE_ESCAPE,
    NOT_REGULAR,
    READS,
    TWIN,
    WALKS,
    each,
    profile,
)
from tests.hostile.row import Row
from tests.hostile.verbs import CHANGING, READING

SPARSE_BYTES = 1 << 42
WALKING = ("list", "find", "files", "glob", "grep")


def _fifo(path: str):
    return lambda layout: os.mkfifo(f"{layout.root}/{path}")


def _socket(layout: Layout) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        # The whole path may be longer than a socket's address can be.
        before = os.getcwd()
        os.chdir(layout.root)
        listener.bind("sock")
        os.chdir(before)


def _device(kind: int, major: int, minor: int):
    def build(layout: Layout) -> None:
        os.mknod(f"{layout.root}/dev", kind | 0o600, os.makedev(major, minor))

    return build


def _special_things(layout: Layout) -> None:
    layout.directory("mixed")
    layout.file("mixed/plain")
    os.mkfifo(f"{layout.root}/mixed/fifo")
    os.symlink("../../outside/secret", f"{layout.root}/mixed/out")
    if os.getuid() == 0:
        os.mknod(f"{layout.root}/mixed/zero", stat.S_IFCHR | 0o600, os.makedev(1, 5))


def _hard_link(layout: Layout) -> None:
    os.link(f"{layout.outside}/secret", f"{layout.root}/hard")


def _hard_linked_ignore_file(layout: Layout) -> None:
    os.link(f"{layout.outside}/secret", f"{layout.root}/.gitignore")
    os.link(f"{layout.outside}/secret", f"{layout.root}/d/.bailiwickignore")


def _sparse(layout: Layout) -> None:
    os.truncate(layout.file("sparse", ""), SPARSE_BYTES)


def _sparse_ignore_file(layout: Layout) -> None:
    os.truncate(layout.file(".gitignore", ""), SPARSE_BYTES)
    os.mkfifo(f"{layout.root}/.bailiwickignore")
    os.mkfifo(f"{layout.root}/d/.gitignore")


def _mode(path: str, mode: int):
    def build(layout: Layout) -> None:
        layout.file("shut/inner")
        layout.file("closed")
        os.chmod(f"{layout.root}/{path}", mode)

    return build


def _blocks(path: str) -> Callable[[Layout], bool]:
    """Whether a plain open is still waiting after a quarter of a second."""

    def control(layout: Layout) -> bool:
        def give_up(*_: object) -> None:
            raise TimeoutError

        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, 0.25)
        try:
            os.close(os.open(f"{layout.root}/{path}", os.O_RDONLY))
        except TimeoutError:
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return False

    return control


def _reads_zeros(layout: Layout) -> bool:
    with open(f"{layout.root}/dev", "rb") as file:
        return file.read(16) == bytes(16)


def _environment_leaks(layout: Layout) -> bool:
    with open(f"{layout.root}/proc/self/environ", "rb") as file:
        return os.environ[inside.CANARY_VARIABLE].encode() in file.read()


def _terminal_is_acquired(layout: Layout) -> bool:
    """A session leader that opens a terminal plainly is governed by it from then on."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.open(f"{layout.root}/pts/0", os.O_RDWR)
        os._exit(0 if controlling_terminal() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def controlling_terminal() -> int:
    return int(inside.read_proc("self/stat").rpartition(")")[2].split()[4])


_terminals: list[int] = []


def _hold_terminal(layout: Layout) -> None:
    if not _terminals:
        fd = os.open(f"{layout.root}/pts/ptmx", os.O_RDWR | os.O_NOCTTY)
        # TIOCSPTLCK: unlock the other side.

        fcntl.ioctl(fd, 0x40045431, b"\0\0\0\0")
        _terminals.append(fd)


_IN_PROC = profile(
    "not_a_regular_file|read_only|permission_denied|symlink_escape|path_not_found"
    "|file_already_exists|not_a_directory|unsupported|io_error",
    **each(READS, "not_a_regular_file"),
    **each(f"{WALKS} grep", "not_a_regular_file|not_a_directory"),
    **each("stat lstat", "ok|not_a_regular_file"),
    exists="yes|not_a_regular_file",
    readlink="parse_error|not_a_regular_file",
)

_THROUGH_MAGIC = profile(
    "symlink_escape|not_a_regular_file", exists="no|symlink_escape|not_a_regular_file"
)

_SPARSE = profile(
    TWIN,
    **each("read_bytes read_json append copy_from copy_between", "file_too_large"),
    **each("read_text edit", "file_too_large|binary_file"),
    # A difference of that size is told by size, or refused; it is not read to the end.
    **each("diff diff_to", "file_too_large|ok"),
    stream="ok",
    grep="ok",
    **each("move_to copy_to symlink make_dir make_dir_parents write_create", "file_already_exists"),
    readlink="parse_error",
)

_SHUT_FILE = profile(
    TWIN,
    **each("write_overwrite write_text write_stream", "ok|permission_denied"),
    **each("move_to copy_to symlink make_dir make_dir_parents write_create", "file_already_exists"),
    grep="ok|permission_denied",
    readlink="parse_error",
    truncate="ok|permission_denied",
)

_BELOW_SHUT = profile("permission_denied", exists="no|permission_denied")

_OTHER_MOUNT_ITSELF = profile(
    "symlink_escape",
    # That it is a directory may be said; so may the kernel's word that it is in use.
    **each("write_overwrite write_text write_stream append edit truncate write_create",
           "symlink_escape|is_a_directory"),
    # It can be seen that something stands there; nothing of it may be had or changed.
    lstat="ok|symlink_escape",
    **each("remove remove_recursive move_from move_replace",
           "symlink_escape|io_error|unsupported|is_a_directory|permission_denied"),
    **each("move_to copy_to symlink make_dir", "file_already_exists|symlink_escape"),
    make_dir_parents="symlink_escape|file_already_exists|ok",
    readlink="symlink_escape|parse_error",
    exists="yes|no|symlink_escape",
)  # fmt: skip

_OVER_OTHER_MOUNT = profile(
    "ok",
    remove_recursive="permission_denied|symlink_escape",  # the latter where there is no /proc
    copy_from="ok|symlink_escape|unsupported",
)

SAME_MOUNT = {"cross_mounts": False}

ROWS = (
    Row("52", "a FIFO", ("fifo",), NOT_REGULAR, _fifo("fifo"), _blocks("fifo")),
    Row("54", "a socket", ("sock",), NOT_REGULAR, _socket,
        no_control="a plain open of a socket is refused as well"),
    Row("55a", "a character device", ("dev",), NOT_REGULAR, _device(stat.S_IFCHR, 1, 5),
        _reads_zeros, who=("root", "bare")),
    Row("55b", "a block device", ("dev",), NOT_REGULAR, _device(stat.S_IFBLK, 7, 0),
        no_control="a control would touch a real device", who=("root", "bare")),
    Row("55c", "a directory with a FIFO, a device and a link out in it", ("mixed",),
        profile(DIRECTORY, grep="ok",
                **each("copy_from copy_between", "not_a_regular_file|ok")),
        _special_things, _blocks("mixed/fifo")),
    Row("56", "a terminal", ("pts/0",),
        profile(NOT_REGULAR, **each("stat lstat", "ok|not_a_regular_file"),
                **each("exists", "yes|not_a_regular_file"),
                **each(WALKS, "not_a_directory|not_a_regular_file"),
                readlink="parse_error|not_a_regular_file"), ready=_hold_terminal,
        control=_terminal_is_acquired, place="terminal", keep=("pts",),
        # The terminals' own filesystem lets nobody rename or make anything.
        verbs=(*READING, "write_overwrite", "append", "edit", "truncate", "copy_from")),
    Row("57a", "a hard link to an outside file, refused", ("hard",), HARDLINKED, _hard_link,
        ("read_bytes", "append", "truncate"), options={"hardlinks": "reject"}, shared="name"),
    Row("57b", "a hard link to an outside file, allowed: never written through", ("hard",),
        HARDLINK_ALLOWED, _hard_link, ("append", "truncate", "set_mode", "set_times"),
        options={"hardlinks": "allow"}, verbs=(*READING, *CHANGING), shared="content"),
    Row("57c", "ignore files that are hard links out", (".",), profile("ok"),
        _hard_linked_ignore_file, no_control="the link itself is row 57a",
        options={"hardlinks": "reject"}, shared="name", verbs=WALKING),
    Row("57d", "reading beside ignore files that are hard links out", ("f", "d/g"), profile("ok"),
        _hard_linked_ignore_file, no_control="the link itself is row 57a",
        options={"hardlinks": "reject"}, shared="name",
        verbs=("read_text", "write_overwrite", "append", "edit", "truncate")),
    Row("58a", "through a bind mount, mounts not crossed",
        ("sub/m/secret", "sub/m/box/inner", "sub/m/new"), MIDDLE_ESCAPE,
        control=("read_bytes", "write_overwrite", "set_mode"), options=SAME_MOUNT, place="bind",
        keep=("sub",)),
    Row("58b", "a bind mount itself, mounts not crossed", ("sub/m",), _OTHER_MOUNT_ITSELF,
        control=("list", "write_below"), options=SAME_MOUNT, place="bind", keep=("sub",)),
    Row("58c", "a tree with a bind mount in it, mounts not crossed", ("sub",), _OVER_OTHER_MOUNT,
        control=("find", "grep"), options=SAME_MOUNT, place="bind", keep=("sub",),
        verbs=(*WALKING, "remove_recursive", "copy_from")),
    Row("59a", "magic links of /proc in the root", (
        "proc/self/root/etc/passwd", "proc/self/cwd/log", "proc/self/fd/0"),
        _THROUGH_MAGIC, control=lambda layout: os.path.exists(f"{layout.root}/proc/self/root/etc"),
        place="procfs", keep=("proc",), verbs=(*READING, "write_overwrite", "append", "copy_from")),
    Row("59b", "files of /proc in the root",
        ("proc/self/environ", "proc/self/status", "proc/version", "proc/self/mem"), _IN_PROC,
        control=_environment_leaks, place="procfs", keep=("proc",)),
    Row("59c", "walking over /proc in the root", (".",), profile("ok"),
        control=_environment_leaks, place="procfs", keep=("proc",), verbs=("grep", "list")),
    Row("60", "/proc in the root, mounts not crossed",
        ("proc/self/environ", "proc/self/root/etc/passwd"), MIDDLE_ESCAPE,
        control=_environment_leaks, options=SAME_MOUNT, place="procfs", keep=("proc",)),
    Row("62", "a sparse file of 4 TiB", ("sparse",), _SPARSE, _sparse,
        no_control="a control would read until the machine is out of memory"),
    Row("62b", "ignore files that are endless or block", (".", "d"), profile("ok"),
        _sparse_ignore_file, _blocks(".bailiwickignore"), verbs=WALKING),
    Row("65a", "a file of mode 000", ("closed",), _SHUT_FILE, _mode("closed", 0o000),
        no_control="a plain call is refused as well", who=("user",)),
    Row("65b", "beneath a directory that cannot be searched", ("shut/inner", "shut/new"),
        _BELOW_SHUT, _mode("shut", 0o600), no_control="a plain call is refused as well",
        who=("user",)),
    Row("65c", "a directory of mode 000", ("shut",),
        profile(DIRECTORY, **each(f"{WALKS} grep", "permission_denied"),
                **each("write_below make_dir_below remove_recursive copy_from copy_between",
                       "permission_denied"),
                # Whether it is empty cannot be told.
                remove="permission_denied|directory_not_empty"),
        _mode("shut", 0o000), no_control="a plain call is refused as well", who=("user",)),
)  # fmt: skip
