"""Section A: attacks by name alone."""

import os

from tests.hostile.layouts import Layout
from tests.hostile.profiles import (
    DIRECTORY,
    FILE,
    FILE_WITH_SLASH,
    MALFORMED,
    OUTSIDE,
    TWIN,
    each,
    profile,
)
from tests.hostile.row import Row

REACHES = ("read_bytes", "stat", "write_overwrite", "append", "set_mode", "remove")
MOUNTED = {"mount_point": "/workspace"}
PORTABLE = {"names": "portable"}
LITERAL = "a plain call takes the name literally too: there is nothing to gain"
MALFORMED_TOO = "the operating system refuses the name as well"


def _nul_is_cut(layout: Layout) -> bool:
    """C code stops at the NUL: the check sees one name, the kernel another."""
    name = "f\0../../x"
    cut = os.fsencode(f"{layout.root}/{name}").split(b"\0")[0]
    return os.path.exists(cut) and not os.path.exists(os.fsencode(layout.root) + b"/x")


def _weird_files(layout: Layout) -> None:
    for name in CONTROL_NAMES:
        layout.file(name)


def _bytes_name(layout: Layout) -> None:
    os.close(os.open(os.fsencode(layout.root) + b"/bad\xff", os.O_CREAT | os.O_WRONLY, 0o600))


def _portable_twins(layout: Layout) -> None:
    layout.file("k")
    layout.file("\u00e9")


def _staged_files(layout: Layout) -> None:
    for name in (".bailiwick~x", "d/.bailiwick~y", ".bailiwick~z/f"):
        layout.file(name)


def _twins(layout: Layout) -> None:
    for name in ALIAS_NAMES:
        layout.file(name)


CONTROL_NAMES = ("tab\there", "line\nbreak", "\x1b[31mred", "bom\ufeff", "rtl\u202etxt")
ALIAS_NAMES = (".env", ".ENV", "\u00e9", "e\u0301", "\u212a", "K", "a.", "a ", "CON", "aux.txt")

_EXISTING_WEIRD = profile(
    FILE,
    # Such a name may be read and removed; writing it anew may be refused.
    **each("write_overwrite write_text write_stream append edit truncate", "twin|parse_error"),
    **each("move_to copy_to symlink make_dir make_dir_parents write_create move_replace",
           "file_already_exists|parse_error|twin"),
    **each("write_below make_dir_below", "not_a_directory|parse_error"),
)  # fmt: skip

_NEW_WEIRD = profile(
    TWIN,
    **each("write_create write_overwrite write_text write_stream write_below append make_dir"
           " make_dir_parents make_dir_below move_to move_replace copy_to symlink", "parse_error"),
)  # fmt: skip

ROWS = (
    Row("1", "climbs out to a file", ("../outside/secret",), OUTSIDE, control=REACHES),
    Row(
        "2",
        "leaves and comes back",
        ("d/../../root/f", "../root/f", "d/../../root/d/../f"),
        OUTSIDE,
        control=lambda layout: os.path.exists(f"{layout.root}/d/../../root/f"),
    ),
    Row(
        "3",
        "the parent itself",
        ("..", "../", "d/../..", "d/../../", "./..", "../.", "d/e/../../.."),
        OUTSIDE,
        control=("list", "find", "set_mode"),
    ),
    Row("4a", "absolute, outside", ("{outside}/secret",), OUTSIDE, control=REACHES),
    Row(
        "4b",
        "absolute, a place of the machine (looked at only)",
        ("/etc/passwd", "/proc/self/environ"),
        OUTSIDE,
        control=lambda _: os.path.exists("/proc/self/environ"),
    ),
    Row(
        "4c",
        "absolute, inside by the mount point",
        ("{root}/f",),
        FILE,
        no_control="it is inside",
    ),
    Row(
        "5",
        "the empty name",
        ("",),
        profile(
            MALFORMED,
            write_below="path_outside_workspace|parse_error",
            make_dir_below="path_outside_workspace|parse_error",
        ),
        no_control=MALFORMED_TOO,
    ),
    Row(
        "6a",
        "a clean name spelled otherwise",
        ("./f", "d/../f", "d//../f", "./d/./../f", "d/e/../../f"),
        FILE,
        no_control="it is inside",
    ),
    Row(
        "6b",
        "the root itself: looked at and listed, never removed, renamed or replaced",
        (".", "./", "d/.."),
        profile(
            DIRECTORY,
            **each("remove remove_recursive move_from move_replace", "permission_denied"),
            # The root is there; that it is the root may be said as well.
            **each(
                "move_to copy_to symlink make_dir write_create",
                "file_already_exists|permission_denied|is_a_directory",
            ),
            **each("copy_from copy_between", "parse_error|permission_denied"),
        ),
        control=lambda layout: bool(os.listdir(layout.root)),
    ),
    Row(
        "7",
        "NUL",
        ("f\0../../x", "\0", "d\0/g"),
        MALFORMED,
        control=_nul_is_cut,
    ),
    Row(
        "8",
        "a sibling whose name begins like the root's",
        ("../root-evil/secret", "{root}-evil/secret"),
        OUTSIDE,
        control=REACHES,
    ),
    Row(
        "9",
        "a slash after a file",
        ("f/", "f/.", "d/g/"),
        FILE_WITH_SLASH,
        no_control=MALFORMED_TOO,
    ),
    Row(
        "11",
        "a component of 256 bytes, a path of 4097, a depth of 300",
        ("n" * 256, "\u00e9" * 128, "d/" * 2049 + "f", "d/" * 300 + "f"),
        MALFORMED,
        no_control=MALFORMED_TOO,
    ),
    Row(
        "12",
        "900 times in and out",
        ("d/../" * 800 + "f",),
        FILE,
        no_control="it is inside; the work must be bounded",
    ),
    Row(
        "13a",
        "lone surrogates",
        ("bad\udcff", "d/\ud800"),
        MALFORMED,
        build=_bytes_name,
        no_control="the name is inside; the danger is output that cannot be encoded",
    ),
    Row(
        "13b",
        "a directory that holds a name which is not text",
        ("d",),
        # Between two scopes there is no way to pass such a name on, which is said.
        profile(DIRECTORY, **each("list find files glob", "ok"), copy_between="twin|parse_error"),
        build=lambda layout: os.close(
            os.open(os.fsencode(layout.root) + b"/d/bad\xff", os.O_CREAT | os.O_WRONLY, 0o600)
        ),
        no_control="the name is inside; one bad entry must not fail the rest",
    ),
    Row(
        "14a",
        "existing names with control and invisible characters",
        CONTROL_NAMES,
        _EXISTING_WEIRD,
        build=_weird_files,
        no_control=LITERAL,
    ),
    Row(
        "14b",
        "new names with control characters",
        ("new\tname", "new\nname", "\x1b[2J", "\x7f", "\x85"),
        _NEW_WEIRD,
        no_control=LITERAL,
    ),
    Row(
        "15",
        "percent encodings are literal names",
        ("%2e%2e%2foutside%2fsecret", "..%2foutside", "%252e%252e"),
        TWIN,
        no_control=LITERAL,
    ),
    Row(
        "16",
        "backslashes are literal names",
        ("..\\outside\\secret", "d\\g"),
        TWIN,
        no_control=LITERAL,
    ),
    Row(
        "17",
        "tilde and dollar are literal names",
        ("~", "~root", "$HOME", "${HOME}"),
        TWIN,
        no_control=LITERAL,
    ),
    Row(
        "18",
        "names that look like options or patterns",
        ("-rf", "--", "*", "[a]", "{a,b}", "--pre=sh"),
        TWIN,
        no_control=LITERAL,
    ),
    Row(
        "19",
        "names that differ only by case or Unicode form, or that only Windows dislikes",
        ALIAS_NAMES,
        FILE,
        build=_twins,
        no_control=LITERAL,
    ),
    Row(
        "23",
        "drive letters, UNC and device paths",
        ("C:x", "C:\\x", "c:/x", "\\\\srv\\share", "\\\\?\\x", "\\\\.\\x", "//srv/share"),
        OUTSIDE,
        no_control="ordinary names here; refused on every platform alike",
    ),
    Row(
        "23b",
        "a stream suffix is a literal name",
        ("file:stream", "file::$DATA", "PROGRA~1"),
        TWIN,
        no_control=LITERAL,
    ),
    Row(
        "n1",
        "reserved staging names cannot be named",
        (".bailiwick~x", "d/.bailiwick~y", ".bailiwick~z/f"),
        MALFORMED,
        build=_staged_files,
        control=lambda layout: os.path.exists(f"{layout.root}/.bailiwick~x"),
    ),
    Row(
        "n2",
        "parents of a file",
        ("f/x", "f/x/y", "d/g/../g/x"),
        profile("not_a_directory", exists="no", files="not_a_directory|twin"),
        no_control=MALFORMED_TOO,
    ),
    Row(
        "n3",
        "spaces and dots of every kind are literal names",
        (" ", "...", ". .", "\u2024\u2024", "\uff0e\uff0e", "d/ /x", "..."),
        TWIN,
        no_control=LITERAL,
    ),
    Row(
        "n4",
        "an ordinary file, so that a wall of refusals is not mistaken for safety",
        ("f", "d/e/h"),
        FILE,
        no_control="it is inside",
    ),
    Row("n5", "an ordinary directory", ("d", "d/e/", "d/"), DIRECTORY, no_control="it is inside"),
    Row("n6", "an ordinary missing name", ("new", "d/new"), TWIN, no_control="it is inside"),
    Row("n7", "an ordinary missing parent", ("no/new",), profile(TWIN), no_control="it is inside"),
    Row(
        "m1",
        "another mount point: what only looks as if it lay beneath",
        (
            "/workspace-evil/f",
            "/",
            "/workspace/../outside/secret",
            "{root}/f",
            "/work",
            "/workspace/../workspace/f",
            "/workspace/..",
            "{outside}/secret",
        ),
        OUTSIDE,
        no_control="the mount point is a name of ours: a plain call knows nothing of it",
        options=MOUNTED,
    ),
    Row(
        "m2",
        "another mount point: what lies beneath",
        ("/workspace/f", "/workspace//d/../f", "f", "/workspace/./d/e/h"),
        profile("ok"),
        no_control="it is inside",
        options=MOUNTED,
        verbs=("read_bytes", "stat", "write_overwrite", "append", "edit", "remove", "move_from"),
    ),
    Row(
        "p1",
        "portable names: what Windows would alias or refuse",
        (
            "CON",
            "aux.txt",
            "d/nul",
            "com\u00b9",
            "a.",
            "a ",
            "file:stream",
            "PROGRA~1",
            "a<b",
            "q?",
        ),
        profile("parse_error"),
        no_control="ordinary names here; refused for those who will read the tree elsewhere",
        options=PORTABLE,
    ),
    Row(
        "p2",
        "portable names: a new name that is another's twin",
        ("F", "D/new", "\u212a", "e\u0301"),
        profile("file_already_exists|parse_error|path_not_found"),
        build=_portable_twins,
        no_control="two files here, one on other platforms",
        options=PORTABLE,
        verbs=(
            "write_create",
            "write_overwrite",
            "append",
            "make_dir",
            "make_dir_parents",
            "move_to",
            "copy_to",
            "symlink",
            "write_below",
        ),
    ),
)
