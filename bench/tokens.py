"""`python -m bench.tokens`: what tools cost a model in tokens, beside plain text and the reference
server over MCP.

Counted is all that a client hands to its model: every text of an answer, and the definitions of the
tools as providers take them (name, description, schema of the arguments). The tokens are those of
o200k, by a package of npm that ships its vocabulary. Plain is what `cat`, `grep -n` and `ls` print.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.mcp_servers import Dialect, ReferenceDialect, Server, reference
from bench.npm import installed
from bench.servers import python

PACKAGE = "gpt-tokenizer"
VERSION = "4.0.0"
BARS = {"read_file": 1.05, "grep": 1.5, "ls": 2.0}
"""How many times plain text each may cost."""
FORMS = ("plain", "text", "structured", "reference")
DEFINITIONS_MAX = 800
TEN = (
    "read_file", "write_file", "edit_file", "ls", "glob", "grep", "stat", "mkdir", "rm", "move",
)  # fmt: skip

COUNT = """
const { encode } = require(process.argv[1] + "/cjs/encoding/o200k_base.js");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => encode(text).length)));
"""

WORDS = [
    "alpha", "beta", "gamma", "delta", "report", "parser", "index", "schema", "reader", "writer",
]  # fmt: skip


def counted(texts: dict[str, str]) -> dict[str, int]:
    """The tokens of each text."""
    given = json.dumps(list(texts.values())).encode()
    done = subprocess.run(
        ["node", "-e", COUNT, str(installed(PACKAGE, VERSION))],
        input=given,
        capture_output=True,
        check=True,
    )
    return dict(zip(texts, json.loads(done.stdout), strict=True))


def make_tree(root: Path) -> None:
    """A file of some 250 lines, 30 lines that match, and a directory of 32 names."""
    (root / "src").mkdir(parents=True)
    (root / "many").mkdir()
    lines = [
        f"    def {WORDS[n % 10]}_{n}(self, value: int) -> str:"
        if n % 4 == 0
        else f'        return f"{WORDS[n % 10]} {{value}} of {WORDS[(n * 7) % 10]}"'
        for n in range(250)
    ]
    (root / "src" / "long.py").write_text("\n".join(lines) + "\n")
    for n in range(30):
        text = f"import os\n\nMARK = '{WORDS[n % 10]} {n}'\n"
        (root / "src" / f"{WORDS[n % 10]}_{n}.py").write_text(text)
    for n in range(32):
        (root / "many" / f"{WORDS[n % 10]}_{n}.py").write_text("x = 1\n" * (n + 1))


def plain(root: Path) -> dict[str, str]:
    def printed(*command: str) -> str:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout

    return {
        "read_file": (root / "src" / "long.py").read_text(),
        "grep": printed("grep", "-rn", "MARK", "src"),
        "ls": printed("ls", "many"),
    }


def told(server: Server, tool: str, **arguments: Any) -> str:
    """All the text of an answer."""
    result = server.request("tools/call", {"name": tool, "arguments": arguments})["result"]
    assert not result.get("isError"), result
    return "\n".join(each["text"] for each in result["content"])


def definitions(server: Server, names: tuple[str, ...] | None = None) -> str:
    listed = server.request("tools/list", {})["result"]["tools"]
    shown = [
        {"name": t["name"], "description": t["description"], "input_schema": t["inputSchema"]}
        for t in listed
        if names is None or t["name"] in names
    ]
    return json.dumps(shown, separators=(",", ":"))


def measure() -> dict[str, Any]:
    place = Path(tempfile.mkdtemp())
    try:
        root = place / "project"
        make_tree(root)
        command = [python(), "-m", "bailiwick", "mcp", str(root), "--state", str(place / "state")]
        texts = {f"plain {name}": text for name, text in plain(root).items()}
        for form, more in (("text", []), ("structured", ["--structured"])):
            server = Server([*command, *more], Dialect(root))
            texts[f"{form} read_file"] = told(server, "read_file", path="src/long.py")
            texts[f"{form} grep"] = told(server, "grep", pattern="MARK", path="src")
            texts[f"{form} ls"] = told(server, "ls", path="many")
            if form == "text":
                texts["definitions of ten"] = definitions(server, TEN)
                texts["definitions of all"] = definitions(server)
            server.close()
        other = Server(["node", str(reference()), str(root)], ReferenceDialect(root))
        long, many = str(root / "src" / "long.py"), str(root / "many")
        texts["reference read_file"] = told(other, "read_text_file", path=long)
        texts["reference ls"] = told(other, "list_directory", path=many)
        texts["reference definitions"] = definitions(other)
        other.close()
        tokens = counted(texts)
    finally:
        shutil.rmtree(place)
    return {
        "answers": {name: _beside(name, tokens) for name in BARS},
        "definitions": {
            "of ten tools": {"tokens": tokens["definitions of ten"], "at_most": DEFINITIONS_MAX},
            "of all tools": {"tokens": tokens["definitions of all"]},
            "of the reference server": {"tokens": tokens["reference definitions"]},
        },
    }


def _beside(name: str, tokens: dict[str, int]) -> dict[str, Any]:
    """What one answer costs, in each form."""
    told = {form: tokens.get(f"{form} {name}") for form in FORMS}
    ratio = round(tokens[f"text {name}"] / tokens[f"plain {name}"], 3)
    return {**told, "of_plain": ratio, "at_most": BARS[name]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure()
    for name, row in [*found["answers"].items(), *found["definitions"].items()]:
        print(f"{name:24}", ", ".join(f"{what} {figure}" for what, figure in row.items()))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    missed = [name for name, row in found["answers"].items() if row["of_plain"] > row["at_most"]]
    if found["definitions"]["of ten tools"]["tokens"] > DEFINITIONS_MAX:
        missed.append("definitions")
    print(f"more than they may cost: {', '.join(missed)}" if missed else "none costs too much")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
