"""The public names are pinned: none appears or goes by accident."""

import subprocess
import sys

import pytest

import bailiwick
from tests.laws import public_names
from tests.laws.repository import PACKAGE, ROOT


def pinned():
    return public_names.PINNED.read_text(encoding="utf-8").split()


@pytest.mark.spec("PY-1")
def test_public_names_are_the_pinned_ones():
    assert sorted(bailiwick.__all__) == pinned()
    assert len(set(bailiwick.__all__)) == len(bailiwick.__all__)


@pytest.mark.spec("PY-1")
def test_every_public_name_is_there_and_typed():
    missing = [name for name in bailiwick.__all__ if not hasattr(bailiwick, name)]
    assert missing == []
    assert (PACKAGE / "py.typed").exists()


def test_the_documented_command_prints_the_pinned_file():
    command = [sys.executable, "-m", "tests.laws.public_names"]
    run = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert run.stdout == public_names.PINNED.read_text(encoding="utf-8")


@pytest.mark.spec("PY-1")
def test_a_planted_name_is_noticed(monkeypatch):
    monkeypatch.setattr(bailiwick, "__all__", [*bailiwick.__all__, "planted"])
    assert sorted(bailiwick.__all__) != pinned()
