"""Section B: links at rest, and the aliases that links make."""

import os

from tests.hostile.layouts import Layout
from tests.hostile.profiles import (
    DIRECTORY,
    FILE,
    FINAL_DANGLING,
    FINAL_ESCAPE,
    FINAL_INSIDE_DIRECTORY,
    FINAL_INSIDE_FILE,
    LOOP,
    MIDDLE_ESCAPE,
    READS,
    REJECTED_FINAL,
    REJECTED_MIDDLE,
    TWIN,
    WALKS,
    each,
    profile,
)
from tests.hostile.row import Row

FILE_REACHES = ("read_bytes", "stat", "write_overwrite", "append", "edit", "truncate", "set_mode")
BENEATH_REACHES = ("read_bytes", "write_overwrite", "remove", "move_from", "set_times")
DIRECTORY_REACHES = ("list", "find", "grep", "write_below", "make_dir_below")
INSIDE = "it is inside"
REJECT = {"symlinks": "reject"}
# A link that stays inside where it stands may lead out from where its copy would stand.
COPIED_OUT = each("copy_from copy_between", "twin|symlink_escape")


def _links(**targets: str):
    """A builder that plants each link; two underscores in a name stand for a slash."""

    def build(layout: Layout) -> None:
        for name, target in targets.items():
            layout.link(name.replace("__", "/"), target)

    return build


def _chain(length: int, last: str):
    """`c0 -> c1 -> … -> last`: ``length`` links in all."""

    def build(layout: Layout) -> None:
        for number in range(length - 1):
            layout.link(f"c{number}", f"c{number + 1}")
        layout.link(f"c{length - 1}", last)

    return build


def _new_outside_appears(layout: Layout) -> bool:
    with open(f"{layout.root}/dangling", "w") as file:
        file.write("through")
    return os.path.exists(f"{layout.outside}/new")


def _reads_through(name: str):
    def control(layout: Layout) -> bool:
        with open(f"{layout.root}/{name}", "rb") as file:
            return b"CANARY" in file.read(1 << 16)

    return control


def _sticky(layout: Layout) -> None:
    """A link of another user in a directory that everyone may write: some kernels refuse it."""
    os.chmod(layout.directory("sticky"), 0o1777)
    layout.link("sticky/l", "../f")
    if os.getuid() == 0:
        os.lchown(f"{layout.root}/sticky/l", 4242, 4242)


def _tree_with_escapes(layout: Layout) -> None:
    layout.file("t/within")
    layout.link("t/out", "../../outside")
    layout.link("t/out-file", "../../outside/secret")
    layout.link("t/cycle", "..")
    layout.link("t/self", ".")


def _ignore_files(*targets: tuple[str, str]):
    def build(layout: Layout) -> None:
        for name, target in targets:
            layout.link(name, target)

    return build


def _alias_of_staged(layout: Layout) -> None:
    layout.file(".bailiwick~staged")
    layout.link("alias", ".bailiwick~staged")


def _tree_in_tree(layout: Layout) -> None:
    layout.link("dl", "d")
    layout.link("d/up", "..")


ROWS = (
    Row("24a", "a relative link to an outside file", ("rel",), FINAL_ESCAPE,
        _links(rel="../outside/secret"), FILE_REACHES),
    Row("24b", "a relative link to the outside directory", ("rel",), FINAL_ESCAPE,
        _links(rel="../outside"), DIRECTORY_REACHES),
    Row("24c", "through a relative link", ("rel/secret", "rel/box/inner"), MIDDLE_ESCAPE,
        _links(rel="../outside"), BENEATH_REACHES),
    Row("24d", "through a link to something new", ("rel/new", "rel/no/new"), MIDDLE_ESCAPE,
        _links(rel="../outside"), ("write_create", "make_dir", "symlink", "move_to")),
    Row("24e", "a link deeper down", ("d/e/rel/secret", "d/e/rel/box/../secret"), MIDDLE_ESCAPE,
        _links(d__e__rel="../../../outside"), BENEATH_REACHES),
    Row("25a", "an absolute link to an outside file", ("abs",), FINAL_ESCAPE,
        _links(abs="{outside}/secret"), FILE_REACHES),
    Row("25b", "through an absolute link", ("abs/secret",), MIDDLE_ESCAPE,
        _links(abs="{outside}"), BENEATH_REACHES),
    Row("26a", "an absolute link to an inside file", ("absin",), FINAL_ESCAPE,
        _links(absin="{root}/f"), no_control=INSIDE),
    Row("26b", "through an absolute link to an inside directory", ("absin/g",), MIDDLE_ESCAPE,
        _links(absin="{root}/d"), no_control=INSIDE),
    Row("27a", "a chain whose last link escapes", ("c0",),
        profile(FINAL_ESCAPE, readlink="twin|symlink_escape"),
        _chain(3, "../outside/secret"), FILE_REACHES),
    Row("27b", "through a chain whose last link escapes", ("c0/secret",), MIDDLE_ESCAPE,
        _chain(3, "../outside"), BENEATH_REACHES),
    Row("28a", "a link to the root itself", ("d/up",),
        profile(FINAL_INSIDE_DIRECTORY, **COPIED_OUT), _links(d__up=".."), no_control=INSIDE),
    Row("28b", "through a link to the root and back", ("d/up/d/up/f",), FILE,
        _links(d__up=".."), no_control=INSIDE),
    Row("29a", "a link to itself, and two to each other", ("loop", "a"), LOOP,
        _links(loop="loop", a="b", b="a"), no_control="the kernel refuses a loop too"),
    Row("29b", "40 links to a file: the most that are followed", ("c0",), FINAL_INSIDE_FILE,
        _chain(40, "f"), no_control=INSIDE),
    Row("29c", "41 links to a file", ("c0",),
        profile(LOOP), _chain(41, "f"), no_control="the kernel refuses it too"),
    Row("29d", "a loop in the middle", ("loop/x",),
        profile("too_many_links", exists="no|too_many_links"), _links(loop="loop"),
        no_control="the kernel refuses a loop too"),
    Row("30", "dot-dot typed after a link is taken by the text", ("dl/../f", "dl/../d/g"), FILE,
        _links(dl="d/e"), no_control=INSIDE),
    Row("31", "a dangling link out, then creating through it", ("dangling",), FINAL_ESCAPE,
        _links(dangling="../outside/new"), _new_outside_appears),
    Row("32a", "links to magic and device files", ("fd", "zero", "stdin", "environ"), FINAL_ESCAPE,
        _links(fd="/proc/self/fd/0", zero="/dev/zero", stdin="/dev/stdin",
               environ="/proc/self/environ"),
        lambda layout: os.access(f"{layout.root}/environ", os.R_OK)),
    Row("32b", "through a magic link", ("cwd/f", "top/etc/passwd"), MIDDLE_ESCAPE,
        _links(cwd="/proc/self/cwd", top="/proc/self/root"),
        lambda layout: os.path.exists(f"{layout.root}/top/etc")),
    Row("35", "a tree with links out and cycles", ("t",),
        profile(DIRECTORY, **COPIED_OUT),
        _tree_with_escapes, _reads_through("t/out-file")),
    Row("36", "a link in a directory reached by a link", ("dl/rel/secret", "dl/rel"),
        profile(MIDDLE_ESCAPE, **each(
            "lstat remove remove_recursive move_from move_replace", "twin|symlink_escape"),
            **each("move_to copy_to symlink make_dir make_dir_parents write_create",
                   "file_already_exists|symlink_escape"),
            **each("copy_from copy_between", "twin|symlink_escape")),
        _links(dl="d", d__rel="../../outside"), BENEATH_REACHES),
    Row("38", "another user's link in a sticky directory", ("sticky/l",),
        profile(FINAL_INSIDE_FILE, **COPIED_OUT), _sticky, no_control=INSIDE),
    Row("38b", "a filesystem mounted so that no link is followed", ("ld/g", "lf"),
        profile("symlink_escape|too_many_links",
                exists="no|symlink_escape|too_many_links",
                **each("lstat readlink remove remove_recursive move_from move_replace copy_from"
                       " copy_between", "ok|symlink_escape|too_many_links"),
                **each("move_to copy_to symlink make_dir make_dir_parents write_create",
                       "file_already_exists|symlink_escape|too_many_links")),
        _links(lf="f", ld="d"), no_control=INSIDE, place="nofollow"),
    Row("l1", "a link that leaves and returns", ("back", "back2"), FINAL_ESCAPE,
        _links(back="../root/f", back2="d/../../root/d/g"),
        lambda layout: os.path.exists(f"{layout.root}/back")),
    Row("l2", "link texts with odd slashes", ("slash", "double", "dotted"), FINAL_ESCAPE,
        _links(slash="../outside/", double="..//outside", dotted="./.././outside/."),
        DIRECTORY_REACHES),
    Row("l3", "a link to a file with a slash after it", ("filed",),
        profile(FINAL_INSIDE_FILE, **each(f"{READS} {WALKS} stat grep", "not_a_directory"),
                exists="no|not_a_directory"),
        _links(filed="f/"), no_control="the kernel refuses it too"),
    Row("l4", "a link text of 4095 bytes that stays inside", ("long",), FINAL_INSIDE_FILE,
        _links(long="./" * 2047 + "f"), no_control=INSIDE),
    Row("l5", "a dangling link inside", ("dang",), FINAL_DANGLING,
        _links(dang="d/none"), no_control=INSIDE),
    Row("l6", "a link to a file inside, from below", ("d/e/lf",),
        profile(FINAL_INSIDE_FILE, **COPIED_OUT), _links(d__e__lf="../../f"), no_control=INSIDE),
    Row("l7", "a link to a directory inside", ("dl",), FINAL_INSIDE_DIRECTORY,
        _links(dl="d"), no_control=INSIDE),
    Row("l8", "through a link to a directory inside", ("dl/g", "dl/e/h"), FILE,
        _links(dl="d"), no_control=INSIDE),
    Row("l9", "something new through a link to a directory inside", ("dl/new",), TWIN,
        _links(dl="d"), no_control=INSIDE),
    Row("l10", "a link to a reserved staging name", ("alias",),
        profile(FINAL_INSIDE_FILE, **each(f"{READS} list find glob stat grep",
                "parse_error|path_not_found|symlink_escape"),
                files="ok|parse_error|path_not_found|symlink_escape",
                exists="no|parse_error|symlink_escape",
                readlink="twin|symlink_escape|parse_error",
                **each("copy_from copy_between", "twin|symlink_escape|parse_error"),
                **each("write_below make_dir_below",
                       "not_a_directory|parse_error|symlink_escape|path_not_found")),
        _alias_of_staged,
        lambda layout: os.path.exists(f"{layout.root}/alias")),
    Row("l11", "a trailing slash on a link out", ("rel/", "rel/."), MIDDLE_ESCAPE
        | each("lstat remove remove_recursive move_from move_to move_replace copy_from copy_between"
               " copy_to make_dir make_dir_parents symlink write_create write_overwrite write_text"
               " write_stream append edit truncate set_mode set_times readlink files",
               "symlink_escape|not_a_directory|file_already_exists|parse_error"),
        _links(rel="../outside"), DIRECTORY_REACHES),
    Row("l12", "ignore files that are links out", (".",),
        profile("ok"), _ignore_files((".gitignore", "../outside/secret"),
                                     ("d/.gitignore", "{outside}/secret"),
                                     (".bailiwickignore", "../outside")),
        _reads_through(".gitignore"), verbs=("list", "find", "files", "glob", "grep")),
    Row("l13", "moving and copying a directory into itself by an alias", ("dl/new", "d/up/d/new"),
        profile("parse_error"), _tree_in_tree, verbs=("move_directory_to", "copy_directory_to"),
        no_control="the kernel refuses the move too; a copy would never end"),
    Row("r1", "links rejected: a link to a file inside", ("lf", "ld", "rel", "abs"), REJECTED_FINAL,
        _links(lf="f", ld="d", rel="../outside/secret", abs="{outside}/secret"),
        lambda layout: os.path.exists(f"{layout.root}/rel"), options=REJECT),
    Row("r2", "links rejected: through a link", ("out/secret", "ld/g", "d/up/f"), REJECTED_MIDDLE,
        _links(ld="d", out="../outside", d__up=".."), ("stat",), options=REJECT),
    Row("r3", "links rejected: making one", ("new",),
        profile("symlink_escape|unsupported|policy_denied"), verbs=("symlink",),
        no_control=INSIDE, options=REJECT),
    Row("r4", "links rejected: ordinary files still work", ("f", "d/g"), FILE,
        no_control=INSIDE, options=REJECT),
    Row("r5", "links rejected: a loop is only a link", ("loop",),
        profile(REJECTED_FINAL), _links(loop="loop"), no_control=INSIDE, options=REJECT),
)  # fmt: skip
