"""What the console is for, in one go: an agent works over MCP while nobody looks; a person comes an
hour later, goes through what it did by keyboard, and rejects a piece with a note; the agent's next
call carries it; and after a restart all of it is still there."""

import json
import os
import subprocess
import sys

import pytest

from tests.fronts.console.browsing import PROJECT, Browser, Served
from tests.waiting import until_blocking

RULES = PROJECT.format(place="project")
HOUR_S = 3600
BEFORE = [f"line {number}" for number in range(40)]

CLOCK = """
import os, time
_ahead, _s, _ns = int(os.environ.get("TEST_CLOCK_AHEAD_S", "0")), time.time, time.time_ns
time.time, time.time_ns = lambda: _s() + _ahead, lambda: _ns() + _ahead * 10**9
"""


def text(*changed):
    lines = list(BEFORE)
    for number in changed:
        lines[number] = f"changed {number}"
    return "\n".join(lines) + "\n"


class McpAgent:
    """A client of `bailiwick mcp`, as a coding tool starts it."""

    def __init__(self, directory, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bailiwick", "mcp", "--config", "bailiwick.toml"],
            cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={
                **os.environ, "XDG_STATE_HOME": str(directory / "state"),
                "XDG_DATA_HOME": str(directory / "data"), **environment,
            },
        )  # fmt: skip
        self.said = 0
        hello = {"name": "coder", "version": "1"}
        self.ask(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": hello},
        )
        self.say({"method": "notifications/initialized"})

    def say(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.said += 1
        self.say({"id": self.said, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            assert line, "the server has ended"
            if (answer := json.loads(line)).get("id") == self.said:
                return answer["result"]

    def call(self, name, **arguments):
        meta = {"bailiwick/run": {"title": "Speak German", "step": "strings"}}
        result = self.ask("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
        assert not result.get("isError"), result
        return result

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def looked_at(window, served, name, tmp_path):
    """Log in, and open the run that the list has; a picture of it is kept."""
    window.driver.get(served.link)
    window.find("header.top")
    window.go("#/runs")
    window.click(".choice", "1 new, 1 changed")  # not the one that only read
    until_blocking(lambda: window.value("return document.querySelectorAll('.hunk').length") == 3)
    window.driver.save_screenshot(str(tmp_path / f"{name}.png"))


@pytest.mark.spec("PAST-1", "RUN-1", "REVIEW-1", "REVIEW-3", "REVIEW-5", "WEB-1")
@pytest.mark.parametrize("phone", [False, True], ids=["wide, light", "phone, dark"])
def test_a_person_comes_an_hour_later(tmp_path, phone):
    project = tmp_path / "project"
    project.mkdir()
    (project / "words.txt").write_text(text())
    (tmp_path / "bailiwick.toml").write_text(RULES)
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    agent = McpAgent(tmp_path, PYTHONPATH=str(tmp_path), TEST_CLOCK_AHEAD_S=str(-HOUR_S))
    edits = [
        {"oldText": f"line {number}\n", "newText": f"changed {number}\n"} for number in (3, 30)
    ]
    agent.call("edit_file", path="words.txt", edits=edits)
    agent.call("write_file", path="notes.md", content="Hallo\n")
    agent.close()
    assert (project / "words.txt").read_text() == text(3, 30)
    window, served = Browser(phone=phone, dark=phone), Served(tmp_path, RULES)
    try:
        looked_at(window, served, "found", tmp_path)
        window.find(".choice[aria-current=true] .chip", "new")
        window.find(".choice[aria-current=true]", "1 h ago")
        window.find(".choice[aria-current=true]", "0 of 3 reviewed")
        window.find(".steps li", "strings")
        for wanted in ("Hallo", "changed 3"):
            window.press("n")
            window.find(".hunk.marked", wanted)
            window.press("y")
            window.find(".hunk.marked .chip.good", "accepted")
        window.press("n")
        window.find(".hunk.marked", "changed 30")
        window.press("r")
        window.type(".dialog textarea", "keep line 30")
        window.driver.save_screenshot(str(tmp_path / "rejecting.png"))
        window.click(".dialog button", "Reject")
        window.find(".toast", "the agent is told")
        window.find(".choice[aria-current=true]", "reviewed")
        assert (project / "words.txt").read_text() == text(3)
        agent = McpAgent(tmp_path)
        told = agent.call("read_file", path="words.txt")
        assert "changed 30" not in json.dumps(told["content"][0])
        ((note, lines),) = [
            (each["note"], each["lines"]) for each in told["_meta"]["bailiwick/review"]
        ]
        assert (note, lines) == ("keep line 30", ["-line 30", "+changed 30"])
        assert "_meta" not in agent.call("read_file", path="words.txt")
        agent.close()
        served.close()
        served = Served(tmp_path, RULES)
        looked_at(window, served, "after a restart", tmp_path)
        window.find(".hunk .chip.bad", "rejected")
        chips = "return document.querySelectorAll('.hunk .chip.good').length"
        assert window.value(chips) == 2
        assert (project / "words.txt").read_text() == text(3)
        width = "return document.documentElement.scrollWidth <= innerWidth"
        assert window.value(width), "nothing hangs over the edge of the window"
        assert window.errors() == []
    finally:
        window.close()
        served.close()
