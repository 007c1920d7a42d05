"""The repository speaks only of the product, and could be checked out anywhere.

No file names a directory of the machine it was written on, the address of a package registry,
or the workplace it came from.
"""

import pathlib
import re
import tempfile

import pytest

from tests.laws.repository import ROOT, published_files

# In brackets, so that the patterns do not match the lines that define them.
ANYWHERE = {
    "a home directory": r"[/](?:home|Users)[/](?!user\b|me\b|agent\b)[a-z]\w*[/]",
    "a registry address": r"https?://[\w.-]+(?::\d+)?/(?:[\w-]+/)*[s]imple\b"
    r"|[p]ythonhosted\.org|--(?:extra-)?[i]ndex-url|--[f]ind-links|[f]ile:///",
    "a ticket number": r"\b(?i:issue|ticket|pull request|PR)s? ?#[0-9]+|\([#][0-9]+\)",
    "a work note": r"\b(?:T[O]DO|F[I]XME|X[X]X|H[A]CK)\b",
    "a document of the workplace": r"\.\./[s]hared/|\b[0-9]{2}-[a-z]+\.md\b",
}


def forbidden_patterns(checkout):
    """The patterns above, and what lies at and beside this very checkout."""
    patterns = {what: re.compile(pattern) for what, pattern in ANYWHERE.items()}
    place = checkout.resolve().parent
    if place not in {pathlib.Path("/"), pathlib.Path(tempfile.gettempdir()).resolve()}:
        neighbours = "|".join(re.escape(str(path)) for path in sorted(place.iterdir()))
        patterns["a directory of this machine"] = re.compile(rf"(?:{neighbours})(?![\w-])")
    return patterns


def offences(text, patterns):
    # No pattern goes beyond a line, and hardly ever is one found: so the whole text comes first.
    found = {what: pattern for what, pattern in patterns.items() if pattern.search(text)}
    for number, line in enumerate(text.splitlines() if found else (), start=1):
        for what, pattern in found.items():
            if pattern.search(line):
                yield number, what


def test_no_file_speaks_of_the_workplace():
    patterns = forbidden_patterns(ROOT)
    found = []
    for path in published_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # an image has no words
        found += [
            f"{path.relative_to(ROOT)}:{line} names {what}"
            for line, what in offences(text, patterns)
        ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "see /ho" + "me/ada/project",
        "--extra-ind" + "ex-url https://packages.example/",
        "https://packages.example/root/sim" + "ple/",
        "fi" + "le:///wheels",
        "# as asked in issue " + "#12",
        "fixed (" + "#7)",
        "# TO" + "DO: later",
        "see ../sha" + "red/spec",
        "decided in 10-" + "rules.md",
    ],
)
def test_planted_offence_is_found(planted):
    assert list(offences(planted, forbidden_patterns(ROOT)))


def test_the_place_of_the_checkout_is_found(tmp_path):
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (tmp_path / "notes").mkdir()
    patterns = forbidden_patterns(checkout)
    for planted in (f"see {checkout}/README.md", f"see {tmp_path}/notes"):
        assert list(offences(planted, patterns))


@pytest.mark.parametrize("honest", ["/home/user/x", "https://semver.org/spec/v2.0.0.html", "a#1"])
def test_honest_text_is_left_alone(honest):
    assert list(offences(honest, forbidden_patterns(ROOT))) == []


def unhashed(lock_text):
    """The requirements of a lock file that no hash pins."""
    entries = re.split(r"\n(?=[a-zA-Z0-9])", lock_text.strip())
    return [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry]


@pytest.mark.parametrize(
    "lock", sorted((ROOT / "requirements").glob("*.lock")), ids=lambda path: path.name
)
def test_every_locked_requirement_has_a_hash(lock):
    assert unhashed(lock.read_text(encoding="utf-8")) == []


def test_a_planted_requirement_without_hash_is_found():
    assert unhashed("a==1 \\\n    --hash=sha256:00\nb==2\n    # via a\n") == ["b==2"]
