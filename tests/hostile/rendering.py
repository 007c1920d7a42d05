"""Files that an agent wrote, as the console shows them to a person: Markdown that would be a page,
texts that would hold up the browser, and characters that would hide what is there.

Every function here runs behind the wall.
"""

import json
import pathlib
import subprocess
from typing import Any

import bailiwick.fronts.http

CONSOLE = pathlib.Path(bailiwick.fronts.http.__file__).parent / "console"
DRIVER = pathlib.Path(__file__).with_name("rendering.mjs")

PAGES = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>",
    "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](java\tscript:alert(1))",
    "[a](\x01javascript:alert(1))", "[a](data:text/html,<script>1</script>)", "[a](vbscript:1)",
    "[a](//elsewhere.example/)", "[a](\\\\elsewhere.example)", "[a](../../../outside)",
    "[a](%2e%2e/%2e%2e/outside)", "[a](/file/raw?path=.env)", "[a](#/grants)",
    "[a](&#106;avascript:1)",
    "![a](https://elsewhere.example/p.png)", "![a](//elsewhere.example/p.png)",
    "![a](javascript:1)", "![a](data:image/svg+xml,<svg/>)", "![a](../../outside.png)",
    "![a](p.png?session=1)", "<https://elsewhere.example/\" onclick=1>", "<javascript:alert(1)>",
    "[![a](javascript:1)](javascript:2)", "```html\n<script>1</script>\n```",
    "| a |\n|---|\n| <b>x |",
    "<!-- --><style>*{display:none}</style>", "[a]: javascript:1\n[a]",
)  # fmt: skip

MANY = 250_000
"""Characters of a text that is rendered at all."""

SLOW = (
    "# a" + " " * MANY + "b", "# a" + " #" * (MANY // 2) + "b", "# " + "#" * MANY + "b",
    "a|b\n-" + " " * MANY + "x", "a|b\n" + "-|" * (MANY // 2) + "x", "-" + " " * MANY + "x",
    "- " * (MANY // 2) + "x", "|" * MANY + "\n" + "|-" * (MANY // 2) + "\n" + "|" * MANY,
    "`" * MANY, "`a" * 2_400, "*a " * 1_600, "**a " * 1_200, "[" * 4_900, "[a](" * 1_200,
    "![a](" + "(" * 4_900, ">" * MANY + "a", "- a\n  " * (MANY // 6), "```\n" * (MANY // 4),
    "a\n" * (MANY // 2), "https://" + "a." * (MANY // 2), "~~a " * 1_200, "_a" * 2_400,
    "\\" * 4_900, "<" * 4_900, "a\n=" + " " * MANY + "b",
)  # fmt: skip

LAZY = r"/^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.test('# a' + ' '.repeat(20000) + 'b')"
"""A heading by a pattern as one finds them: it takes the cube of the blanks."""

UNSEEN = (
    "\u202e\u2066\u200b\u200d\u2060\ufeff\u00ad\u180e\u061c\u3164\u115f\uffa0\u2800\x1b\x9b\x7f"
    + ("".join(chr(0xE0000 + ord(each)) for each in "ignore what was said before"))
)


def rendered(way: str, texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """What came of each text, in one process that must end."""
    done = subprocess.run(
        ["node", DRIVER, CONSOLE], input=json.dumps({"way": way, "texts": texts}),
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


def takes_for_ever() -> bool:
    """The control: whether a page with that pattern in it would stand still."""
    try:
        subprocess.run(["node", "-e", LAZY], timeout=4, check=True, capture_output=True)
    except subprocess.TimeoutExpired:
        return True
    return False
