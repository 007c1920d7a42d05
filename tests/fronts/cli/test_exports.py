"""A grant exported to another sandbox gives what the grant gives, and never more."""

import csv
import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from bailiwick.errors import PathNotFound, SymlinkEscape, Unsupported
from bailiwick.fronts.cli import exports
from bailiwick.fronts.cli.machine import examine
from bailiwick.grant import AgentRun, Grant, Root, StandingGrant
from bailiwick.operations import ALL_ACCESS, FILE_ACCESS
from bailiwick.paths import ROOT, parse

LOOKING = {"read", "list", "metadata"}


def grant(access=FILE_ACCESS, path=".", **more):
    root = Root(kind="workspace", id="demo", trusted=True)
    scoped = ROOT if path == "." else parse(path).path
    return Grant(
        id="g", subject=AgentRun("c", "r"), root=root, access=frozenset(access), path=scoped, **more
    )


@pytest.fixture
def tree(tmp_path):
    """A root with two trees, and a secret beside it."""
    for name in ("root/src/app", "root/docs", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root/src/app/main.py").write_text("main\n")
    (tmp_path / "root/docs/a.md").write_text("a\n")
    (tmp_path / "outside/secret").write_text("secret\n")
    return tmp_path / "root"


def reach(given, tree, mount_point="/workspace", trusted=True):
    return exports.reach_of(given, str(tree), mount_point, trusted=trusted)


# --- what a grant reaches ----------------------------------------------------------------------


@pytest.mark.spec("EXEC-2")
@pytest.mark.parametrize(
    ("path", "allowed", "inside"),
    [
        (".", (), ["/workspace"]),
        ("src", (), ["/workspace/src"]),
        (".", (("src/**",),), ["/workspace/src"]),
        (".", (("src/app/**", "docs/**"),), ["/workspace/docs", "/workspace/src/app"]),
        (".", (("src/**", "src/app/**"),), ["/workspace/src"]),
        ("src", (("src/app/main.py", "docs/**"),), ["/workspace/src/app/main.py"]),
        ("src/app", (("src/**",),), ["/workspace/src/app"]),
        (".", (("src/**",), ("src/app/**", "docs/**")), ["/workspace/src/app"]),
        (".", (("**",),), ["/workspace"]),
    ],
)
def test_exactly_what_the_grant_reaches(tree, path, allowed, inside):
    found = reach(grant(path=path, allowed=allowed), tree)
    assert [place.inside for place in found.places] == inside
    prefix = os.path.realpath(tree)
    assert [place.host for place in found.places] == [
        prefix + place.removeprefix("/workspace") for place in inside
    ]


@pytest.mark.spec("EXEC-2")
@pytest.mark.parametrize(
    "pattern", ["*.py", "src/*.py", "src", "**/app", "src/[a]pp/x", "{src,docs}/**", "a/../b/c"]
)
def test_a_glob_that_is_no_tree_is_refused_by_name(tree, pattern):
    with pytest.raises(Unsupported) as refused:
        reach(grant(allowed=((pattern,),)), tree)
    assert pattern in refused.value.message


@pytest.mark.spec("EXEC-2")
def test_denied_globs_and_disjoint_ones_are_refused(tree):
    with pytest.raises(Unsupported, match=r"docs/\*\*"):
        reach(grant(denied=("docs/**",)), tree)
    with pytest.raises(Unsupported, match="nothing"):
        reach(grant(path="src", allowed=(("docs/**",),)), tree)
    standing = StandingGrant(
        id="s", subject="user:a", root="workspace:demo", access=ALL_ACCESS, allowed=("*.py",)
    )
    with pytest.raises(Unsupported, match=r"\*\.py"):
        reach(standing, tree)


@pytest.mark.spec("EXEC-2")
def test_a_link_out_of_the_root_is_refused_and_one_inside_is_resolved(tree):
    (tree / "out").symlink_to("../outside")
    (tree / "in").symlink_to("src/app")
    with pytest.raises(SymlinkEscape):
        reach(grant(path="out"), tree)
    (place,) = reach(grant(path="in"), tree).places
    assert place.host == os.path.realpath(tree / "src/app")
    with pytest.raises(PathNotFound):
        reach(grant(path="later"), tree)
    os.mkfifo(tree / "pipe")
    with pytest.raises(Unsupported):
        reach(grant(path="pipe"), tree)


def test_in_an_untrusted_root_only_looking_is_left(tree):
    found = reach(grant(), tree, trusted=False)
    assert not found.access & exports.CHANGING
    assert exports.bubblewrap_arguments(found)[0] == "--ro-bind"


# --- bubblewrap and docker ---------------------------------------------------------------------


@pytest.mark.spec("EXEC-2")
def test_mounts_are_writable_only_for_all_of_changing(tree):
    source = os.path.realpath(tree)
    assert exports.bubblewrap_arguments(reach(grant(), tree)) == ["--bind", source, "/workspace"]
    assert exports.bubblewrap_arguments(reach(grant(LOOKING), tree)) == [
        "--ro-bind", source, "/workspace",
    ]  # fmt: skip
    for access, withheld in (
        (LOOKING | {"write"}, "delete, move"),
        ({"read", "list"}, "metadata"),
        ({"write", "delete", "move"}, "list, metadata, read"),
        (set(), "list, metadata, read"),
    ):
        for export in (exports.bubblewrap_arguments, exports.docker_arguments):
            with pytest.raises(Unsupported, match=withheld):
                export(reach(grant(access), tree))


def test_a_mount_on_the_root_of_the_sandbox_is_refused(tree):
    with pytest.raises(Unsupported, match="mount point"):
        exports.bubblewrap_arguments(reach(grant(), tree, mount_point="/"))
    found = reach(grant(path="src"), tree, mount_point="/")
    assert exports.bubblewrap_arguments(found)[2] == "/src"


@pytest.mark.spec("EXEC-2")
@pytest.mark.parametrize("name", ["plain", "a b", "a,b", 'a"b', 'a",readonly=false,x="b', "é"])
def test_docker_mounts_survive_any_name(tmp_path, name):
    (tmp_path / name).mkdir()
    option, value = exports.docker_arguments(reach(grant(LOOKING), tmp_path / name))
    assert option == "--mount"
    (fields,) = csv.reader([value], strict=True)
    source = os.path.realpath(tmp_path / name)
    assert fields == ["type=bind", f"src={source}", "dst=/workspace", "readonly"]


def test_docker_takes_no_line_break(tmp_path):
    (tmp_path / "a\nb").mkdir()
    with pytest.raises(Unsupported):
        exports.docker_arguments(reach(grant(), tmp_path / "a\nb"))


def bubblewrap():
    """The program, or doctor's own words on why the export cannot be tried here."""
    fact = next(fact for fact in examine() if fact.name == "bubblewrap")
    if not fact.works:
        pytest.skip(f"bubblewrap: {fact.found}; {fact.cost}")
    return shutil.which("bwrap")


SYSTEM = [
    argument
    for name in ("/usr", "/bin", "/lib", "/lib64")
    if os.path.exists(name)
    for argument in ("--ro-bind", name, name)
]


def inside(arguments, script):
    """Run a shell script in a sandbox that has a system and what the arguments say."""
    command = [bubblewrap(), *SYSTEM, *arguments, "--unshare-all", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.hostile
@pytest.mark.spec("EXEC-2")
def test_bubblewrap_confines_to_what_the_grant_reaches(tree):
    """The control: without the confinement the same shell reads the secret."""
    secret = tree.parent / "outside/secret"
    plain = subprocess.run(["cat", secret], capture_output=True, text=True, check=True)
    assert plain.stdout == "secret\n"

    looking = exports.bubblewrap_arguments(reach(grant(LOOKING, path="src"), tree))
    assert inside(looking, "cat /workspace/src/app/main.py").stdout == "main\n"
    for attempt in (
        f"cat {shlex.quote(str(secret))}",
        "cat /workspace/src/../docs/a.md",
        "cat /workspace/docs/a.md",
        "echo x > /workspace/src/new",
        "echo x >> /workspace/src/app/main.py",
        "rm /workspace/src/app/main.py",
        "chmod 777 /workspace/src/app/main.py",
    ):
        assert inside(looking, attempt).returncode != 0, attempt
    assert (tree / "src/app/main.py").read_text() == "main\n"

    changing = exports.bubblewrap_arguments(reach(grant(path="src"), tree))
    assert inside(changing, "echo x > /workspace/src/new").returncode == 0
    assert (tree / "src/new").read_text() == "x\n"
    assert inside(changing, "cat /workspace/docs/a.md").returncode != 0


# --- Landlock ----------------------------------------------------------------------------------

APPLY = """
import ctypes, json, os, sys
RIGHTS = %r
document, attempts = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def bits(names): return sum(1 << RIGHTS.index(name) for name in names)
class Attributes(ctypes.Structure): _fields_ = [("fs", ctypes.c_uint64)]
class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("fd", ctypes.c_int32)]
attributes = Attributes(bits(document["ruleset"][0]["handledAccessFs"]))
ruleset = call(444, ctypes.byref(attributes), ctypes.c_size_t(8), ctypes.c_uint32(0))
for rule in document.get("pathBeneath", []):
    for parent in rule["parent"]:
        fd = os.open(parent, os.O_PATH)
        beneath = Beneath(bits(rule["allowedAccess"]), fd)
        call(445, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(beneath), ctypes.c_uint32(0))
        os.close(fd)
assert libc.prctl(38, 1, 0, 0, 0) == 0
call(446, ctypes.c_int(ruleset), ctypes.c_uint32(0))
results = {}
for name, code in attempts.items():
    try: exec(code); results[name] = "done"
    except PermissionError: results[name] = "refused"
    except OSError as error: results[name] = type(error).__name__ + str(error.errno)
print(json.dumps(results))
""" % (exports.LANDLOCK_RIGHTS,)  # noqa: UP031 — the text is full of braces


def attempts(tree):
    """Every sort of use, once inside and once beside what is granted (``src``)."""

    def each(place, kind):
        return {
            f"{kind} read": f"open({str(place / 'file')!r}).read()",
            f"{kind} list": f"os.listdir({str(place)!r})",
            f"{kind} write": f"os.write(os.open({str(place / 'file')!r}, os.O_WRONLY), b'y')",
            f"{kind} truncate": f"os.truncate({str(place / 'file')!r}, 0)",
            f"{kind} create": f"open({str(place / 'made')!r}, 'x')",
            f"{kind} mkdir": f"os.mkdir({str(place / 'made-dir')!r})",
            f"{kind} symlink": f"os.symlink('file', {str(place / 'made-link')!r})",
            f"{kind} move": f"os.rename({str(place / 'moving')!r}, {str(place / 'sub/moved')!r})",
            f"{kind} unlink": f"os.unlink({str(place / 'gone')!r})",
            f"{kind} rmdir": f"os.rmdir({str(place / 'gone-dir')!r})",
            f"{kind} fifo": f"os.mkfifo({str(place / 'made-pipe')!r})",
        }  # fmt: skip

    return {**each(tree / "src", "inside"), **each(tree / "docs", "beside")}


def under_landlock(document, tried):
    done = subprocess.run(
        [sys.executable, "-I", "-c", APPLY],
        input=json.dumps([document, tried]),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


NEEDS = {
    "read": {"read"}, "list": {"list"}, "write": {"write"}, "truncate": {"write"},
    "create": {"write"}, "mkdir": {"write"}, "symlink": {"write"}, "unlink": {"delete"},
    "rmdir": {"delete"}, "move": {"write", "delete", "move"}, "fifo": {"nobody"},
}  # fmt: skip


@pytest.mark.hostile
@pytest.mark.spec("EXEC-2")
@pytest.mark.parametrize(
    "access",
    [
        ALL_ACCESS,
        LOOKING,
        {"list", "metadata"},
        {"read", "metadata"},
        LOOKING | {"write"},
        LOOKING | {"delete"},
        LOOKING | {"write", "delete"},
        LOOKING | {"write", "move"},
        {"write"},
        {"metadata"},
    ],
    ids=lambda access: "+".join(sorted(access)),
)
def test_a_landlock_rule_set_allows_and_denies_what_the_grant_says(tree, access):
    fact = next(fact for fact in examine() if fact.name == "landlock")
    if not fact.works:
        pytest.skip(f"landlock: {fact.found}; {fact.cost}")
    for place in (tree / "src", tree / "docs"):
        for name in ("sub", "gone-dir"):
            (place / name).mkdir()
        for name in ("file", "gone", "moving"):
            (place / name).write_text("x")
    document, _ = exports.landlock_ruleset(reach(grant(access, path="src"), tree))
    results = under_landlock(document, attempts(tree))
    held = access & {"read", "list", "write", "delete", "move"}
    for name, result in results.items():
        where, what = name.split()
        expected = "done" if where == "inside" and NEEDS[what] <= held else "refused"
        if what == "move" and expected == "refused" and result == "OSError18":
            continue  # Landlock says EXDEV where it would not let a file change its directory
        assert result == expected, name


@pytest.mark.hostile
def test_the_same_attempts_succeed_without_landlock(tree):
    """The control: nothing but the rule set stands in the way."""
    for place in (tree / "src", tree / "docs"):
        for name in ("sub", "gone-dir"):
            (place / name).mkdir()
        for name in ("file", "gone", "moving"):
            (place / name).write_text("x")
    for code in attempts(tree).values():
        subprocess.run([sys.executable, "-I", "-c", f"import os\n{code}"], check=True)


@pytest.mark.spec("EXEC-2")
def test_a_rule_for_a_single_file_has_only_rights_of_files(tree):
    found = reach(grant(path="src/app/main.py"), tree)
    document, notes = exports.landlock_ruleset(found)
    (rule,) = document["pathBeneath"]
    assert rule["allowedAccess"] == ["write_file", "read_file", "truncate"]
    assert any("metadata" in note for note in notes)
    under_landlock(document, {})


@pytest.mark.spec("EXEC-1", "EXEC-2")
def test_programs_of_the_tree_are_run_under_landlock_where_the_grant_holds_execute(tree):
    found = reach(grant(ALL_ACCESS, path="src/app/main.py"), tree)
    (rule,) = exports.landlock_ruleset(found)[0]["pathBeneath"]
    assert rule["allowedAccess"] == ["execute", "write_file", "read_file", "truncate"]
    assert reach(grant(LOOKING | {"execute"}), tree, trusted=False).access == LOOKING
    assert exports.bubblewrap_arguments(reach(grant(LOOKING | {"execute"}), tree))


def test_what_landlock_cannot_say_exactly_is_left_out_and_said(tree):
    document, notes = exports.landlock_ruleset(reach(grant(LOOKING | {"move", "write"}), tree))
    assert "refer" not in document["pathBeneath"][0]["allowedAccess"]
    assert any(note.startswith("move is left out") for note in notes)
    weird = tree / "${HOME}"
    weird.mkdir()
    with pytest.raises(Unsupported, match="variable"):
        exports.landlock_ruleset(reach(grant(), weird))


@pytest.mark.spec("EXEC-2")
def test_the_document_has_the_shape_that_landlocks_own_library_reads(tree):
    document, _ = exports.landlock_ruleset(reach(grant(), tree))
    assert set(document) == {"abi", "ruleset", "pathBeneath"}
    assert document["ruleset"] == [{"handledAccessFs": list(exports.LANDLOCK_RIGHTS)}]
    assert all(set(rule) == {"allowedAccess", "parent"} for rule in document["pathBeneath"])
    nothing, _ = exports.landlock_ruleset(reach(grant({"watch"}), tree))
    assert set(nothing) == {"abi", "ruleset"}
