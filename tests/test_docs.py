"""What the documentation shows is what happens: its code blocks and the examples run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bailiwick.config.loader import load

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


INTEGRATIONS = [
    ROOT / "docs" / "tools.md", ROOT / "docs" / "acp.md", ROOT / "docs" / "fsspec.md",
    *sorted((ROOT / "docs" / "integrations").glob("*.md")),
]  # fmt: skip
"""Pages whose code is pasted into an empty project, to see it work."""


BY_CLIENTS = [ROOT / "docs" / "frameworks.md", ROOT / "docs" / "claude-agent.md"]
"""Pages of packages that are not installed here: `make clients` runs them."""


def blocks():
    for page in PAGES:
        if page in INTEGRATIONS or page in BY_CLIENTS:
            continue
        text = page.read_text()
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 2
            yield pytest.param(page, line, block.group(1), id=f"{page.relative_to(ROOT)}:{line}")


@pytest.mark.spec("PY-6")
@pytest.mark.parametrize(("page", "line", "code"), list(blocks()))
def test_a_code_block_runs(page, line, code, tmp_path, monkeypatch, capsys):
    """Each block runs by itself, in an empty directory that holds a ``project``."""
    (tmp_path / "work" / "project").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    compiled = compile("\n" * (line - 1) + code, str(page), "exec")
    exec(compiled, {"__name__": "__main__"})
    if "print(" in code:
        assert capsys.readouterr().out.strip()


@pytest.mark.spec("PY-6", "TOOL-5")
@pytest.mark.parametrize("page", INTEGRATIONS, ids=lambda page: page.stem)
def test_a_page_can_be_pasted_into_an_empty_project(page, tmp_path):
    """Its blocks in their order, each as a program of its own, in a directory that was empty."""
    codes = BLOCK.findall(page.read_text())
    assert codes
    (tmp_path / "project").mkdir()
    for code in codes:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path / "project",
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


@pytest.mark.spec("PY-6")
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_an_example_runs(example, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env={"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert sorted(path.name for path in tmp_path.iterdir()) in ([], ["state"])


@pytest.mark.spec("PY-6")
def test_every_link_between_pages_leads_somewhere():
    pages = [
        *PAGES,
        *(ROOT / name for name in ("SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    ]
    targets = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    ]
    assert [t for page, t in targets if not (page.parent / t).exists()] == []


@pytest.mark.slow
@pytest.mark.spec("REL-5")
def test_the_comparison_is_what_its_command_prints():
    done = subprocess.run(
        [sys.executable, "-m", "bench.compare"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout in (ROOT / "docs" / "comparison.md").read_text()


def settings():
    for page in PAGES:
        text = page.read_text()
        for block in re.finditer(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 2
            # What belongs into a pyproject.toml, or into the settings of an MCP client.
            if not block.group(1).startswith(("[tool.", "[mcp_servers.")):
                yield pytest.param(block.group(1), id=f"{page.relative_to(ROOT)}:{line}")


@pytest.mark.spec("PY-6", "POL-2")
@pytest.mark.parametrize("text", list(settings()))
def test_a_configuration_that_is_shown_is_one(text):
    assert load(text, source="docs") != load("", source="docs"), "it says something"
