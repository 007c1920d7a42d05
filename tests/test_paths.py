"""From untrusted text to a place in a root."""

import pathlib

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from bailiwick.errors import KINDS, ParseError, PathOutsideWorkspace, SymlinkEscape
from bailiwick.paths import (
    DEPTH_MAX,
    NAME_BYTES_MAX,
    PATH_BYTES_MAX,
    RESERVED_PREFIX,
    ROOT,
    ScopedPath,
    check_new_name,
    check_stays_inside,
    folded,
    from_parts,
    link_steps,
    parse,
    tree_too_deep,
)
from bailiwick.testing.hostile_paths import (
    CONTROL,
    DISGUISED,
    HOSTILE_PATHS,
    LITERAL,
    MOUNT_POINT,
    ORDINARY,
    OUTSIDE_MOUNT_POINT,
    REFUSED,
    SAME_PLACE,
    WINDOWS_ONLY,
)

# Path text as attackers and accidents write it: the pieces that mean something, in any order.
pieces = st.sampled_from(
    ["/", "/", "..", ".", "a", "b", "A", "\\", "C:", "~", "\0", "\n", "é", "e\u0301", " ", "%2f"]
)
path_like = st.one_of(st.lists(pieces, max_size=12).map("".join), st.text(max_size=40))
mount_points = st.sampled_from(["/", "/work", "/work/", "/a", "/a/b", "//a"])


def ids(row):
    return row.id


def parsed_or_refused(text, **options):
    try:
        return parse(text, **options)
    except (ParseError, PathOutsideWorkspace):
        return None


@pytest.mark.spec("PATH-2", "PATH-3", "PATH-4")
@pytest.mark.parametrize("row", REFUSED, ids=ids)
def test_hostile_text_is_refused(row):
    with pytest.raises(tuple(KINDS[kind] for kind in row.kinds)):
        parse(row.text)


@pytest.mark.spec("PATH-4")
@pytest.mark.parametrize("row", ORDINARY, ids=ids)
def test_odd_text_is_an_ordinary_name(row):
    assert parse(row.text) == (row.text, False)
    assert parse(f"d/{row.text}/f") == (f"d/{row.text}/f", False)
    check_new_name(row.text)


@pytest.mark.spec("PATH-1")
@pytest.mark.parametrize("row", OUTSIDE_MOUNT_POINT, ids=ids)
def test_an_absolute_path_elsewhere_is_outside(row):
    with pytest.raises(PathOutsideWorkspace):
        parse(row.text, mount_point=MOUNT_POINT)


@pytest.mark.spec("PATH-7")
@pytest.mark.parametrize("row", REFUSED + OUTSIDE_MOUNT_POINT, ids=ids)
def test_a_refusal_does_not_repeat_what_was_sent(row):
    with pytest.raises((ParseError, PathOutsideWorkspace)) as caught:
        parse(row.text, mount_point=MOUNT_POINT)
    error = caught.value
    assert error.path is None
    assert not [word for word in ("etc", "passwd", "secret", "server") if word in str(error)]


@pytest.mark.spec("PATH-1")
@pytest.mark.parametrize(
    ("text", "path", "directory"),
    [
        ("/work", ".", True),
        ("/work/", ".", True),
        ("/work/f", "f", False),
        ("/work/d/", "d", True),
        ("/./work//d/../f", "f", False),
        ("f", "f", False),
        ("work/f", "work/f", False),
    ],
)
def test_absolute_paths_begin_at_the_mount_point(text, path, directory):
    parsed = parse(text, mount_point=MOUNT_POINT)
    assert parsed.path == path
    if path != ".":
        assert parsed.directory == directory


@pytest.mark.spec("PATH-1")
@given(mount_point=mount_points, suffix=st.sampled_from(["-evil", "x", ".", "..", " ", "%"]))
def test_a_twin_of_the_mount_point_is_outside(mount_point, suffix):
    bare = mount_point.rstrip("/")
    if not bare or bare.startswith("//"):
        return
    with pytest.raises(PathOutsideWorkspace):
        parse(f"{bare}{suffix}/f", mount_point=mount_point)


@pytest.mark.spec("PATH-2")
@pytest.mark.parametrize(("canonical", "spelling"), SAME_PLACE)
def test_every_spelling_gives_one_path(canonical, spelling):
    assert parse(spelling).path == canonical


@pytest.mark.spec("PATH-2")
@pytest.mark.parametrize(
    ("text", "directory"),
    [
        ("f", False), ("d/f", False), ("...", False), ("a..", False), (".f", False),
        ("f/", True), ("f//", True), ("f/.", True), ("d/f/..", True), (".", True), ("./", True),
        ("f/./", True), ("d/..", True), ("/f/", True), ("/f/.", True), ("/d/f/..", True),
        ("/", True), ("/.", True),
    ],
)  # fmt: skip
def test_a_trailing_slash_demands_a_directory(text, directory):
    assert parse(text).directory is directory


@pytest.mark.spec("PATH-2", "PATH-3")
@given(text=path_like, mount_point=mount_points)
@example(text="a/b/../../..", mount_point="/")
@example(text="/a/../a", mount_point="/a")
def test_what_is_parsed_is_canonical(text, mount_point):
    parsed = parsed_or_refused(text, mount_point=mount_point)
    if parsed is None:
        return
    path = parsed.path
    assert type(path) is ScopedPath
    assert not set(path.parts) & {"", ".", ".."}
    assert not any("/" in part or "\0" in part for part in path.parts)
    assert "/".join(path.parts) == (path if path != "." else "")
    assert len(path.encode()) <= PATH_BYTES_MAX


@pytest.mark.spec("PATH-2")
@given(text=path_like)
def test_parsing_again_changes_nothing(text):
    parsed = parsed_or_refused(text)
    # A canonical name that looks like a drive is reached as "./c:x", and only so.
    if parsed is not None and parsed.path[1:2] != ":" and not parsed.path.startswith("\\\\"):
        assert parse(parsed.path).path == parsed.path


@pytest.mark.spec("PATH-1")
@given(text=path_like)
def test_absolute_and_relative_forms_name_the_same_place(text):
    parsed = parsed_or_refused(text)
    if parsed is not None and not text.startswith("/"):
        assert parsed_or_refused(f"/work/{text}", mount_point="/work") == parsed


@pytest.mark.spec("PATH-2")
@given(names=st.lists(st.sampled_from(["a", "b", "..", "."]), min_size=1, max_size=10))
def test_climbing_above_the_root_is_refused_at_any_point(names):
    depth, climbed = 0, False
    for name in names:
        depth += {"..": -1, ".": 0}.get(name, 1)
        climbed = climbed or depth < 0
    assert (parsed_or_refused("/".join(names)) is None) == climbed


@pytest.mark.spec("PATH-3")
@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("n" * NAME_BYTES_MAX, True),
        ("n" * (NAME_BYTES_MAX + 1), False),
        ("é" * 127, True),
        ("é" * 128, False),
        ("🗂" * 63, True),
        ("🗂" * 64, False),
        ("/".join(["d"] * DEPTH_MAX), True),
        ("/".join(["d"] * (DEPTH_MAX + 1)), False),
        ("/".join(["d" * 240] * 17), True),
        ("/".join(["d" * 240] * 18), False),
        ("x" * PATH_BYTES_MAX, False),
        ("./" * 2047 + "ff", True),
        ("./" * 2048 + "f", False),
    ],
)
def test_limits_are_counted_in_bytes(text, fits):
    assert (parsed_or_refused(text) is not None) is fits


@pytest.mark.spec("PATH-3")
@given(text=st.text(st.characters(categories=["Cs"]), min_size=1, max_size=3))
def test_lone_surrogates_are_refused(text):
    with pytest.raises(ParseError):
        parse(f"a{text}")


@pytest.mark.spec("PATH-3")
@pytest.mark.parametrize("value", [b"f", 7, None, ["f"], object()])
def test_a_path_is_text(value):
    with pytest.raises(ParseError):
        parse(value)


@pytest.mark.spec("PATH-1")
def test_path_objects_are_taken():
    assert parse(pathlib.PurePosixPath("d/f")).path == "d/f"
    assert parse(ScopedPath("d/f")).path == "d/f"


@pytest.mark.spec("PATH-4")
@pytest.mark.parametrize("row", WINDOWS_ONLY, ids=ids)
def test_portable_roots_refuse_what_windows_dislikes(row):
    for text in (row.text, f"d/{row.text}", f"{row.text}/f"):
        with pytest.raises((ParseError, PathOutsideWorkspace)):
            parse(text, names="portable")


@pytest.mark.spec("PATH-4")
@pytest.mark.parametrize("row", [row for row in LITERAL if not row.text.endswith(".")], ids=ids)
def test_portable_roots_keep_other_odd_names(row):
    assert parse(row.text, names="portable").path == row.text


@pytest.mark.spec("PATH-4")
@pytest.mark.parametrize(
    "name", ["thesis.tex", "console", "com", "com10", "nullable", "auxiliary", "a.con", "lpt"]
)
def test_names_that_only_resemble_devices_are_portable(name):
    assert parse(name, names="portable").path == name


@pytest.mark.spec("PATH-4")
@pytest.mark.parametrize(
    ("one", "other"),
    [("A", "a"), ("é", "e\u0301"), ("É", "e\u0301"), ("\u212a", "k"), ("ß", "SS"), ("ﬁ", "FI")],
)
def test_twins_fold_to_one_name(one, other):
    assert one != other
    assert folded(one) == folded(other) != folded("another")


@pytest.mark.spec("PATH-4")
@given(name=st.text(max_size=8))
def test_folding_twice_is_folding_once(name):
    assert folded(folded(name)) == folded(name)


@pytest.mark.spec("PATH-5")
@pytest.mark.parametrize("row", CONTROL, ids=ids)
def test_new_names_hold_no_control_characters_but_existing_ones_can_be_named(row):
    assert parse(row.text).path == row.text
    with pytest.raises(ParseError) as caught:
        check_new_name(row.text)
    assert str(caught.value).isprintable()


@pytest.mark.spec("PATH-5")
@pytest.mark.parametrize("row", DISGUISED, ids=ids)
def test_disguises_are_shown_in_errors(row):
    error = ParseError("is odd", path=row.text)
    assert row.text not in str(error)
    assert "\\u" in str(error) or "\\x" in str(error)


def test_reserved_names_are_not_given_out():
    for text in (RESERVED_PREFIX, f"{RESERVED_PREFIX}x", f"d/{RESERVED_PREFIX}x/f"):
        with pytest.raises(ParseError):
            parse(text)
    assert parse(f"x{RESERVED_PREFIX}").path == f"x{RESERVED_PREFIX}"


def test_a_path_knows_its_parts():
    path = parse("a/b/c").path
    assert (path.parts, path.name, path.parent) == (("a", "b", "c"), "c", "a/b")
    assert (ROOT.parts, ROOT.name, ROOT.parent, ROOT.is_root) == ((), "", ".", True)
    assert path.parent.parent.parent == ROOT
    assert ROOT.child("a").child("b") == "a/b"
    assert from_parts(path.parts) == path


@pytest.mark.spec("PATH-1")
def test_lying_in_a_directory_is_by_components():
    path = ScopedPath("work/f")
    assert path.lies_in(ScopedPath("work"))
    assert path.lies_in(path)
    assert path.lies_in(ROOT)
    assert not path.lies_in(ScopedPath("wor"))
    assert not ScopedPath("work-evil/f").lies_in(ScopedPath("work"))
    assert not ScopedPath("work").lies_in(path)


def test_a_directory_stands_before_what_lies_in_it_and_before_names_that_begin_like_it():
    paths = [ScopedPath(each) for each in (".", "a", "a/b", "a/b/c", "a-b", "a.b", "ab")]
    assert sorted(paths, key=lambda path: path.order) == paths


def test_a_tree_that_is_too_deep_says_where_it_would_stand():
    refused = tree_too_deep("a/b")
    assert (refused.kind, refused.path) == ("parse_error", "a/b")
    assert refused.details == {"limit": DEPTH_MAX}


@pytest.mark.parametrize(("text", "levels"), [(".", 0), ("a", 1), ("a/b", 2), ("a/b/c", 3)])
def test_levels_are_counted_by_components(text, levels):
    assert ScopedPath(text).levels == levels


@pytest.mark.spec("LINK-2")
@pytest.mark.parametrize(
    ("text", "steps"),
    [("a", ["a"]), ("a//b", ["a", "b"]), ("../a/", ["..", "a", "."]), ("/", ["."]), ("", [])],
)
def test_a_trailing_slash_of_a_link_demands_a_directory(text, steps):
    assert link_steps(text) == steps


@pytest.mark.spec("LINK-2")
@pytest.mark.parametrize(
    ("target", "inside"),
    [
        ("f", True), ("./f", True), ("..", True), ("../f", True), ("../b/../f", True),
        ("c//./../..", True), ("/f", False), ("/", False), ("../..", False), ("../../f", False),
        ("c/../../../f", False), (".././../f", False), ("..//../f", False),
    ],
)  # fmt: skip
def test_the_text_of_a_link_is_read_from_where_it_stands(target, inside):
    link = ScopedPath("a/link")
    if inside:
        check_stays_inside(target, link)
    else:
        with pytest.raises(SymlinkEscape):
            check_stays_inside(target, link)


scoped = st.lists(st.sampled_from("abc"), max_size=4).map(from_parts)


@given(path=scoped, directory=scoped)
def test_beneath_undoes_relative_to(path, directory):
    below = path.beneath(directory)
    assert below.lies_in(directory)
    assert below.relative_to(directory) == path


def test_every_row_of_the_table_is_there_once():
    texts = [row.text for row in HOSTILE_PATHS]
    names = [row.what for row in HOSTILE_PATHS]
    assert len(set(texts)) == len(texts)
    assert len(set(names)) == len(names)
    assert len(texts) >= 80
