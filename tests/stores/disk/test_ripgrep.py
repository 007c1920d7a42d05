"""Nomination by a confined ripgrep: never fewer files than our own search, never one outside."""

import os
import random
import subprocess
import threading
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bailiwick.errors import ParseError
from bailiwick.search.grep import compile_query
from bailiwick.search.superset import CONTAINS_NUL, rust_superset
from bailiwick.stores.disk.search import landlock, ripgrep
from bailiwick.stores.disk.search.ripgrep import Area, SearchBounds

RIPGREP = ripgrep.ambient_find_ripgrep()

pytestmark = [
    pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed"),
    pytest.mark.skipif(landlock.version() < 1, reason="this kernel offers no Landlock"),
]


def bounds(seconds=30.0, cancelled=lambda: False):
    return SearchBounds(time.monotonic() + seconds, cancelled)


@pytest.fixture
def base(tmp_path):
    """A directory to search, as a path and as the descriptor that a lookup would give."""
    directory = tmp_path / "base"
    directory.mkdir()
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    yield directory, fd
    os.close(fd)


def nominate(fd, pattern, area=None, **options):
    query = compile_query(pattern, **options)
    paths = ripgrep.nominate_blocking(RIPGREP, fd, query, area or Area(), bounds())
    return None if paths is None else sorted(map(os.fsdecode, paths))


# --- a superset ----------------------------------------------------------------------------------

PIECES = [
    b"a", b"b", b"K", b"s", b"A", "é".encode(), "É".encode(), "\u212a".encode(), "\u017f".encode(),
    b"\xff", b"\xc3", b"\x80", b"\xed\xa0\x80", b"\xe0\x80\x80", b"\xf4\x90\x80\x80", b" ", b"\t",
    b"\v", b"\n", b"\n", b"\r\n", b"\r", b".", b"1", b"_", b"\0", b"\xef\xbb\xbf", b"\xff\xfe",
    "٣".encode(), "\u00a0".encode(), "𝄞".encode(), b"ab", b"-",
]  # fmt: skip

atoms = st.sampled_from(
    ["a", "b", "k", "S", "é", "É", ".", "\\s", "\\S", "\\w", "\\W", "\\d", "\\D", "[^a]", "[ab]",
     "[^k]", "[a-z]", "[é]", "[^é]", "[^\\n]", "[\\s]", "[\\W]", "\\b", "\\B", "^", "$", "\\A",
     "\\z", "(?i)", "(?s)", "(?-i)", "(?-m)", "(?s:.)", "(?i:k)", "\\t", "\\r", "\\v", "\\x00",
     "[[:space:]]", "[[:^alpha:]]", "\\x{e9}", "\\xff", "\\x{d800}", "\\Qa.\\E", "[]a]", "\\.", " ",
     "-", "_", "(?P<n>a)", "[\\x80-\\x{ff}]", "\\pL", "\\C", "[a\\]]", "{", "a{,2}", "\\011"]
)  # fmt: skip
repeats = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "*?", "{1,3}", "{0}", "{2,}"])
simple = st.lists(st.tuples(atoms, repeats).map("".join), min_size=1, max_size=4).map("".join)
patterns = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, repeats).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.tuples(inner, inner).map("".join),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Many small files of all that could make two engines differ, and their contents."""
    directory = tmp_path_factory.mktemp("corpus")
    choose = random.Random(7)
    contents = [b"", *PIECES]
    contents += [b"".join(choose.choices(PIECES, k=choose.randint(1, 8))) for _ in range(800)]
    for number, content in enumerate(contents):
        (directory / str(number)).write_bytes(content)
    return directory, contents


def differing(corpus, query):
    """The files with a match that were not nominated; None where nothing was claimed."""
    directory, contents = corpus
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        nominated = ripgrep.nominate_blocking(RIPGREP, fd, query, Area(), bounds())
    finally:
        os.close(fd)
    if nominated is None:
        assert rust_superset(query) is None, "a pattern was given that ripgrep does not take"
        return None
    options = {"context": 0, "matches_left": 1, "line_characters_max": 100}
    return [
        (content, rust_superset(query))
        for number, content in enumerate(contents)
        if query.search(content, **options) and str(number).encode() not in nominated
    ]


@pytest.mark.spec("GREP-3")
@settings(max_examples=150)
@given(patterns, st.booleans(), st.booleans())
@example("$^", False, False)
@example("^a", False, False)
@example("\\Aa|b$", False, True)
@example("a$\\b", False, False)
@example("(?i)k", False, False)
@example("\\W", True, True)
@example("a(?i)*k", False, False)
@example("\\x00", False, False)
def test_every_file_with_a_match_is_nominated(corpus, pattern, ignore_case, word):
    try:
        query = compile_query(pattern, ignore_case=ignore_case, word=word)
    except ParseError:
        return
    assert not differing(corpus, query)


@pytest.mark.spec("GREP-3")
@settings(max_examples=60)
@given(st.text("abkSé. -\t_[", min_size=1, max_size=3), st.booleans(), st.booleans())
def test_every_file_with_a_literal_is_nominated(corpus, text, ignore_case, word):
    query = compile_query(text, literal=True, ignore_case=ignore_case, word=word)
    missed = differing(corpus, query)
    assert not missed
    assert (missed is None) is (ignore_case and not text.isascii())


@pytest.mark.parametrize("pattern", ["a\\pL", "\\C", "(?i)é", "\\101", "\\x{d800}", "[\\n]"])
def test_what_cannot_be_said_for_certain_is_not_said(base, pattern):
    assert nominate(base[1], pattern) is None


@pytest.mark.parametrize(
    ("pattern", "others"),
    [
        ("^import", b"an import\n"),
        ("import$", b"imports\n"),
        ("\\bimport\\b", b"imports\n"),
        ("im(port|plement)s?\\s+x", b"import\n"),
        ("[Ii]mport\\.", b"import\n"),
        ("(?i)IMPORT;", b"import\n"),
    ],
)
def test_files_without_a_match_are_mostly_not_nominated(base, pattern, others):
    directory, fd = base
    (directory / "other").write_bytes(others)
    assert nominate(fd, pattern) == []


# --- which files ---------------------------------------------------------------------------------


@pytest.mark.spec("GREP-1", "TREE-8")
def test_nothing_is_left_out_of_its_own_accord(base):
    directory, fd = base
    names = [
        ".hidden", ".git/config", "build/out", "a.bin", "dir with space/new\nline", "é",
        "node_modules/x.js", "deep/er/file", "-dash",
    ]  # fmt: skip
    for name in names:
        place = directory / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"\0needle\0")
    for name in (".gitignore", ".ignore", ".rgignore"):
        (directory / name).write_text("*\n")
    (directory / os.fsdecode(b"\xff")).write_bytes(b"needle")
    assert nominate(fd, "needle") == sorted([*names, os.fsdecode(b"\xff")])


def test_only_what_is_asked_for_is_looked_at(base):
    directory, fd = base
    for name in ("a.py", "b.js", "out/a.py", "src/out/b.py", "s*r[c] {x}!/a.py", "small.py"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("needle" + " " * 94)
    (directory / "small.py").write_text("needle")
    (directory / "large.py").write_text("needle" + " " * 95)
    only = Area(leave_out=["out", "s*r[c] {x}!", "src/nothing"], file_bytes_max=100)
    assert nominate(fd, "needle", only) == ["a.py", "b.js", "small.py", "src/out/b.py"]
    assert nominate(fd, "needle", Area(leave_out=["src/out", "out"])) == [
        "a.py", "b.js", "large.py", "s*r[c] {x}!/a.py", "small.py",
    ]  # fmt: skip


def test_links_and_special_files_are_passed_over(base):
    directory, fd = base
    (directory / "file").write_text("needle")
    (directory / "link").symlink_to("file")
    (directory / "loop").symlink_to(".")
    os.mkfifo(directory / "fifo")
    assert nominate(fd, "needle") == ["file"]


@pytest.mark.spec("GREP-3")
def test_files_with_a_nul_byte_are_named(base):
    directory, fd = base
    (directory / "text").write_bytes(b"text\n" * 10_000)
    (directory / "early").write_bytes(b"a\0b")
    (directory / "late").write_bytes(b"a\n" * 100_000 + b"\0")
    (directory / "empty").touch()
    (directory / "found").write_bytes(b"a needle\n")
    for pattern in ("needle", "a needle", "no|needle", "^a needle$", "n.*e$"):
        query = compile_query(pattern, literal=" " in pattern and "^" not in pattern)
        found = ripgrep.nominate_blocking(RIPGREP, fd, query, Area(), bounds(), binaries=True)
        assert sorted(found) == [b"early", b"found", b"late"]


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize("failing", ["matches", "binaries"])
def test_half_an_answer_is_none(base, monkeypatch, failing):
    """What is no plain text and binaries are found by two ripgreps: one's word is not all."""
    directory, fd = base
    (directory / "both").write_bytes(b"a needle\0")
    real, asked = ripgrep.run_confined_blocking, []

    def run(program, arguments, *rest):
        wrong = (f"--regexp={CONTAINS_NUL}" in arguments) == (failing == "binaries")
        asked.append(wrong)
        return real(program, ["--no-such-flag"] if wrong else arguments, *rest)

    monkeypatch.setattr(ripgrep, "run_confined_blocking", run)
    query = compile_query("needl[e]")
    assert ripgrep.nominate_blocking(RIPGREP, fd, query, Area(), bounds(), binaries=True) is None
    assert sorted(asked) == [False, True]


def test_a_file_that_cannot_be_read_does_not_hide_the_others(base):
    """Whoever runs the tests may read everything: so the errors themselves are judged."""
    assert ripgrep._is_sound(0, b"")
    assert ripgrep._is_sound(1, b"")
    assert ripgrep._is_sound(2, b"rg: ./a: No such file or directory (os error 2)\n")
    assert not ripgrep._is_sound(2, b"rg: ./a: Permission denied (os error 13)\n")
    assert not ripgrep._is_sound(2, b"rg: ./a: Too many open files (os error 24)\n")
    assert not ripgrep._is_sound(2, b"rg: a (os error 2)\nb: Input/output error (os error 5)\n")
    assert not ripgrep._is_sound(2, b"")
    assert not ripgrep._is_sound(-9, b"")


# --- the wall ------------------------------------------------------------------------------------


@pytest.fixture
def with_secret(base):
    """A file outside, and links to it and to its directory from inside."""
    directory, fd = base
    outside = directory.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("needle")
    (directory / "inside").write_text("needle")
    (directory / "to_file").symlink_to("../outside/secret")
    (directory / "to_directory").symlink_to(outside)
    return directory, fd


FOLLOWING = ["--no-config", "--files-with-matches", "--null", "--follow", "needle"]


@pytest.mark.spec("DISK-1")
def test_ripgrep_cannot_read_outside_even_if_it_follows_links(with_secret, monkeypatch):
    directory, fd = with_secret
    arguments = [*FOLLOWING, "./", "../outside/secret", str(directory.parent / "outside")]
    unconfined = subprocess.run(
        [RIPGREP, *arguments], cwd=directory, env={}, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert unconfined.stdout.count(b"\0") == 5
    assert ripgrep.run_confined_blocking(RIPGREP, arguments, fd, bounds()) is None
    monkeypatch.setattr(ripgrep, "_is_sound", lambda code, errors: b"os error 13" in errors)
    confined = ripgrep.run_confined_blocking(RIPGREP, arguments, fd, bounds())
    assert confined == b"./inside\0"


@pytest.mark.spec("DISK-1")
def test_the_wall_stands_around_the_child_only(with_secret):
    directory, fd = with_secret
    secret = directory.parent / "outside" / "secret"
    assert nominate(fd, "needle") == ["inside"]
    assert secret.read_text() == "needle"
    read = []
    thread = threading.Thread(target=lambda: read.append(secret.read_text()))
    thread.start()
    thread.join()
    assert read == ["needle"]
    with open("/proc/self/status") as status:
        assert "NoNewPrivs:\t0" in status.read()


def test_a_thread_within_the_wall_reads_nothing_outside(with_secret):
    """The wall itself, without ripgrep: what the child inherits is what this thread feels."""
    directory, fd = with_secret
    felt = []

    def feel():
        ruleset = landlock.create_ruleset([landlock.LandlockRule(fd, landlock.READ_FILE)])
        landlock.restrict_calling_thread(ruleset)
        os.close(ruleset)
        felt.append((directory / "inside").read_text())
        for forbidden in (
            lambda: (directory / "to_file").read_text(),
            lambda: (directory / "inside").write_text("changed"),
            lambda: os.listdir(directory),
            lambda: (directory / "new").touch(),
        ):
            try:
                forbidden()
            except PermissionError:
                felt.append("refused")

    thread = threading.Thread(target=feel)
    thread.start()
    thread.join()
    assert felt == ["needle", *["refused"] * 4]


@pytest.mark.spec("DISK-1")
def test_without_landlock_ripgrep_is_not_run(base, monkeypatch):
    directory, fd = base
    (directory / "file").write_text("needle")
    assert nominate(fd, "needle") == ["file"]
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert nominate(fd, "needle") is None
    with pytest.raises(OSError, match="not available"):
        landlock.create_ruleset([])


def test_the_child_has_no_environment_and_no_other_descriptor(base, monkeypatch):
    directory, fd = base
    monkeypatch.setenv("LEAKED", "yes")
    leaked = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    os.set_inheritable(leaked, True)
    try:
        shell = f'echo "[$LEAKED]"; if cd /proc/self/fd/{leaked}; then echo open; fi 2>&1'
        printed = ripgrep.run_confined_blocking("/bin/sh", ["-c", shell], fd, bounds())
    finally:
        os.close(leaked)
    assert printed is not None
    assert printed.splitlines()[0] == b"[]"
    assert b"open" not in printed


# --- its end -------------------------------------------------------------------------------------


@pytest.fixture
def children(monkeypatch):
    """Every child that was started, to look at how it ended."""
    seen = []
    end = ripgrep._end

    def record(child):
        seen.append(child)
        end(child)

    monkeypatch.setattr(ripgrep, "_end", record)
    return seen


def test_a_child_that_hangs_is_killed_at_the_deadline(base, children):
    directory, fd = base
    os.mkfifo(directory / "fifo")
    assert ripgrep.run_confined_blocking(RIPGREP, ["x", "./fifo"], fd, bounds(0.2)) is None
    assert [child.returncode for child in children] == [-9]


def test_a_child_is_killed_when_its_caller_gives_up(base, children):
    directory, fd = base
    os.mkfifo(directory / "fifo")
    asked = iter([False, False, False, True])
    stopping = bounds(cancelled=lambda: next(asked))
    assert ripgrep.run_confined_blocking(RIPGREP, ["x", "./fifo"], fd, stopping) is None
    assert [child.returncode for child in children] == [-9]


def test_a_child_that_prints_too_much_is_killed(base, children, monkeypatch):
    directory, fd = base
    for number in range(100):
        (directory / f"file{number}").write_text("needle")
    monkeypatch.setattr(ripgrep, "OUTPUT_BYTES_MAX", 100)
    assert nominate(fd, "needle") is None
    assert len(children) == 1


def test_nothing_is_started_after_the_deadline_or_a_cancel(base, children):
    _, fd = base
    assert ripgrep.run_confined_blocking(RIPGREP, ["x", "./"], fd, bounds(-1)) is None
    late = bounds(cancelled=lambda: True)
    assert ripgrep.run_confined_blocking(RIPGREP, ["x", "./"], fd, late) is None
    assert children == []


@pytest.mark.parametrize("binary", ["/nonexistent/rg", "/etc/passwd", "/"])
def test_a_ripgrep_that_is_none_nominates_nothing(base, binary):
    query = compile_query("x")
    assert ripgrep.nominate_blocking(binary, base[1], query, Area(), bounds()) is None


def test_what_ripgrep_refuses_is_not_an_answer(base):
    assert ripgrep.run_confined_blocking(RIPGREP, ["("], base[1], bounds()) is None
    assert ripgrep.run_confined_blocking(RIPGREP, ["--no-such-flag"], base[1], bounds()) is None


def test_a_pattern_too_long_for_an_argument_is_not_passed(base, children):
    assert nominate(base[1], "^" + "[ab]" * 4_000) is None
    assert nominate(base[1], "".join(f"[a{chr(0x4E00 + n)}]" for n in range(65))) is None
    assert children == []
