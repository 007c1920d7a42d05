"""What each verb may answer, for each class of attack.

A profile maps a verb, or `*` for the rest, to the outcomes that are right, separated by `|`:

- a kind of error, `symlink_escape`;
- `twin`: what the plain call gives on a twin tree, in value or error, and the same tree after it;
- `ok`: success, whatever the value;
- `yes`, `no`: the answer of `exists`.

More than one outcome stands only where the rules leave the choice open.
"""

Profile = dict[str, str]


def profile(base: str | Profile, **verbs: str) -> Profile:
    """A profile from a default or another profile, with other answers for some verbs."""
    start = {"*": base} if isinstance(base, str) else base
    return {**start, **verbs}


def each(names: str, outcome: str) -> Profile:
    return dict.fromkeys(names.split(), outcome)


READS = "read_bytes read_text read_json stream diff diff_to"
WALKS = "list find files glob"
INTO = "list find glob"
"""Walks that want a directory: `files` of a file is that file."""

OUTSIDE = profile("path_outside_workspace")
MALFORMED = profile("parse_error")
TWIN = profile("twin")

# The name is a link that leads outside: it can be looked at, removed and renamed as the link that
# it is, and nothing passes through it.
FINAL_ESCAPE = profile(
    "symlink_escape",
    lstat="twin",
    remove="twin",
    remove_recursive="twin",
    move_from="twin",
    move_replace="twin",
    move_to="file_already_exists",
    copy_to="file_already_exists",
    symlink="file_already_exists",
    make_dir="file_already_exists",
    make_dir_parents="file_already_exists|symlink_escape",
    write_create="file_already_exists|symlink_escape",
    # Links are copied as links; one that leads out may be copied or refused, never followed.
    copy_from="twin|symlink_escape",
    copy_between="twin|symlink_escape",
    exists="no|symlink_escape",
)

# A link that leads outside stands in the middle: nothing beyond it exists for the caller.
MIDDLE_ESCAPE = profile("symlink_escape", exists="no|symlink_escape")

# A link that leads nowhere, but stays inside.
FINAL_DANGLING = profile(
    FINAL_ESCAPE,
    **each(f"{READS} stat find list glob grep", "path_not_found"),
    files="path_not_found|twin|ok",
    exists="no",
    readlink="twin",
    copy_from="twin",
    copy_between="twin",
    # Writing through a final link is refused, wherever it leads.
    **each("write_below make_dir_below", "path_not_found|symlink_escape|not_a_directory"),
)

# The name is a link to a file inside: reads follow it, writes do not.
FINAL_INSIDE_FILE = profile(
    FINAL_ESCAPE,
    **each(f"{READS} {WALKS} stat grep readlink exists", "twin"),
    copy_from="twin",
    copy_between="twin",
    **each("write_below make_dir_below", "not_a_directory"),
)

# The name is a link to a directory inside: what lies beneath it is reached through it.
FINAL_INSIDE_DIRECTORY = profile(
    FINAL_INSIDE_FILE,
    **each("write_below make_dir_below", "twin"),
    **each("write_overwrite write_text write_stream append edit truncate", "symlink_escape"),
    make_dir_parents="file_already_exists|symlink_escape|twin",
)

# Links are rejected: any link can be looked at and removed, none is followed or made.
REJECTED_FINAL = profile(
    FINAL_ESCAPE, readlink="twin|symlink_escape", copy_from="twin|symlink_escape"
)
REJECTED_MIDDLE = MIDDLE_ESCAPE

LOOP = profile(
    FINAL_ESCAPE,
    **each(f"{READS} {WALKS} stat grep", "too_many_links"),
    exists="no|too_many_links",
    readlink="twin",
    copy_from="twin",
    copy_between="twin",
    **each("write_below make_dir_below", "too_many_links|symlink_escape"),
)

# Neither file nor directory: looked at, renamed and removed like anything else, never opened.
NOT_REGULAR = profile(
    "not_a_regular_file",
    **each("stat lstat remove remove_recursive move_from move_replace", "twin"),
    exists="yes",
    **each(f"{WALKS} write_below make_dir_below", "not_a_directory"),
    **each("move_to copy_to symlink make_dir make_dir_parents", "file_already_exists"),
    write_create="file_already_exists|not_a_regular_file",
    readlink="parse_error",
    # Modes and times are not content; changing them opens nothing.
    set_mode="twin|not_a_regular_file",
    set_times="twin|not_a_regular_file",
)

# More than one name, where that is refused.
HARDLINKED = profile(
    "hardlink_refused",
    **each("stat lstat exists remove remove_recursive move_from move_replace", "twin"),
    **each("move_to copy_to symlink make_dir make_dir_parents write_create", "file_already_exists"),
    **each(f"{INTO} write_below make_dir_below", "not_a_directory"),
    readlink="parse_error",
    files="ok",
    grep="ok|hardlink_refused",
    # Replacement makes a new file; refusing is the rule, since writing counts as touching it.
    set_mode="hardlink_refused|permission_denied",
    set_times="hardlink_refused|permission_denied",
)

# More than one name, where that is allowed: every change makes a new file, never the old one.
HARDLINK_ALLOWED = profile(
    "ok",
    **each("read_json readlink", "parse_error"),
    **each("move_to copy_to symlink make_dir make_dir_parents write_create", "file_already_exists"),
    **each(f"{INTO} write_below make_dir_below", "not_a_directory"),
    exists="yes",
)

DIRECTORY = profile(
    TWIN,
    **each(f"{READS} write_overwrite write_text write_stream append edit truncate",
           "is_a_directory"),
    **each("move_to copy_to symlink make_dir", "file_already_exists"),
    write_create="file_already_exists|is_a_directory",
    readlink="parse_error",
    # A file does not replace a directory, whatever the kernel calls it.
    move_replace="is_a_directory|file_already_exists|directory_not_empty",
)  # fmt: skip

FILE = profile(
    TWIN,
    **each("move_to copy_to symlink make_dir write_create make_dir_parents",
           "file_already_exists"),
    **each("read_json readlink", "parse_error"),
)  # fmt: skip

# A file is named with a slash at the end, which demands a directory.
FILE_WITH_SLASH = profile("not_a_directory", exists="no|not_a_directory")
