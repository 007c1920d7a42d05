"""Frameworks that people use, each by its real package, in an environment of its own:
``make clients``, or ``python -m tests.clients smolagents adk``.

What is run is what the documentation shows: the program in a section of docs/frameworks.md, with a
scripted model; the programs of a page of docs/integrations where nothing is but its extra, and its
whole loop, in which a person agrees. Nothing of this is in the lock, so the newest releases are
met.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.laws.repository import ROOT

PLACE = ROOT / ".venv-clients"
UV = PLACE / "uv" / "bin" / "uv"
HERE = Path(__file__).parent
SECONDS = 300

CLIENTS = {
    "claude-agent": (None, (f"{ROOT}[claude-agent]",)),
    "smolagents": ("smolagents", ("smolagents[mcp]", "mcp<2", "websockets")),
    "strands": ("Strands", ("strands-agents",)),
    "ag2": ("AG2", ("ag2[mcp]",)),
    "autogen": ("AutoGen", ("autogen-agentchat", "autogen-ext[mcp]", "mcp<2")),
    "adk": ("Google ADK", ("google-adk", "mcp<2")),
    "llama-index": ("LlamaIndex", ("llama-index-core", "llama-index-tools-mcp")),
    "crewai": ("CrewAI", ("crewai", "crewai-tools[mcp]")),
}
"""By name: the section of the page, and the packages."""

PAGES = {
    "openai": ("openai", ()),
    "openai-agents": ("openai", ()),
    "anthropic": ("anthropic", ()),
    "langchain": ("langchain", ("langchain",)),
    "deepagents": ("deepagents", ()),
    "pydantic-ai": ("pydantic-ai", ()),
}
"""Pages of docs/integrations: the extra of each, and what an agent takes besides."""


def made(name, packages):
    """The Python of an environment that has the packages."""
    folder = PLACE / name
    if not UV.exists():
        subprocess.run([sys.executable, "-m", "venv", UV.parents[1]], check=True)
        subprocess.run([UV.with_name("python"), "-m", "pip", "install", "-q", "uv"], check=True)
    python = folder / "bin" / "python"
    subprocess.run([UV, "venv", "-q", "--clear", folder], check=True)
    with_packages(python, packages)
    return python


def with_packages(python, packages):
    subprocess.run([UV, "pip", "install", "-q", "--python", python, *packages], check=True)


def told():
    """What the page shows: the configuration that asks, and the program of each section."""
    opening, *sections = (ROOT / "docs" / "frameworks.md").read_text().split("\n## ")
    (configuration,) = re.findall(r"^```toml\n(.*?)^```$", opening, re.MULTILINE | re.DOTALL)
    found = [
        re.match(r"(.*?)\n.*?^```python\n(.*?)^```$", each, re.MULTILINE | re.DOTALL)
        for each in sections
    ]
    return configuration, {each[1]: each[2] for each in found}


def answered_elsewhere(place, environment, program):
    """A person at another terminal: hears of the question while the call waits, and agrees. Whether
    nothing had been done by then."""
    bailiwick = Path(sys.executable).with_name("bailiwick")
    following = subprocess.Popen(
        [bailiwick, "approvals", "list", "--follow", "--json"], cwd=place, env=environment,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    threading.Thread(target=lambda: (program.wait(), following.terminate())).start()
    try:
        for line in following.stdout:  # until somebody asks, or the program is over
            if asked := re.search(r'"id": ?"([^"]+)"', line):
                waited = not (Path(place) / "project" / "b.txt").exists()
                answer = [bailiwick, "approvals", "answer", asked[1], "once"]
                subprocess.run(answer, cwd=place, env=environment, check=True, stdout=2)
                return waited
        return False
    finally:
        following.terminate()
        following.wait()
        following.stdout.close()


def run(name):
    section, packages = CLIENTS[name]
    python = made(name, packages)
    with tempfile.TemporaryDirectory() as place:
        project = Path(place) / "project"
        project.mkdir()
        (project / "a.txt").write_text("hello\n")
        command = [python, "-m", "tests.clients.claude_agent"]
        asks = False
        if section is not None:
            configuration, programs = told()
            command = [python, "-c", programs[section]]
            asks = "bailiwick.toml" in programs[section]
            (Path(place) / "bailiwick.toml").write_text(configuration)
            model = HERE / "models" / f"{name}.py"
            if model.exists():
                (Path(place) / "my_model.py").write_text(model.read_text())
        # The command is found as somebody finds it who installed it elsewhere.
        environment = {
            "HOME": place, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true",
        }  # fmt: skip
        output, answer = Path(place) / "output", Path(place) / "answer"
        answer.write_text("once\n")
        with output.open("w") as sink, answer.open() as source:
            program = subprocess.Popen(
                ["timeout", str(SECONDS), *command], cwd=ROOT if section is None else place,
                env=environment, stdin=source, stdout=sink, stderr=subprocess.STDOUT,
            )  # fmt: skip
        elsewhere = "--wait" in command[-1]
        waited = not elsewhere or answered_elsewhere(place, environment, program)
        program.wait()
        said = output.read_text()
        written = project / "b.txt"
        granted = not asks or (written.exists() and written.read_text() == "hello\n")
    worked = program.returncode == 0 and granted and waited
    worked = worked and (section is None or "hello" in said)
    versions = [each for each in packages if not each.startswith("/")]
    print(f"{name}: {'ok' if worked else 'FAILED'} ({', '.join(versions) or 'of the extra'})")
    for line in said.splitlines()[-3 if worked else -15 :]:
        print(f"    {line}")
    return worked


def pasted(name):
    """The programs of a page, each in a directory that was empty; then the loop that it names."""
    extra, further = PAGES[name]
    text = (ROOT / "docs" / "integrations" / f"{name}.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    loop = ROOT / re.search(r"The whole loop: \[(examples/\w+\.py)\]", text)[1]
    python = made(name, (f"{ROOT}[{extra}]",))
    said = [alone(python, "-c", program) for program in programs]
    if further:
        with_packages(python, further)
    ended = alone(python, loop)
    agreed = re.search("the person says (yes|once)", ended.stdout)
    worked = all(each.returncode == 0 and each.stdout for each in [*said, ended]) and bool(agreed)
    print(f"{name}: {'ok' if worked else 'FAILED'} (bailiwick[{extra}])")
    if not worked:
        print(*(each.stdout[-2_000:] + each.stderr[-2_000:] for each in [*said, ended]), sep="\n")
    return worked


def alone(python, *program):
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "project").mkdir()
        return subprocess.run(
            ["timeout", str(SECONDS), python, *program], cwd=Path(place) / "project",
            env={"HOME": place, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*CLIENTS, *PAGES, []], metavar="NAME")
    names = parser.parse_args().names or [*CLIENTS, *PAGES]
    results = [(run if name in CLIENTS else pasted)(name) for name in names]
    print(f"{sum(results)} of {len(results)} clients")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
