"""The guard finds direct filesystem use by reading, and is silent about everything else."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.fronts.cli.commands.guard import allow_list, check, checker
from tests.fronts.cli.command import bailiwick, within
from tests.laws.repository import PACKAGE, ROOT
from tests.laws.test_ambient_power import POWERFUL

USES = [
    # plain
    ("open('f')", "content", "open"),
    ("import os\nos.open('f', 0)", "content", "os.open"),
    ("import os\nos.remove('f')", "tree", "os.remove"),
    ("import os\nos.listdir('d')", "listing", "os.listdir"),
    ("import os\nos.path.exists('f')", "metadata", "os.path.exists"),
    ("import os.path\nos.path.getsize('f')", "metadata", "os.path.getsize"),
    ("import shutil\nshutil.rmtree('d')", "tree", "shutil.rmtree"),
    ("import io\nio.open('f')", "content", "io.open"),
    ("import io\nio.FileIO('f')", "content", "io.FileIO"),
    ("import builtins\nbuiltins.open('f')", "content", "open"),
    ("import tempfile\ntempfile.mkdtemp()", "temporary", "tempfile.mkdtemp"),
    ("import glob\nglob.glob('*')", "listing", "glob.glob"),
    ("import fileinput\nfileinput.input()", "content", "fileinput.input"),
    ("import codecs\ncodecs.open('f')", "content", "codecs.open"),
    ("import gzip\ngzip.open('f')", "content", "gzip.open"),
    # aliases
    ("import os as x\nx.remove('f')", "tree", "os.remove"),
    ("import os.path as p\np.isfile('f')", "metadata", "os.path.isfile"),
    ("from os import path\npath.isfile('f')", "metadata", "os.path.isfile"),
    ("from os import remove as gone\ngone('f')", "tree", "os.remove"),
    ("from os import *\nunlink('f')", "tree", "os.unlink"),
    ("o = open\no('f')", "content", "open"),
    ("import os\nf = os.remove\ndef g():\n    f('x')", "tree", "os.remove"),
    ("import os\na, b = os.remove, 1\na('x')", "tree", "os.remove"),
    ("import os\nif (f := os.remove):\n    f('x')", "tree", "os.remove"),
    ("import os\nclass C:\n    f = os.remove\n    def g(self): self.f('x')", "tree", "os.remove"),
    ("import posix\nposix.unlink('f')", "tree", "os.unlink"),
    ("import posixpath\nposixpath.exists('f')", "metadata", "os.path.exists"),
    ("from _io import open as o\no('f')", "content", "io.open"),
    ("import os\ndef f(g=os.remove): g('x')", "tree", "os.remove"),
    ("import os\ndef f():\n    global g\n    g = os.remove\ng('x')", "tree", "os.remove"),
    # handed over, not called
    ("list(map(open, paths))", "content", "open"),
    ("import os, threading\nthreading.Thread(target=os.remove)", "tree", "os.remove"),
    ("import functools\nfunctools.partial(open, 'f')", "content", "open"),
    ("import os\nclass C:\n    def f(self): return [os.remove for _ in 'x']", "tree", "os.remove"),
    # by another door
    ("import os\ngetattr(os, 'open')('f', 0)", "content", "os.open"),
    ("__import__('os').remove('f')", "tree", "os.remove"),
    ("import importlib\nimportlib.import_module('os').remove('f')", "tree", "os.remove"),
    ("from importlib import import_module as i\ni('os.path').exists('f')", "metadata",
     "os.path.exists"),
    ("import sys\nsys.modules['os'].remove('f')", "tree", "os.remove"),
    ("import os\nvars(os)['remove']('f')", "tree", "os.remove"),
    ("import os\nos.__dict__['remove']('f')", "tree", "os.remove"),
    ("__builtins__['open']('f')", "content", "open"),
    ("__builtins__.open('f')", "content", "open"),
    ("import os\ngetattr(os, name)('f')", "dynamic", "getattr(os, …)"),
    ("import shutil\nshutil.os.remove('f')", "tree", "shutil.os.remove"),
    ("from os import remove", "tree", "os.remove"),
    # pathlib
    ("from pathlib import Path\nPath('f').read_text()", "content", "pathlib.Path.read_text"),
    ("import pathlib as p\np.Path('f').open()", "content", "pathlib.Path.open"),
    ("from pathlib import Path\np = Path('f')\np.unlink()", "tree", "pathlib.Path.unlink"),
    ("from pathlib import Path\n(Path('d') / 'f').exists()", "metadata", "pathlib.Path.exists"),
    ("from pathlib import Path\nPath('f').parent.parent.mkdir()", "tree", "pathlib.Path.mkdir"),
    ("from pathlib import Path\nPath.read_text(p)", "content", "pathlib.Path.read_text"),
    ("from pathlib import Path as P\ndef f(p: P): p.write_text('')", "content",
     "pathlib.Path.write_text"),
    ("from pathlib import Path\ndef f(p: 'Path | None'): p.stat()", "metadata",
     "pathlib.Path.stat"),
    ("from pathlib import Path\ndef f(ps: list[Path]):\n    for p in ps: p.rmdir()", "tree",
     "pathlib.Path.rmdir"),
    (("from pathlib import Path\nclass C:\n    def __init__(self): self.p = Path('f')\n"
     "    def g(self): return self.p.read_bytes()"), "content", "pathlib.Path.read_bytes"),
    ("from pathlib import Path\nclass C:\n    p: Path\n    def g(self): return self.p.touch()",
     "tree", "pathlib.Path.touch"),
    ("from pathlib import Path\ndef f() -> Path: ...\nf().read_text()", "content",
     "pathlib.Path.read_text"),
    (("from pathlib import Path\nclass C:\n    @property\n    def r(self) -> Path: ...\n"
     "    def g(self): self.r.touch()"), "tree", "pathlib.Path.touch"),
    ("from pathlib import Path\nclass P(Path): ...\nP('f').read_text()", "content",
     "pathlib.Path.read_text"),
    ("def f(x): return x.iterdir()", "listing", "….iterdir"),
    ("from anyio import Path\nasync def f(): await Path('f').read_text()", "content",
     "pathlib.Path.read_text"),
    # archives
    ("import zipfile\nzipfile.ZipFile('a.zip')", "archive", "zipfile.ZipFile"),
    ("import tarfile\ntarfile.open('a.tar')", "archive", "tarfile.open"),
    ("import io, tarfile\nwith tarfile.open(fileobj=io.BytesIO(b)) as t: t.extractall('d')",
     "archive", "tarfile.TarFile.extractall"),
    ("import io, zipfile\nz = zipfile.ZipFile(io.BytesIO(b))\nz.extract('n')", "archive",
     "zipfile.ZipFile.extract"),
    ("def f(archive): archive.extractall('d')", "archive", "….extractall"),
    # asynchronous
    ("import aiofiles\nasync def f():\n    async with aiofiles.open('f'): pass", "content",
     "aiofiles.open"),
    ("import aiofiles.os\nasync def f(): await aiofiles.os.remove('f')", "tree",
     "aiofiles.os.remove"),
]  # fmt: skip


@pytest.mark.spec("CLI-4")
@pytest.mark.parametrize(("code", "category", "name"), USES)
def test_a_use_is_found(code, category, name):
    found = checker.uses_in(code.encode(), "m.py")
    assert (category, name) in [(each.category, each.name) for each in found]


SILENT = [
    "import os\nos.getpid()\nos.path.join('a', 'b')\nos.environ.get('x')",
    "from bailiwick import open\nopen('./project')",
    "import bailiwick\nbailiwick.open('./project')",
    "async def f(fs): await fs.read_text('a'); await fs.remove('b'); await fs.list('.')",
    "def f(open): open('x')",
    "def open(x): ...\nopen('f')",
    "class C:\n    def open(self): ...\n    def g(self): self.open()",
    "from pathlib import PurePath\nPurePath('a').parent",
    "from pathlib import Path\ndef f(p: Path) -> Path: return p / 'x'",
    "from pathlib import Path\nPath('a').name\nPath('a').suffix",
    "import io, zipfile\nzipfile.ZipFile(io.BytesIO(b'')).namelist()",
    "import io, tarfile\ntarfile.open(fileobj=io.BytesIO(b''))",
    "import zipfile\nisinstance(x, zipfile.ZipFile)\ndef f(z: zipfile.ZipFile): ...",
    "import tarfile\ntry: ...\nexcept tarfile.ReadError: ...",
    "text = 'open(1)'\n# open('f')",
    "from . import os\nos.remove('x')",
    "try: ...\nexcept E as open: open('x')",
    "[open for open in ()]",
    "import os\nos.read(3, 1)\nos.write(1, b'')",
]


@pytest.mark.spec("CLI-4")
@pytest.mark.parametrize("code", SILENT)
def test_what_is_no_use_is_not_reported(code):
    assert checker.uses_in(code.encode(), "m.py") == []


@pytest.mark.spec("CLI-4")
@pytest.mark.parametrize(
    "code",
    [
        "import os\na = b\nb = a\nb = os.remove\na('x')",
        "import os\na = b\nb = c\nc = a\nc = os.remove\nb('x')",
        "from pathlib import Path\np = Path('a')\nwhile p != x: p = p.parent\np.unlink()",
        "import os\nos = os.path or os\nos.remove('x')",
    ],
)
def test_names_bound_in_circles_are_followed(code):
    assert [each.category for each in checker.uses_in(code.encode(), "m.py")][-1:] == ["tree"]


@pytest.mark.spec("CLI-4")
def test_code_that_is_made_to_be_slow_is_not():
    """Sixty names of which each is twice the one before: followed naively, 2^60 steps."""
    doubled = "\n".join(f"a{n} = a{n - 1} if x else a{n - 1}" for n in range(1, 61))
    circle = "\n".join(f"b{n} = b{n - 1}.y or b{n - 2}.z or a{n}" for n in range(2, 60))
    code = f"import os\na0 = os.remove\n{doubled}\nb0 = b59\nb1 = b58\n{circle}\na60('x')\nb0.q"
    found = checker.uses_in(code.encode(), "m.py")
    assert found[-1].name == "os.remove" or found[-2].name == "os.remove"


def found_where_it_is_said(content):
    """Whether all that is found is on a line that the module has; where it is none, there is
    nothing."""
    try:
        found = checker.uses_in(content, "m.py")
    except checker.Unparsable:
        return True
    return all(1 <= each.line <= len(content.splitlines()) for each in found)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(content):
    assert found_where_it_is_said(content)
    assert all(b"#" in content for _ in allow_list.comments_in(content))


_NAMES = ("os", "open", "Path", "p", "self", "remove", "path", "getattr", "f")
_EXPRESSIONS = st.recursive(
    st.sampled_from([*_NAMES, "'os'", "1", "*p"]),
    lambda inner: st.builds(
        lambda pattern, a, b: pattern.format(a, b), st.sampled_from(
            ["{}.{}", "{}({})", "{}[{}]", "({} / {})", "[{} for p in {}]", "(lambda p=({}): {})",
             "({} if {} else p)", "(p := {})", "getattr({}, {})", "({}, {})"]
        ), inner, inner,
    ),
    max_leaves=12,
)  # fmt: skip
_STATEMENTS = st.builds(
    lambda pattern, a, b: pattern.format(a, b),
    st.sampled_from([
        "{} = {}", "import os as {}", "from pathlib import Path as {}", "from os import *",
        "def f({0}: 'Path' = {1}) -> {0}: return {1}", "class f({}):\n    p = {}", "p: {} = {}",
        "for {} in {}: pass", "with {1} as {0}: pass", "global {}", "del {}", "{}; {}",
        "match p:\n    case {{'a': {0}, **rest}}: {1}", "async def f(): await {}", "x = {}",
    ]),
    st.sampled_from(_NAMES), _EXPRESSIONS,
)  # fmt: skip


@given(st.lists(_STATEMENTS, max_size=8))
def test_no_code_makes_it_fail(statements):
    """Whatever is bound to whatever: it ends, and says something or nothing."""
    assert found_where_it_is_said("\n".join(statements).encode())


def test_columns_count_characters_and_functions_are_named():
    code = "class C:\n    def f(self):\n        x = 'äöü'; open('f')\n"
    (found,) = checker.uses_in(code.encode(), "m.py")
    assert (found.line, found.column, found.end_column) == (3, 20, 24)
    assert found.function == "C.f"
    (found,) = checker.uses_in(b"\xef\xbb\xbf" + b"open('f')", "m.py")
    assert (found.line, found.column) == (1, 1)


# --- files that are not what they should be ----------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def guard(*arguments):
    return within("guard", *arguments)


def plant(directory, name, text):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


BROKEN = {
    "syntax error": b"def f(:\n",
    "not UTF-8": b"x = '\xff\xfe'\n",
    "a NUL": b"x = 1\0\n",
    "an unknown encoding": b"# -*- coding: no-such-thing -*-\n",
    "UTF-16": "open('f')\n".encode("utf-16"),
    "nested too deeply": b"x = " + b"(" * 5000 + b")" * 5000,
    "a long chain": b"x = " + b"a." * 200_000 + b"a",
    "a deep sum": b"x = " + b"1+" * 100_000 + b"1",
    "too large": b"#" + b"x" * (9 * 2**20),
}


@pytest.mark.spec("CLI-4")
@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_file_that_cannot_be_checked_is_reported(project, content):
    (project / "m.py").write_bytes(content)
    done = bailiwick("guard", "m.py", "--json")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (found,) = json.loads(done.stdout)["findings"]
    assert found["category"] == "unreadable"


@pytest.mark.spec("CLI-4")
def test_links_pipes_and_missing_files_do_not_stop_it(project):
    (project / "loop.py").symlink_to("loop.py")
    (project / "gone.py").symlink_to("nowhere.py")
    (project / "again").symlink_to(".")
    os.mkfifo(project / "pipe.py")
    (project / "good.py").write_text("open('f')\n")
    (project / "twice.py").symlink_to("good.py")
    done = bailiwick("guard", ".", "missing.py", "--json", timeout=120)
    found = {each["path"]: each["category"] for each in json.loads(done.stdout)["findings"]}
    assert found == {
        "loop.py": "unreadable",
        "gone.py": "unreadable",
        "pipe.py": "unreadable",
        "missing.py": "unreadable",
        "good.py": "content",
    }


def test_a_name_that_is_no_text_is_shown_escaped(project):
    name = os.fsdecode(b"\xff\x1b[2J.py")
    (project / name).write_text("open('f')\n")
    done = guard(".")
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    sarif = json.loads(guard(".", "--format", "sarif").stdout)
    place = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "%FF%1B%5B2J.py"


def test_code_is_never_executed(project):
    plant(project, "m.py", "import pathlib\npathlib.Path('ran').touch()\nraise SystemExit(0)\n")
    assert bailiwick("guard", "m.py").returncode == 1
    assert not (project / "ran").exists()


def test_other_peoples_code_is_passed_over(project):
    others = (".venv/a.py", "node_modules/a.py", ".git/a.py", "__pycache__/a.py", "env/lib/a.py")
    for name in (*others, "build/lib/a.py", "dist/a.py", "readme.txt"):
        plant(project, name, "open('f')\n")
    plant(project, "env/pyvenv.cfg", "")
    done = guard(".")
    assert (done.returncode, done.stdout) == (
        0, "no direct use of the filesystem, 0 files looked at\n"
    )  # fmt: skip
    assert guard(".venv/a.py", "readme.txt").stdout.count("content") == 2
    plant(project, "src/app/build/__init__.py", "open('f')\n")
    assert "src/app/build/__init__.py:1:1" in guard(".").stdout


# --- exceptions --------------------------------------------------------------------------------


@pytest.mark.spec("CLI-4")
@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("src/app/low.py", True),
        ("./src/app/low.py", True),
        ("src/app", True),
        ("src/", True),
        ("**/low.py", True),
        ("src/*/l*.py", True),
        ("app.low:load", True),
        ("app.low:Store.load", False),
        ("low:load", False),
        ("src/app/lo", False),
        ("app.other:load", False),
        ("*.py", False),
    ],
)
def test_the_allow_list_of_a_project(project, entry, allowed):
    plant(project, "src/app/__init__.py", "")
    plant(project, "src/app/low.py", "def load():\n    def inner(): return open('f')\n")
    (project / "pyproject.toml").write_text(f"[tool.bailiwick.guard]\nallow = [{entry!r}]\n")
    assert (guard("src").returncode == 0) is allowed


@pytest.mark.parametrize(
    "text",
    [
        "[tool.bailiwick.guard]\nallow = 'src'",
        "[tool.bailiwick.guard]\nallow = [1]",
        "[tool.bailiwick.guard]\nallow = ['/etc']",
        "[tool.bailiwick.guard]\nallow = ['../x.py']",
        "[tool.bailiwick.guard]\nallow = ['']",
        "[tool.bailiwick.guard]\nallow = ['src/[']",
        "[tool.bailiwick.guard]\nalow = []",
        "[tool.bailiwick]\nguard = 1",
        "[tool",
    ],
)
def test_a_mistake_in_the_allow_list_is_said(project, text):
    (project / "pyproject.toml").write_text(text)
    done = guard(".")
    assert done.returncode == 1
    assert done.stderr.startswith("parse_error: ")
    assert done.stdout == ""


@pytest.mark.spec("CLI-4")
@pytest.mark.parametrize(
    ("code", "categories"),
    [
        ("open('f')  # bailiwick: allow: reads its own settings", []),
        ("open('f')  # bailiwick: allow - reads its own settings", []),
        ("# bailiwick: allow: reads its own settings\nopen('f')", []),
        ("open(\n  1\n)  # bailiwick: allow: not beside it", ["allowance", "content"]),
        ("open('f')  # bailiwick: allow", ["allowance", "content"]),
        ("open('f')  # bailiwick: allow:   ", ["allowance", "content"]),
        ("x = 1  # bailiwick: allow: nothing to excuse", ["allowance"]),
        ("x = '# bailiwick: allow: a text'; open('f')", ["content"]),
        ("# bailiwick: allow: too far away\n\nopen('f')", ["allowance", "content"]),
        ("open('f'); open('g')  # bailiwick: allow: both", []),
        ("open('f')  # bailiwick: allowed: another word", ["content"]),
    ],
)  # fmt: skip
def test_an_exception_beside_the_code(project, code, categories):
    (project / "m.py").write_text(code + "\n")
    found = json.loads(guard("m.py", "--json").stdout)["findings"]
    assert sorted(each["category"] for each in found) == categories


# --- reports -----------------------------------------------------------------------------------


@pytest.mark.spec("CLI-4")
def test_sarif_has_the_shape_of_2_1_0(project):
    plant(project, "a b.py", "import os\ndef f():\n    os.remove('ä')\n")
    done = bailiwick("guard", "a b.py", "--format", "sarif")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert all(rule["id"] and rule["shortDescription"]["text"] for rule in driver["rules"])
    (result,) = run["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "tree"
    assert result["level"] in {"none", "note", "warning", "error"}
    assert result["message"]["text"]
    (location,) = result["locations"]
    assert location["logicalLocations"] == [{"fullyQualifiedName": "f"}]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "a%20b.py"}
    assert physical["region"] == {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 14}
    assert run["columnKind"] == "unicodeCodePoints"


def test_sarif_of_nothing_is_an_empty_list(project):
    (project / "m.py").write_text("x = 1\n")
    done = guard(".", "--format", "sarif")
    assert done.returncode == 0
    assert json.loads(done.stdout)["runs"][0]["results"] == []


def test_text_names_place_use_and_verb(project):
    plant(project, "m.py", "import os\nos.remove('f')\n")
    done = guard("m.py")
    assert done.stdout == (
        "m.py:2:1: tree: os.remove changes names or attributes; through a scope: make_dir,"
        " remove, move, copy, symlink, truncate, set_mode or set_times\n"
        "1 finding, 1 file looked at\n"
    )


def test_wrong_usage(project):
    assert guard().returncode == 2
    assert guard("--format", "xml", ".").returncode == 2
    assert guard(".", "--project", "nowhere.toml").returncode == 1


# --- our own house -----------------------------------------------------------------------------


@pytest.mark.spec("CLI-4")
def test_the_core_of_bailiwick_has_no_findings():
    """The guard agrees with the law on ambient power: only the rooms it names touch files."""
    paths = tuple(f"{room}{'' if (PACKAGE / room).is_dir() else '.py'}" for room in POWERFUL)
    allowed = allow_list.AllowList(str(PACKAGE), (*paths, *LATER_ROOMS))
    findings, count = check([str(PACKAGE)], allowed)
    assert [(each.path, each.line, each.name) for each in findings] == []
    assert count > 50


LATER_ROOMS = ("fronts", "state", "hooks")
"""Rooms beside the core that have power because their job needs it."""


def test_the_hook_for_pre_commit_names_the_command():
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert "entry: bailiwick guard" in text
    assert "id: bailiwick-guard" in text


def test_the_standard_library_is_survived():
    """Nothing that people write makes it crash: a few hundred files of the interpreter."""
    library = os.path.dirname(os.__file__)
    paths = [os.path.join(library, name) for name in ("asyncio", "json", "email", "typing.py")]
    code = (
        "import sys; from bailiwick.fronts.cli.commands.guard import check, allow_list;"
        "findings, count = check(sys.argv[1:], allow_list.AllowList('/'));"
        "assert count > 60; assert not [f for f in findings if f.category == 'unreadable']"
    )
    subprocess.run([sys.executable, "-c", code, *paths], check=True)
