"""The first page as whoever finds it reads it: `make first-minutes`.

In an empty home, with no variable of ours, and where it is started by root as a user that nobody
has been before, each command of docs/start.md is typed into a shell in its order, each file saved
as the page says, and what is shown below a command must come. A word in capitals (ID, REQUEST) is
what a person copies from what they saw; `…` is anything.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from release.source_tree import version
from tests.laws.repository import ROOT, published_files
from tests.waiting import until_blocking

PAGE = ROOT / "docs" / "start.md"
BLOCK = re.compile(
    r'^```(?:(?P<console>console)|\w+ title="(?P<file>[^"]+)")\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
COPIED = {
    "ID": re.compile(r"^(\w{16}) +pending", re.MULTILINE),
    "REQUEST": re.compile(r"\b([0-9a-f]{12}-[0-9]+)\b"),
}
END = "--- the end of a command ---"
NEWCOMER = 54_321
"""A user that no machine has given a name."""


class Failed(Exception):
    """What came is not what the page shows."""


class Shell:
    """One bash, as a person has it before them: in a home of its own."""

    def __init__(self, home):
        as_newcomer = os.geteuid() == 0
        who = {"user": NEWCOMER, "group": NEWCOMER, "extra_groups": ()} if as_newcomer else {}
        # Root's own interpreter may lie where nobody else may look.
        programs = "/usr/bin:/bin"
        if not as_newcomer:
            programs = f"{Path(sys.executable).resolve().parent}:{programs}"
        self._process = subprocess.Popen(
            ["bash", "--norc"], cwd=home, text=True, start_new_session=True, **who,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            # Where packages come from is the business of the machine, so its settings for pip stay.
            env={
                "HOME": str(home), "PATH": programs,
                **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
            },
        )  # fmt: skip

    def type(self, command):
        self._process.stdin.write(f"{command}\necho '{END}'\n")
        self._process.stdin.flush()
        said = ""
        for line in self._process.stdout:
            if line.rstrip("\n").endswith(END):
                return said
            said += line
        raise Failed(f"the shell ended at: {command}\n{said}")

    def close(self):
        """End the shell, and wait until all that was started in it has let go of its output."""
        self._process.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.stdout.close()
        self._process.wait()


def steps(text):
    """The files to save and the commands to type, in the order of the page, each command with the
    lines that are shown below it."""
    for block in BLOCK.finditer(text):
        if block["file"]:
            yield "file", block["file"], block["text"]
            continue
        for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield "command", command, shown.splitlines()


def is_shown(shown, said):
    """Whether each line of the page stands in what came, in their order."""
    lines = iter(said.splitlines())
    for line in shown:
        pattern = ".*".join(re.escape(each) for each in line.split("…"))
        if not any(re.fullmatch(pattern, each.rstrip()) for each in lines):
            return False
    return True


def typed(shell, command, shown, seen):
    """Type one command; what came. One that shows something may be ahead of what goes on behind
    it: a person would look again, and so does this."""
    for word, pattern in COPIED.items():
        if re.search(rf"\b{word}\b", command):
            found = pattern.findall(seen)
            if not found:
                raise Failed(f"nothing to copy for {word} in:\n{seen}")
            command = re.sub(rf"\b{word}\b", found[-1], command)
    said = [shell.type(command)]

    def came():
        if is_shown(shown, said[-1]):
            return True
        said.append(shell.type(command))
        return is_shown(shown, said[-1])

    try:
        until_blocking(came, 60)
    except Exception as error:
        wanted = "\n".join(shown)
        raise Failed(f"$ {command}\n{said[-1]}\nis not what the page shows:\n{wanted}") from error
    print(f"$ {command}\n{said[-1]}", end="", flush=True)
    return said[-1]


def given_to_newcomer(path):
    """Hand over a file, or a directory with all that is in it, where it is root who does this."""
    if os.geteuid() == 0:
        for each in [path, *path.rglob("*")]:
            os.chown(each, NEWCOMER, NEWCOMER)


def main():
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        for path in published_files():
            to = home / "bailiwick" / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
        given_to_newcomer(home)
        shell = Shell(home)
        seen = ""
        try:
            for kind, what, inner in steps(PAGE.read_text(encoding="utf-8")):
                if kind == "file":
                    (home / what).write_text(inner, encoding="utf-8")
                    given_to_newcomer(home / what)
                else:
                    seen += typed(shell, what, inner, seen)
        except Failed as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            shell.close()
    print(f"the first page of {version()} holds: each command was copied from it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
