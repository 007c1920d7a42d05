"""Acts that a rule asks about, and what is asked about them."""

import hashlib

from tests.authority.support import refusal, rule

CHANGING = ("write", "delete", "move")
ASKS = rule("ask", "kept", "kept.txt", access=[*CHANGING])
ASKS_READING = rule("ask", "kept", "kept.txt", access=["read"])
TREE = {"kept.txt": "old\n", "kept/a": "1", "kept/b/c": "2", "free": "f"}


def sha(data):
    return hashlib.sha256(data).hexdigest()


async def in_chunks(*chunks):
    for chunk in chunks:
        yield chunk


# what it is: the act, the paths that are asked about, and the diff that is shown
ACTS = {
    "overwrite": (
        lambda fs: fs.write_text("kept.txt", "new\n"), ("kept.txt",), "-old\n+new\n",
    ),
    "create": (lambda fs: fs.write_text("kept/n", "new\n"), ("kept/n",), "+new\n"),
    "stream": (
        lambda fs: fs.write_stream("kept.txt", in_chunks(b"ne", b"w\n")), ("kept.txt",), None,
    ),
    "append": (lambda fs: fs.append("kept.txt", "more\n"), ("kept.txt",), "+more\n"),
    "edit": (lambda fs: fs.edit("kept.txt", old="old", new="new"), ("kept.txt",), "-old\n+new\n"),
    "truncate": (lambda fs: fs.truncate("kept.txt", 1), ("kept.txt",), "1 bytes"),
    "mode": (lambda fs: fs.set_mode("kept.txt", 0o640), ("kept.txt",), "0640"),
    "times": (lambda fs: fs.set_times("kept.txt", 10**18), ("kept.txt",), str(10**18)),
    "make_dir": (lambda fs: fs.make_dir("kept/d"), ("kept/d",), "directory"),
    "symlink": (lambda fs: fs.symlink("kept/l", "a"), ("kept/l",), "link to a"),
    "remove": (lambda fs: fs.remove("kept.txt"), ("kept.txt",), None),
    "remove tree": (
        lambda fs: fs.remove("kept", recursive=True),
        ("kept", "kept/a", "kept/b", "kept/b/c"), None,
    ),
    "move": (lambda fs: fs.move("kept.txt", "x"), ("kept.txt",), "+++ b/x\n@@ -0,0 +1 @@\n+old\n"),
    "move tree": (
        lambda fs: fs.move("kept", "x"), ("kept", "kept/a", "kept/b", "kept/b/c"),
        "4 entries, 2 bytes",
    ),
    "copy in": (lambda fs: fs.copy("free", "kept/f"), ("kept/f",), "+f\n"),
    "copy_from in": (lambda fs: fs.copy_from(fs, "free", "kept/f"), ("kept/f",), "+f\n"),
    "archive in": (lambda fs: fs.create_archive("free", "kept/f.tar"), ("kept/f.tar",), "free"),
}  # fmt: skip


async def waits(fs, act):
    """Put a question that nobody answers now; its approval's id."""
    error = await refusal(act(fs.with_caller("http", wait_s=0.0)))
    assert (error.kind, error.details["pending"]) == ("approval_timeout", True)
    return error.details["approval_id"]


SURFACE = '[ask]\nsurface = "cli"\ntimeout = "{}"\n'


def surfaced(timeout="5 min"):
    return SURFACE.format(timeout)
