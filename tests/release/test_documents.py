"""What goes with a release: what it needs, where it came from, and whether that is true."""

import hashlib
import json
import subprocess
import sys
import tomllib

import pytest

from release import lock_file, provenance, sbom
from release.source_tree import Commit
from tests.laws.repository import ROOT

LOCK = """\
a==1.0 \\
    --hash=sha256:{ones}
    # via bailiwick (pyproject.toml)
b-c==2.0 ; sys_platform == 'win32' \\
    --hash=sha256:{twos} \\
    --hash=sha256:{ones}
    # via
    #   a
    #   tool
tool==3.0 \\
    --hash=sha256:{twos}
    # via bailiwick (pyproject.toml:dev)
""".format(ones="1" * 64, twos="2" * 64)


@pytest.fixture(scope="module")
def bill():
    return sbom.document(ROOT, seconds=1)


def test_a_lock_is_read(tmp_path):
    (tmp_path / "lock").write_text(LOCK)
    a, bc, tool = lock_file.read(tmp_path / "lock")
    assert (a.name, a.version, a.marker, a.wanted_here) == ("a", "1.0", "", True)
    assert (bc.marker, bc.hashes) == ("sys_platform == 'win32'", ("1" * 64, "2" * 64))
    assert (bc.wanted_by, bc.wanted_here) == ({"a", "tool"}, False)
    assert (tool.wanted_by, tool.wanted_here) == (frozenset(), False)
    assert lock_file.closure([a, bc, tool], {"a"}) == {"a", "b-c"}


@pytest.mark.spec("REL-2")
def test_the_bill_names_all_that_is_required_and_nothing_of_developers(bill):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    core = sbom.names(project["dependencies"])
    assert core <= {name for name, scope in scopes.items() if scope == "required"}
    # The lock, of which the bill is made, has what `all` has: the largest extra is outside it.
    for extra, wanted in project["optional-dependencies"].items():
        if extra not in ("all", "claude-agent"):
            assert sbom.names(wanted) <= scopes.keys(), extra
    assert not {"pytest", "mypy", "ruff", "hypothesis", "selenium"} & scopes.keys()


@pytest.mark.spec("REL-2")
def test_the_bill_is_whole_and_the_same_each_time(bill):
    known = {each["bom-ref"] for each in bill["components"]}
    known.add(bill["metadata"]["component"]["bom-ref"])
    assert {each["ref"] for each in bill["dependencies"]} == known
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} <= known
    assert all(each["hashes"] for each in bill["components"])
    assert sbom.document(ROOT, seconds=1) == bill
    assert sbom.document(ROOT, seconds=2)["serialNumber"] != bill["serialNumber"]


@pytest.mark.spec("REL-2")
def test_the_bill_does_not_depend_on_the_order_of_sets():
    program = (
        "import json, pathlib; from release import sbom;"
        "print(json.dumps(sbom.document(pathlib.Path(), seconds=1)))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(told) == 1


@pytest.mark.spec("REL-2")
def test_the_statement_names_each_file_by_its_hash_and_nothing_of_the_machine(tmp_path):
    file = tmp_path / "file.whl"
    file.write_bytes(b"wheel")
    told = provenance.statement([file], Commit("c" * 40, "t" * 40, 1), ROOT)
    known = hashlib.sha256(b"wheel").hexdigest()
    assert told["subject"] == [{"name": "file.whl", "digest": {"sha256": known}}]
    source, lock = told["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": "c" * 40, "gitTree": "t" * 40}
    assert lock["name"] == "requirements/dev.lock"
    assert str(ROOT) not in json.dumps(told)
    assert told == provenance.statement([file], Commit("c" * 40, "t" * 40, 1), ROOT)


@pytest.mark.spec("REL-2")
def test_a_directory_without_a_statement_is_not_verified(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "release", "verify", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "names no commit" in done.stderr
