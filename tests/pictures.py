"""The pictures of the documentation, made anew: `make pictures`.

One story in a real browser and in a real terminal: an agent works on a small shop, a person looks.
What is on a picture is what the product shows today; whoever changes how it looks runs this.
"""

import io
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.fronts.cli.terminal import Terminal
from tests.fronts.console.browsing import RULES, Browser, Served
from tests.fronts.console.test_console import asking
from tests.fronts.console.test_work_page import APART
from tests.fronts.mcp.clients import RawClient
from tests.laws.repository import ROOT

PICTURES = ROOT / "docs" / "images"
PRICES = """\
from decimal import Decimal

RATES = {"books": Decimal("0.07"), "tools": Decimal("0.19")}


def total(items):
    net = sum(item.price * item.count for item in items)
    tax = sum(item.price * item.count * RATES[item.kind] for item in items)
    return net + tax


def shown(amount):
    return f"{amount:.2f} EUR"
"""
EDITED = PRICES.replace("RATES[item.kind]", 'RATES.get(item.kind, Decimal("0.19"))').replace(
    "{amount:.2f} EUR", "{amount:,.2f} EUR"
)
FILES = {
    "README.md": "# Shop\n\nPrices, orders and a till.\n",
    "pyproject.toml": '[project]\nname = "shop"\nversion = "0.3.0"\n',
    "src/prices.py": PRICES,
    "src/orders.py": "def placed(order):\n    return order.state == 'placed'\n",
    "tests/test_prices.py": "from prices import total\n",
    "docs/till.md": "# The till\n",
}  # fmt: skip
RUN = {"X-Bailiwick-Run": "Unknown%20kinds%20of%20goods", "X-Bailiwick-Step": "prices"}


def main():
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        shop = Path(directory, "shop")
        shop.mkdir()
        console(shop)
        apart = Path(directory, "apart")
        planted(apart / "project")
        not_applied(apart)
        terminal(Path(directory, "terminal"))


def planted(directory):
    for path, text in FILES.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)


def taken(window, name):
    window.driver.save_screenshot(str(PICTURES / f"{name}.png"))
    assert window.errors() == []
    print(f"{name}.png")


# --- the console -------------------------------------------------------------------------------


def console(directory):
    served = Served(directory, RULES)
    window = Browser()
    try:
        person = served.person_token("shop")
        for path, text in FILES.items():
            body = {"path": path, "content": text, "parents": True}
            assert served.agent("POST", "/file/write", body, token=person)[0] == 201
        written(served, "src/prices.py", EDITED)
        written(served, "CHANGES.md", "- Goods of an unknown kind are taxed like tools.\n")
        window.driver.get(served.new_link())
        window.find(".entry", "pyproject.toml")
        taken(window, "console-files")
        window.go("#/history/src/prices.py")
        window.find(".diff")
        taken(window, "console-history")
        reviewed(window)
        conflicting(served, window)
        asked_about(served, window)
        on_a_phone(served)
    finally:
        window.close()
        served.close()


def written(served, path, text):
    body = {"path": path, "content": text}
    status, document = served.agent("POST", "/file/write", body, headers=RUN)
    assert status in (200, 201), document


def reviewed(window):
    window.go("#/runs")
    window.click(".choice", "Unknown kinds of goods")
    window.find(".hunk", "unknown kind")
    window.press("n")
    window.press("n")
    window.find(".hunk.marked", "RATES.get")
    taken(window, "console-runs")


def conflicting(served, window):
    window.go("#/file/src/orders.py?edit=yes")
    window.find(".editor textarea").send_keys("# looked at by hand\n")
    served.write("src/orders.py", FILES["src/orders.py"].replace("placed'", "paid'"))
    window.find(".notice", "agent_run:build/7")
    window.click("button", "Save")
    window.find(".dialog .diff", "looked at by hand")
    taken(window, "console-conflict")
    window.click(".dialog button", "Take theirs")


def asked_about(served, window):
    thread, answers = asking(
        served, "migrations/0007_kinds.sql",
        "alter table goods add column kind text not null default 'tools';\n",
    )  # fmt: skip
    window.go("#/approvals")
    window.find(".diff .add", "alter table")
    taken(window, "console-approval")
    window.click(".verdict .danger")
    thread.join()
    assert answers[0][0] == 403, answers


def on_a_phone(served):
    window = Browser(dark=True, phone=True)
    try:
        window.driver.get(served.new_link())
        window.go("#/runs")
        window.click(".choice", "Unknown kinds of goods")
        window.find(".hunk", "unknown kind")
        taken(window, "console-phone")
    finally:
        window.close()


def not_applied(directory):
    served = Served(directory, APART)
    window = Browser()
    try:
        written(served, "src/prices.py", EDITED)
        window.driver.get(served.new_link())
        window.go("#/runs")
        window.click(".choice", "not applied")
        window.find(".hunk", "RATES.get")
        window.press("n")
        taken(window, "console-work")
    finally:
        window.close()
        served.close()


# --- the terminal ------------------------------------------------------------------------------


def terminal(directory):
    """An agent works by MCP while nobody looks; a person comes back."""
    project = directory / "shop"
    planted(project)
    os.environ["XDG_STATE_HOME"] = str(directory / "state")
    with RawClient(project) as agent:
        agent.handshake()
        for path, text in (("src/prices.py", EDITED), ("CHANGES.md", "- Kinds.\n")):
            meta = {"bailiwick/run": {"title": "Unknown kinds of goods", "step": "prices"}}
            done = agent.request(
                "tools/call",
                {"name": "write_file", "arguments": {"path": path, "content": text}, "_meta": meta},
            )
            assert not done["result"].get("isError"), done
    drawn("terminal-runs", shown(project, "runs"))
    answers = (
        (b",? ", b"y\n"),
        (b",? ", b"e\n"),
        (b"note: ", b"keep the plain form\n"),
        (b",? ", b"y\n"),
    )
    drawn("terminal-review", shown(project, "review", answers=answers))


def shown(project, *command, answers=()):
    """What a person sees of a command, with what they typed."""
    told = f"$ bailiwick {' '.join(command)}\n"
    with Terminal(*command, cwd=project, env={"COLORTERM": "truecolor"}, stdin_too=True) as screen:
        for prompt, answer in answers:
            screen.wait_for(prompt)
            seen, screen.shown = screen.shown, b""
            told += seen.decode()
            screen.type(answer)
        screen.ended()
        return (told + screen.shown.decode()).replace("\r\n", "\n")


def drawn(name, told):
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(told.rstrip()))
    console.save_svg(str(PICTURES / f"{name}.svg"), title="bailiwick")
    print(f"{name}.svg")


if __name__ == "__main__":
    sys.exit(main())
