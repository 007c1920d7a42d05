"""Every rule that is built has a test, and every test cites rules that exist."""

import pytest

from tests.laws.citations import Citation, citations, read_spec
from tests.laws.repository import ROOT

SPEC = """
# Rules
## PATH
- **PATH-1** A rule
  that goes on in a second line with **PATH-9** in it.
- **PATH-2** Another.
## Not built yet
- **AUTH-1** Later.
## DISK
- **DISK-4** A rule after the exempt section.
"""


@pytest.fixture(scope="module")
def spec():
    return read_spec((ROOT / "SPEC.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def cited():
    return citations()


def untested(spec, cited):
    return sorted(spec.built - {citation.rule for citation in cited})


def unknown(spec, cited):
    return [citation for citation in cited if citation.rule not in spec.built | spec.not_built]


def test_no_rule_is_defined_twice(spec):
    assert spec.twice == ()


def test_every_built_rule_has_a_test(spec, cited):
    assert untested(spec, cited) == []


def test_every_cited_rule_exists(spec, cited):
    assert unknown(spec, cited) == []


def test_rules_are_found_in_the_spec():
    spec = read_spec(SPEC)
    assert spec.built == {"PATH-1", "PATH-2", "DISK-4"}
    assert spec.not_built == {"AUTH-1"}
    assert read_spec(SPEC + "- **PATH-2** again\n").twice == ("PATH-2",)


def test_planted_gaps_and_unknown_citations_are_found(tmp_path):
    planted = {
        "tests/test_paths.py": '@pytest.mark.spec("PATH-1", "PATH-7")\ndef test_it(): pass\n',
        "tests/deep/test_more.py": "pytestmark = [mark.spec(RULE)]\n# mark.spec('PATH-8')\n",
        "bench/small.py": 'CITES = ("DISK-4",)\n',
    }
    for name, source in planted.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    spec, cited = read_spec(SPEC), citations(tmp_path)
    assert untested(spec, cited) == ["PATH-2"]
    assert unknown(spec, cited) == [
        Citation("RULE", "tests/deep/test_more.py", 1),
        Citation("PATH-7", "tests/test_paths.py", 1),
    ]
