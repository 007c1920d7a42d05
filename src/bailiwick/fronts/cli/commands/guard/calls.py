"""What counts as direct use of the filesystem, by full name, and the verbs that stand for it.

A name is written as it would be imported: ``os.remove``, ``pathlib.Path.read_text``. The methods of
an object are written under its class. What takes only a descriptor (``os.read``) is not here: the
descriptor came from somewhere, and that is found. Neither is what only computes with text
(``os.path.join``).
"""

from __future__ import annotations

from typing import NamedTuple


class Category(NamedTuple):
    """One sort of use, and what a scope offers instead."""

    id: str
    what: str
    instead: str


CATEGORIES: dict[str, Category] = {
    category.id: category
    for category in (
        Category(
            "content",
            "opens a file",
            "read_text, read_bytes, stream, write_text, write_bytes, append or edit",
        ),
        Category(
            "tree",
            "changes names or attributes",
            "make_dir, remove, move, copy, symlink, truncate, set_mode or set_times",
        ),
        Category("listing", "lists a directory", "list, find, files or glob"),
        Category("metadata", "looks at the filesystem", "stat, lstat, exists or readlink"),
        Category("temporary", "makes a temporary file", "a temporary root"),
        Category("archive", "opens or unpacks an archive", "extract_archive or create_archive"),
        Category("dynamic", "picks a filesystem function at run time", "a verb of the scope"),
    )
}

UNREADABLE = Category("unreadable", "could not be checked", "")
ALLOWANCE = Category("allowance", "an exception that is not in order", "")

_TABLE = {
    "builtins": {"content": "open"},
    "io": {"content": "open open_code FileIO"},
    "codecs": {"content": "open"},
    "os": {
        "content": "open",
        "tree": (
            "remove unlink rmdir removedirs rename renames replace mkdir makedirs link symlink"
            " mkfifo mknod chmod chown lchmod lchown chflags lchflags utime truncate setxattr"
            " removexattr chdir fchdir chroot"
        ),
        "listing": "listdir scandir walk fwalk",
        "metadata": (
            "stat lstat access readlink statvfs pathconf getxattr listxattr getcwd getcwdb"
        ),
    },
    "os.path": {
        "metadata": (
            "exists lexists isfile isdir islink ismount isjunction isdevdrive getsize getmtime"
            " getatime getctime samefile realpath"
        )
    },
    "shutil": {
        "content": "copy copy2 copyfile copytree",
        "tree": "move rmtree copymode copystat chown",
        "metadata": "disk_usage",
        "archive": "make_archive unpack_archive",
    },
    "pathlib.Path": {
        "content": "open read_text read_bytes write_text write_bytes copy copy_into",
        "tree": (
            "mkdir rmdir unlink rename replace touch symlink_to hardlink_to link_to chmod lchmod"
            " move move_into"
        ),
        "listing": "iterdir glob rglob walk",
        "metadata": (
            "stat lstat exists is_file is_dir is_mount is_symlink is_junction is_socket is_fifo"
            " is_block_device is_char_device owner group samefile resolve readlink cwd"
        ),
    },
    "tempfile": {
        "temporary": (
            "TemporaryFile NamedTemporaryFile SpooledTemporaryFile TemporaryDirectory mkstemp"
            " mkdtemp mktemp gettempdir gettempdirb"
        )
    },
    "zipfile": {"archive": "ZipFile PyZipFile Path is_zipfile"},
    "zipfile.ZipFile": {"archive": "extract extractall write"},
    "tarfile": {"archive": "open TarFile is_tarfile"},
    "tarfile.TarFile": {"archive": "open gzopen bz2open xzopen taropen extract extractall add"},
    "gzip": {"content": "open GzipFile"},
    "bz2": {"content": "open BZ2File"},
    "lzma": {"content": "open LZMAFile"},
    "glob": {"listing": "glob iglob glob0 glob1"},
    "fileinput": {"content": "input FileInput"},
    "filecmp": {"content": "cmp cmpfiles dircmp"},
    "linecache": {"content": "getline getlines"},
    "logging": {"content": "FileHandler"},
    "logging.handlers": {
        "content": "RotatingFileHandler TimedRotatingFileHandler WatchedFileHandler"
    },
    "runpy": {"content": "run_path"},
    "shelve": {"content": "open"},
    "dbm": {"content": "open"},
    "aiofiles": {"content": "open"},
    "aiofiles.os": {
        "tree": "remove unlink rmdir removedirs rename renames replace mkdir makedirs link symlink",
        "listing": "listdir scandir",
        "metadata": "stat statvfs access readlink getcwd",
    },
    "aiofiles.ospath": {
        "metadata": (
            "exists isfile isdir islink ismount getsize getmtime getatime getctime samefile"
        )
    },
    "aiofiles.tempfile": {
        "temporary": "TemporaryFile NamedTemporaryFile SpooledTemporaryFile TemporaryDirectory"
    },
    "anyio": {
        "content": "open_file",
        "temporary": (
            "TemporaryFile NamedTemporaryFile SpooledTemporaryFile TemporaryDirectory mkstemp"
            " mkdtemp gettempdir gettempdirb"
        ),
    },
    "trio": {"content": "open_file"},
}

CATEGORY_OF: dict[str, str] = {
    f"{owner}.{name}": category
    for owner, groups in _TABLE.items()
    for category, names in groups.items()
    for name in names.split()
}

MODULES = frozenset(owner.partition(".")[0] for owner in _TABLE)

# Other names of the same things: what stands left is written as what stands right.
SYNONYMS = {
    "posix": "os",
    "nt": "os",
    "posixpath": "os.path",
    "ntpath": "os.path",
    "genericpath": "os.path",
    "aiofiles.os.path": "aiofiles.ospath",
    "_io": "io",
    "_pyio": "io",
    "pathlib.PosixPath": "pathlib.Path",
    "pathlib.WindowsPath": "pathlib.Path",
    "anyio.Path": "pathlib.Path",
    "trio.Path": "pathlib.Path",
    "zipfile.PyZipFile()": "zipfile.ZipFile()",
}

PATH = "pathlib.Path()"

CLASSES = frozenset(("pathlib.Path", "zipfile.ZipFile", "tarfile.TarFile", "io.BytesIO"))
"""Calling one of these gives an object whose methods are looked at."""

_GIVING_PATHS = (
    "absolute cwd expanduser home joinpath readlink relative_to rename replace resolve"
    " with_name with_segments with_stem with_suffix copy copy_into move move_into"
)

GIVES = {
    **dict.fromkeys(("tarfile.open", "tarfile.TarFile.open"), "tarfile.TarFile()"),
    **{
        f"pathlib.Path.{name}": PATH
        for name in _GIVING_PATHS.split()
    },
    **{f"pathlib.Path.{name}": f"[]{PATH}" for name in ("glob", "iterdir", "rglob")},
}  # fmt: skip
"""What a call gives back: ``X()`` is an object of the class X, ``[]X()`` many of them."""

HOLDS = {"pathlib.Path.parent": PATH, "pathlib.Path.parents": f"[]{PATH}"}
"""What an attribute holds."""

# On an object that nothing is known about, these can hardly be anything else. The names that a
# scope has too (`read_text`, `remove` …) are not among them.
TELLING_METHODS = {
    "iterdir": "listing",
    "rglob": "listing",
    "symlink_to": "tree",
    "hardlink_to": "tree",
    "lchmod": "tree",
    "is_mount": "metadata",
    "is_fifo": "metadata",
    "is_socket": "metadata",
    "is_block_device": "metadata",
    "is_char_device": "metadata",
    "extractall": "archive",
}

_FILE_OBJECTS_TOO = (
    "zipfile.ZipFile zipfile.PyZipFile zipfile.is_zipfile tarfile.open tarfile.TarFile"
    " tarfile.is_tarfile gzip.open gzip.GzipFile bz2.open bz2.BZ2File lzma.open lzma.LZMAFile"
)

TAKES_FILE_OBJECTS = frozenset(_FILE_OBJECTS_TOO.split())
"""These open a path, or read what is open already: with an object in memory they are no use of the
filesystem."""


def canonical(name: str) -> str:
    """A full name in its one spelling."""
    for other, ours in SYNONYMS.items():
        if name == other or name.startswith((f"{other}.", f"{other}(")):
            return ours + name[len(other) :]
    return name


def category_of(name: str) -> str | None:
    """The category of a full name; also where a module was reached through another one."""
    parts = name.split(".")
    for start, part in enumerate(parts):
        if start == 0 or part in MODULES:
            found = CATEGORY_OF.get(canonical(".".join(parts[start:])))
            if found is not None:
                return found
    return None


OWNERS = frozenset(name.rpartition(".")[0] for name in CATEGORY_OF) | {PATH}
"""The modules and classes whose functions are looked at."""
