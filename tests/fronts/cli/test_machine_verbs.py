"""`bailiwick completion` in a real shell, and `bailiwick bench` on this machine."""

import json
import subprocess

import pytest

from bailiwick.fronts.cli import COMMANDS
from tests.fronts.cli.command import within


@pytest.fixture(scope="module")
def script():
    done = within("completion", "bash")
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(script, *typed, cwd):
    """What bash offers after what was typed; the last word is the one under the cursor."""
    words = " ".join(f"'{word}'" for word in ("bailiwick", *typed))
    asking = (
        f"{script}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed)}; _bailiwick;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asking], capture_output=True, text=True, check=True, cwd=cwd
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("gra",), {"grant"}),
        (("-p", "sqlite:x", "his"), {"history"}),
        (("fork", "cr"), {"create"}),
        (("-p", "x", "fork", "create", "--ver"), {"--version"}),
        (("grant", "add", "--sub"), {"--subject"}),
        (("ls", "--lo"), {"--long"}),
        (("ls", "note"), {"notes.md"}),
        (("-p", "note"), {"notes.md"}),
        (("zzz", "--x"), set()),
    ],
)
def test_bash_completes(script, typed, offered, tmp_path):
    (tmp_path / "notes.md").touch()
    assert completed(script, *typed, cwd=tmp_path) == offered


@pytest.mark.spec("CLI-2")
def test_bash_offers_every_command(script, tmp_path):
    assert set(COMMANDS) <= completed(script, "", cwd=tmp_path)


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_the_same(shell):
    """Neither is at hand here to run it: what is in the script is compared instead."""
    text = within("completion", shell).stdout
    for name, (_, what) in COMMANDS.items():
        assert name in text
        assert what.replace("'", "'\\''") in text
    assert "subject" in text
    assert json.loads(within("completion", shell, "--json").stdout)["commands"]["fork"]["create"]


@pytest.mark.spec("CLI-1")
def test_a_quick_benchmark_says_how_many_times_longer_it_takes(tmp_path):
    done = within("bench", "--dir", tmp_path, "--seconds", "0.2", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert {(row["what"], row["how"]) for row in rows} >= {
        ("read 1 KiB", "plain"), ("read 1 KiB", "directory"), ("read 1 KiB", "volume"),
        ("write 1 KiB, durable", "volume"), ("list 200", "directory"),
    }  # fmt: skip
    assert all(row["microseconds"] > 0 for row in rows)
    assert all(row["timesPlain"] == 1.0 for row in rows if row["how"] == "plain")
    assert list(tmp_path.iterdir()) == [], "it takes away what it made"
    assert "TIMES PLAIN" in within("bench", "--dir", tmp_path, "--seconds", "0.2").stdout
    assert within("bench", "--seconds", "0").returncode == 2
