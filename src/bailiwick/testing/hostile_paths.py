"""Names that attackers, accidents and other systems send, and what each must come to.

One table for the path parser, every store and every front. A row is either refused, with one of
the kinds it lists and before anything is touched, or it is an ordinary name (``literal``): taken
for what it says, decoded by nobody. Platform-independent: what only Windows dislikes is literal
here, and refused where a root keeps names portable (``portable_refuses``).
"""

from __future__ import annotations

from typing import NamedTuple

OUTSIDE = "path_outside_workspace"
PARSE = "parse_error"


class HostilePath(NamedTuple):
    """``kinds`` are the error kinds allowed; empty where the text is an ordinary name."""

    text: str
    what: str
    kinds: frozenset[str] = frozenset()
    portable_refuses: bool = False

    @property
    def literal(self) -> bool:
        return not self.kinds

    @property
    def id(self) -> str:
        return self.what.replace(" ", "-")


def _refused(text: str, what: str, *kinds: str) -> HostilePath:
    return HostilePath(text, what, frozenset(kinds))


def _literal(text: str, what: str) -> HostilePath:
    return HostilePath(text, what)


def _windows(text: str, what: str) -> HostilePath:
    return HostilePath(text, what, portable_refuses=True)


CLIMBING = (
    _refused("..", "the parent of the root", OUTSIDE),
    _refused("../", "the parent with a slash", OUTSIDE),
    _refused("../..", "two levels up", OUTSIDE),
    _refused("../outside/secret", "a file beside the root", OUTSIDE),
    _refused("d/../..", "down and twice up", OUTSIDE),
    _refused("d/../../root/f", "out and back in", OUTSIDE),
    _refused("./../f", "a dot before climbing", OUTSIDE),
    _refused("d//..//../f", "doubled slashes while climbing", OUTSIDE),
    _refused("a/b/../../../f", "one level too many", OUTSIDE),
    _refused("../" * 900 + "f", "900 levels up", OUTSIDE),
    _refused("d/../" * 900 + "../f", "an over-long way round", PARSE, OUTSIDE),
)

HOST_PLACES = (
    _refused("//server/share", "a network share with slashes", OUTSIDE),
    _refused("//etc/passwd", "a doubled leading slash", OUTSIDE),
    _refused("\\\\server\\share", "a network share", OUTSIDE),
    _refused("\\\\?\\C:\\x", "a Windows extended path", OUTSIDE),
    _refused("\\\\.\\pipe\\x", "a Windows device path", OUTSIDE),
    _refused("C:\\Windows", "a drive path", OUTSIDE),
    _refused("C:/Windows", "a drive path with slashes", OUTSIDE),
    _refused("c:x", "a drive-relative path", OUTSIDE),
    _refused("Z:", "a bare drive", OUTSIDE),
    _refused("f:stream", "a stream of a file of one letter", OUTSIDE),
)

NOT_PATHS = (
    _refused("", "an empty path", PARSE),
    _refused("\0", "a NUL alone", PARSE),
    _refused("f\0", "a NUL at the end", PARSE),
    _refused("f\0../../x", "a NUL that hides the rest", PARSE),
    _refused("a/\0/b", "a NUL as a name", PARSE),
    _refused("\ud800", "a lone high surrogate", PARSE),
    _refused("a/\udcff", "a byte smuggled as a surrogate", PARSE),
    _refused("n" * 256, "a name of 256 bytes", PARSE),
    _refused("é" * 128, "a name of 256 bytes in 128 characters", PARSE),
    _refused("d/" + "n" * 256 + "/f", "a long name in the middle", PARSE),
    _refused("/".join(["d" * 100] * 41), "a path of over 4096 bytes", PARSE),
    _refused("/".join("d" * 257), "257 levels", PARSE),
    _refused(".bailiwick~x", "a reserved name", PARSE),
    _refused("d/.bailiwick~x/f", "a reserved name in the middle", PARSE),
)

LITERAL = (
    _literal("...", "three dots"),
    _literal("..a", "dots and a letter"),
    _literal("a..", "a letter and dots"),
    _literal(".hidden", "a dot file"),
    _literal("%2e%2e%2fsecret", "percent-encoded dots"),
    _literal("..%2fsecret", "a percent-encoded slash"),
    _literal("%252e%252e%252f", "twice percent-encoded dots"),
    _literal("%00", "a percent-encoded NUL"),
    _literal("~", "a tilde"),
    _literal("~root", "a tilde and a user"),
    _literal("$HOME", "a shell variable"),
    _literal("$(id)", "a shell substitution"),
    _literal("`id`", "backquotes"),
    _literal("-rf", "a leading dash"),
    _literal("--", "two dashes"),
    _literal(";ls", "a semicolon"),
    _literal("&", "an ampersand"),
    _literal("'", "a quote"),
    _literal("[a-z]", "a character class"),
    _literal("{a,b}", "braces"),
    _literal("#", "a hash"),
    _literal("@", "an at sign"),
    _literal("é", "a composed accent"),
    _literal("e\u0301", "a combining accent"),
    _literal("\u212a", "the Kelvin sign"),
    _literal("\u2215", "a division slash"),
    _literal("\uff0e\uff0e\uff0fx", "full-width dots and slash"),
    _literal("\u2024\u2024", "one-dot leaders"),
    _literal("日本語", "Japanese"),
    _literal("🗂️", "an emoji with a variation selector"),
    _literal("n" * 255, "a name of 255 bytes"),
    _literal("é" * 127 + "n", "a name of 255 bytes in 128 characters"),
    _literal(".git", "the directory of a repository"),
    _literal("__proto__", "a name that scripts mistake"),
    _literal("0", "a digit"),
)

WINDOWS_ONLY = (
    _windows("CON", "a device name"),
    _windows("aux.txt", "a device name with extension"),
    _windows("nul", "a device name in lower case"),
    _windows("COM1", "a serial port"),
    _windows("COM\u00b9", "a serial port with superscript digit"),
    _windows("LPT9.log", "a printer port with extension"),
    _windows("CONIN$", "the console"),
    _windows("a.", "a trailing dot"),
    _windows("a ", "a trailing space"),
    _windows(" ", "a space alone"),
    _windows("file:stream", "an alternate stream"),
    _windows("PROGRA~1", "a short name"),
    _windows("..\\x", "backslash climbing"),
    _windows("a\\b", "a backslash"),
    _windows("\\x", "a leading backslash"),
    _windows("*", "a star"),
    _windows("?", "a question mark"),
    _windows("<>", "angle brackets"),
    _windows("a|b", "a pipe"),
    _windows('"', "a double quote"),
)

CONTROL = (
    _refused("a\nb", "a newline in a new name", PARSE),
    _refused("a\rb", "a carriage return in a new name", PARSE),
    _refused("\x1b[2J", "a terminal escape in a new name", PARSE),
    _refused("\x7f", "DEL in a new name", PARSE),
    _refused("\x85", "a C1 control in a new name", PARSE),
    _refused("a\tb", "a tab in a new name", PARSE),
)
"""Refused only where they would be created: existing ones can be read (by scopes, not stores)."""

DISGUISED = (
    _literal("a\u202etxt.exe", "a right-to-left override"),
    _literal("a\u200bb", "a zero-width space"),
    _literal("\ufeffa", "a byte order mark"),
    _literal("a\u00a0b", "a no-break space"),
)
"""Ordinary names which every listing, log and error must make visible."""

MOUNT_POINT = "/work"

OUTSIDE_MOUNT_POINT = (
    _refused("/etc/passwd", "an absolute path elsewhere", OUTSIDE),
    _refused("/", "the root of the machine", OUTSIDE),
    _refused("/wor", "a part of the mount point", OUTSIDE),
    _refused("/work-evil/s", "a twin by prefix", OUTSIDE),
    _refused("/workx", "a longer name", OUTSIDE),
    _refused("/WORK/f", "the mount point in capitals", OUTSIDE),
    _refused("/work/..", "the mount point's parent", OUTSIDE),
    _refused("/work/../work/f", "out of the mount point and back", OUTSIDE),
    _refused("/work/d/../../etc", "through the mount point and out", OUTSIDE),
    _refused("/x/../work/f", "in by way of elsewhere", OUTSIDE),
    _refused("/.//etc", "elsewhere with dots", OUTSIDE),
)
"""Absolute texts that lie outside where the mount point is `MOUNT_POINT`."""

REFUSED = CLIMBING + HOST_PLACES + NOT_PATHS
ORDINARY = LITERAL + WINDOWS_ONLY + DISGUISED
HOSTILE_PATHS = REFUSED + ORDINARY
"""The table: everything a path parser, a store or a front may be sent."""

SAME_PLACE = (
    ("d/f", "./d/f"),
    ("d/f", "d//f"),
    ("d/f", "d/./f"),
    ("d/f", "d/x/../f"),
    ("d/f", "x/../d/f"),
    ("d/f", "/d/f"),
    ("d/f", "/./d//f"),
    (".", "./"),
    (".", "d/.."),
    (".", "/"),
)
"""A canonical path and another spelling of it, under the mount point ``/``."""
