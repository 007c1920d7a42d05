"""Every way round a rule that we could think of: each an act on a protected file, by another name.

An attempt gets an `At`: where it may act, and what is protected there. It says all that came back
to the caller; whoever runs it looks for the secret in that, and in the tree.
"""

import io
import tarfile
from typing import NamedTuple

import bailiwick
from bailiwick.model import Edit
from tests.authority.support import everything_said


class At(NamedTuple):
    """One attempt's own directory: ``path`` is protected, ``inner`` is the way to it from ``box``,
    ``box`` is a plain directory above it, ``base`` the one above that; ``plain`` is a file next to
    the box that nobody protects, ``link`` a link to the protected file, ``way`` one to the box."""

    fs: object
    other: object
    base: str
    box: str
    inner: str
    path: str
    secret: str

    @property
    def plain(self):
        return f"{self.base}/plain.txt"

    @property
    def link(self):
        return f"{self.base}/link"

    @property
    def way(self):
        return f"{self.base}/way"

    def free(self, name="free.txt"):
        return f"{self.base}/{name}"


def tree_of(at):
    """What stands there when an attempt begins."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(at.inner)
        entry.size = 6
        archive.addfile(entry, io.BytesIO(b"packed"))
    return {
        at.path: f"token = {at.secret}\nsecond line\n", at.plain: "token = plain\n",
        f"{at.base}/data.tar": packed.getvalue(), at.way: f"-> {at.box.rpartition('/')[2]}",
        at.link: f"-> {at.path[len(at.base) + 1 :]}",
    }  # fmt: skip


async def drained(chunks):
    return b"".join([chunk async for chunk in chunks])


def spellings(at):
    """The protected file by every other name that means the same place."""
    return {
        "dotted": f"./{at.base}/././{at.path[len(at.base) + 1 :]}",
        "up and down": f"{at.box}/nowhere/../{at.inner}",
        "absolute": f"/workspace/{at.path}",
        "doubled": at.path.replace("/", "//"),
        "absolute up": f"/workspace/{at.base}/x/../{at.path[len(at.base) + 1 :]}",
        "link": at.link,
        "link and up": f"{at.base}/way/../{at.path[len(at.base) + 1 :]}",
        "by a linked directory": f"{at.way}/{at.inner}",
    }


async def read_in_every_way(at, path):
    """The verbs that return content, on one spelling; says what came back."""
    fs = at.fs
    acts = (
        lambda: fs.read_text(path), lambda: fs.read_bytes(path), lambda: fs.read_json(path),
        lambda: fs.read_text(path, tail=1), lambda: fs.read_bytes(path, 3, 20),
        lambda: drained(fs.stream(path)), lambda: fs.diff(path, text=""),
        lambda: fs.diff(path, at.plain), lambda: fs.diff(at.plain, path),
        lambda: fs.grep("token", path, context=3), lambda: fs.stat(path), lambda: fs.lstat(path),
        lambda: fs.edit(path, old="second", new="third", dry_run=True),
        lambda: fs.edit(path, [Edit("e", "f")]), lambda: fs.read_text(path + "/"),
    )  # fmt: skip
    return [await outcome(act) for act in acts]


async def outcome(work):
    try:
        return everything_said(await work())
    except bailiwick.BailiwickError as error:
        return everything_said(error)


def _reading(name):
    async def attempt(at):
        return await read_in_every_way(at, spellings(at).get(name, at.path))

    return attempt


async def own_link(at):
    """A link that the agent makes itself, also one to the directory, and one to a link."""
    said = []
    for name, text in (
        ("one", at.path[len(at.base) + 1 :]), ("two", at.box.rpartition("/")[2]), ("three", "one"),
    ):  # fmt: skip
        said.append(await outcome(lambda name=name, text=text: at.fs.symlink(at.free(name), text)))
    for path in (at.free("one"), at.free("three"), f"{at.free('two')}/{at.inner}"):
        said += await read_in_every_way(at, path)
    return said


async def move_then_read(at):
    said = [await outcome(lambda: at.fs.move(at.path, at.free()))]
    return said + await read_in_every_way(at, at.free())


async def move_link_then_read(at):
    said = [await outcome(lambda: at.fs.move(at.link, at.free("elsewhere")))]
    return said + await read_in_every_way(at, at.free("elsewhere"))


async def move_parent_then_read(at):
    said = [await outcome(lambda: at.fs.move(at.box, at.free("moved")))]
    return said + await read_in_every_way(at, f"{at.free('moved')}/{at.inner}")


async def copy_then_read(at):
    said = []
    for number, path in enumerate((at.path, *spellings(at).values())):
        said.append(await outcome(lambda: at.fs.copy(path, at.free(f"copy{number}"))))  # noqa: B023
        said += await read_in_every_way(at, at.free(f"copy{number}"))
    return said


async def copy_parent_then_read(at):
    said = [await outcome(lambda: at.fs.copy(at.box, at.free("copied"), recursive=True))]
    return said + await read_in_every_way(at, f"{at.free('copied')}/{at.inner}")


async def copy_to_another_root(at):
    """Also under a name that nobody protects there, and as a part of a tree."""
    to = at.base.replace("/", "-")
    said = []
    for number, path in enumerate((at.path, at.link, f"{at.way}/{at.inner}")):
        there = f"{to}-{number}.txt"
        said.append(await outcome(lambda: at.other.copy_from(at.fs, path, there)))  # noqa: B023
        said.append(await outcome(lambda: at.other.read_text(there)))  # noqa: B023
    said.append(await outcome(lambda: at.other.copy_from(at.fs, at.box, to, recursive=True)))
    said.append(await outcome(lambda: at.other.read_text(f"{to}/{at.inner}")))
    return said


async def archive_then_read(at):
    said = []
    for number, paths in enumerate(
        (at.path, [at.plain, at.path], at.box, [at.way, at.box], f"{at.way}/{at.inner}", at.base)
    ):
        for end in ("tar", "zip"):
            to = at.free(f"made{number}.{end}")
            said.append(await outcome(lambda: at.fs.create_archive(paths, to)))  # noqa: B023
            said.append(await outcome(lambda: at.fs.read_bytes(to)))  # noqa: B023
            into = at.free(f"into{number}{end}")
            said.append(await outcome(lambda: at.fs.extract_archive(to, into)))  # noqa: B023
            said.append(await outcome(lambda: at.fs.grep("token", into)))  # noqa: B023
    return said


async def look_around(at):
    """Listings and searches of everything above."""
    fs = at.fs
    acts = (
        lambda: fs.grep("token", at.base, include_ignored=True),
        lambda: fs.grep(at.secret, at.base, literal=True, context=2, max_file_bytes=None),
        lambda: fs.grep("token", at.box, report_skipped=False),
        lambda: fs.grep("tok[e]n", at.way, include="**"),
        lambda: fs.glob("**", at.base, include_ignored=True),
        lambda: fs.find(at.base, "*", include_ignored=True),
        lambda: fs.files(at.base, include_ignored=True),
        lambda: fs.list(at.box, include_ignored=True),
        lambda: fs.readlink(at.link),
        lambda: fs.exists(at.path),
    )
    return [await outcome(act) for act in acts]


async def extract_it(at):
    """Taken for an archive: what is wrong with it says what it holds."""
    return [
        await outcome(lambda: at.fs.extract_archive(path, at.free("unpacked")))  # noqa: B023
        for path in (at.path, at.link)
    ]


async def write_next_to_it(at):
    """What it does to files that stand beside must not tell what is in it."""
    said = [await outcome(lambda: at.fs.write_text(at.link, "x"))]
    said.append(await outcome(lambda: at.fs.append(at.link, "x")))
    return [*said, await outcome(lambda: at.fs.move(at.plain, at.link, replace=True))]


READING = {name: _reading(name) for name in ("as it is", *spellings(At(*"abcdefg")))} | {
    attempt.__name__: attempt
    for attempt in (
        own_link, move_then_read, move_link_then_read, move_parent_then_read, copy_then_read,
        copy_parent_then_read, copy_to_another_root, archive_then_read, look_around, extract_it,
        write_next_to_it,
    )
}  # fmt: skip

REVEALS_NOTHING = {"extract_it", "write_next_to_it"}
"""These would not reveal it even if all were allowed."""


# --- writing ------------------------------------------------------------------------------------


def _act(call):
    async def attempt(at):
        return [await outcome(lambda: call(at))]

    return attempt


def _hook(at):
    return at.path.rpartition("/")[0] + "/new"


WRITING = {
    "write_text": lambda at: at.fs.write_text(at.path, "mine"),
    "write_bytes": lambda at: at.fs.write_bytes(at.path, b"mine"),
    "write_json": lambda at: at.fs.write_json(at.path, 1),
    "write_stream": lambda at: at.fs.write_stream(at.path, [b"mi", b"ne"]),
    "append": lambda at: at.fs.append(at.path, "mine"),
    "truncate": lambda at: at.fs.truncate(at.path, 1),
    "edit": lambda at: at.fs.edit(at.path, old="second", new="mine"),
    "set_mode": lambda at: at.fs.set_mode(at.path, 0o700),
    "set_times": lambda at: at.fs.set_times(at.path, 10**18),
    "remove": lambda at: at.fs.remove(at.path),
    "remove the directory": lambda at: at.fs.remove(at.box, recursive=True),
    "remove all": lambda at: at.fs.remove(at.base, recursive=True),
    "move": lambda at: at.fs.move(at.path, at.free()),
    "move the directory": lambda at: at.fs.move(at.box, at.free("moved")),
    "move over it": lambda at: at.fs.move(at.plain, at.path, replace=True),
    "absolute": lambda at: at.fs.write_text(f"/workspace/{at.path}", "mine"),
    "dotted": lambda at: at.fs.write_text(f"./{at.box}/./x/../{at.inner}", "mine"),
    "by a linked directory": lambda at: at.fs.write_text(f"{at.way}/{at.inner}", "mine"),
    "edit by a linked directory": lambda at: at.fs.edit(
        f"{at.way}/{at.inner}", old="second", new="mine"
    ),
    "remove by a linked directory": lambda at: at.fs.remove(f"{at.way}/{at.inner}"),
    "move by a linked directory": lambda at: at.fs.move(f"{at.way}/{at.inner}", at.free()),
    "unpack over it": lambda at: at.fs.extract_archive(
        f"{at.base}/data.tar", at.box, overwrite=True
    ),
    "unpack by a linked directory": lambda at: at.fs.extract_archive(
        f"{at.base}/data.tar", f"{at.way}/", overwrite=True
    ),
    "through a link": lambda at: at.fs.write_text(at.link, "mine"),
    "link over it": lambda at: at.fs.symlink(at.path, "plain.txt"),
    "directory over it": lambda at: at.fs.make_dir(at.path, parents=True),
    "copy over it": lambda at: at.fs.copy(at.plain, at.path),
    "copy_from over it": lambda at: at.fs.copy_from(at.fs, at.plain, at.path),
    "archive over it": lambda at: at.fs.create_archive(
        at.plain, at.path, format="tar", mode="overwrite"
    ),
}

CHANGES_NOTHING = {
    "through a link", "link over it", "directory over it", "copy over it", "copy_from over it",
    "unpack by a linked directory",
}  # fmt: skip
"""Refused whoever asks: these never replace."""

WRITING_ATTEMPTS = {name: _act(call) for name, call in WRITING.items()}
