"""What is published is what is committed, and the same bytes wherever it is made."""

import json
import shutil
import tarfile
import tomllib
import zipfile

import pytest

import bailiwick
from release import distributions
from release.distributions import ELSEWHERE, Differs, Surroundings
from tests.laws.repository import PACKAGE, ROOT, published_files

SECONDS = 1_700_000_001
NOT_SHIPPED = ".ci"


def copied(destination):
    """The files of the repository, as a commit would have them."""
    for path in published_files():
        to = destination / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return destination


def digests(files):
    return {path.name: distributions.digest(path) for path in files}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source archive, and the tree that they were made of."""
    place = tmp_path_factory.mktemp("release")
    tree = copied(place / "tree")
    made = distributions.build(tree, place / "dist", SECONDS, Surroundings())
    wheel, archive = sorted(made, key=lambda path: path.suffix != ".whl")
    yield tree, wheel, archive
    shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.spec("REL-1")
def test_two_builds_are_the_same_byte_for_byte(built, tmp_path):
    _, wheel, archive = built
    again = distributions.build(
        copied(tmp_path / "another place"), tmp_path / "dist", SECONDS, ELSEWHERE
    )
    assert digests(again) == digests([wheel, archive])


@pytest.mark.slow
@pytest.mark.spec("REL-1")
def test_the_archive_holds_what_is_committed_and_the_wheel_the_package(built):
    _, wheel, archive = built
    with tarfile.open(archive) as members:
        names = {member.name.partition("/")[2] for member in members if member.isfile()}
    committed = {str(path.relative_to(ROOT)) for path in published_files()}
    assert names == {each for each in committed if not each.startswith(NOT_SHIPPED)} | {"PKG-INFO"}
    with zipfile.ZipFile(wheel) as members:
        shipped = {name for name in members.namelist() if ".dist-info/" not in name}
    assert shipped == {
        str(path.relative_to(PACKAGE.parent))
        for path in published_files()
        if path.is_relative_to(PACKAGE)
    }


@pytest.mark.slow
@pytest.mark.spec("REL-1")
def test_the_archive_gives_the_same_wheel(built, tmp_path):
    _, wheel, archive = built
    with tarfile.open(archive) as members:
        members.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    again = distributions.build(unpacked, tmp_path / "dist", SECONDS, ELSEWHERE)
    assert digests([wheel]).items() <= digests(again).items()


def test_a_planted_difference_is_found(tmp_path):
    for name, text in (("one", b"a"), ("other", b"b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.whl").write_bytes(b"same")
        (tmp_path / name / "file.tar.gz").write_bytes(text)
    one, other = (sorted((tmp_path / name).iterdir()) for name in ("one", "other"))
    with pytest.raises(Differs, match=r"file\.tar\.gz"):
        distributions.compare(one, other)
    with pytest.raises(Differs, match=r"same\.whl"):
        distributions.compare(one, one[:1])


@pytest.mark.spec("REL-1")
def test_the_version_is_one():
    """In the package, in its description, in its client, and at the top of what has changed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = next(line for line in changes.splitlines() if line.startswith("## ["))
    client = json.loads((ROOT / "clients/typescript/package.json").read_text(encoding="utf-8"))
    assert project["version"] == bailiwick.__version__ == client["version"]
    assert newest.startswith(f"## [{bailiwick.__version__}]")
