"""`python -m tests.fronts.console.pace`: how long the page of a large run keeps its reader waiting.

A real server and a real Chromium. Prints figures, and judges none; `--json bench/console.json`
keeps them for the report. What blocks the page is what the browser itself calls a long task, from
50 ms on: less is told as 0.
"""

import argparse
import http.client
import json
import pathlib
import tempfile
import time
import urllib.parse

from tests.fronts.console.browsing import PROJECT, Browser, Served
from tests.waiting import until_blocking

FILES = 10_000
LINES = 80_000
"""Five million characters: a text that is written at once may have hardly more."""
PLACES = 50_000
STEPS = 40
"""So often a key is pressed."""

WATCHED = """
window.blocked = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) blocked = Math.max(blocked, each.duration);
}).observe({ type: "longtask", buffered: true });
"""

SAYS = "return RegExp(arguments[0]).test(document.querySelector('.hunks')?.textContent)"
CHOOSE = """
const choices = [...document.querySelectorAll(".choice")];
const found = choices.find((each) => each.textContent.includes(arguments[0]));
found?.click();
return Boolean(found);
"""
SCROLL = "const list = document.querySelector('.hunks'); list.scrollTop = list.scrollHeight * "


class Agent:
    """Somebody who writes much, over one connection."""

    def __init__(self, served, name):
        self._token = served.new_agent(name)
        where = urllib.parse.urlsplit(served.url)
        self._connection = http.client.HTTPConnection(where.hostname, where.port, timeout=600)

    def write(self, path, content):
        body = json.dumps({"path": path, "content": content, "parents": True})
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        self._connection.request("POST", "/file/write", body, headers)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(said.decode())

    def close(self):
        self._connection.close()


class Reader:
    """A person at the page; keeps what each step took, and how long the page stood still."""

    def __init__(self, window):
        self._window = window
        self.figures = {}

    def step(self, name, act, seen):
        """Do something, and wait until it is to be seen."""
        self._window.value("blocked = 0")
        began = time.perf_counter()
        act()
        until_blocking(seen, timeout_s=300)
        took = time.perf_counter() - began
        # The browser tells of a long task when it has a moment.
        self._window.driver.execute_async_script("setTimeout(arguments[0], 200)")
        blocked = self._window.value("return blocked")
        self.figures[name] = {"seen_ms": round(1000 * took), "blocked_ms": round(blocked)}
        print(f"{name}: seen after {1000 * took:,.0f} ms; the page stood still for {blocked:.0f}")

    def open(self, name, run, text):
        self.step(f"{name}: opened", lambda: self._to(run), lambda: self._says(text))

    # Not by what the driver does to find a text: that blocks the page longer than the page itself.
    def _says(self, pattern):
        return self._window.value(SAYS, pattern)

    def _to(self, run):
        self._window.go("#/runs")
        until_blocking(lambda: self._window.value(CHOOSE, f"agent_run:{run}/token"), timeout_s=60)

    def scroll(self, name, share, text):
        def there():
            self._window.value(f"{SCROLL}{share}")
            return self._says(text)

        self.step(f"{name}: scrolled to {share}", lambda: None, there)

    def keys(self, name):
        def pressed():
            for _ in range(STEPS):
                self._window.press("n")

        marked = "return document.querySelectorAll('.hunk.marked').length"
        self.step(f"{name}: {STEPS} keys", pressed, lambda: self._window.value(marked))


def prepared(served):
    """Three runs: many files, a long file, and a file changed in many places."""
    lines = [f"line {number} of many" for number in range(2 * PLACES)]
    served.person_writes("places.txt", "\n".join(lines) + "\n")
    agents = {name: Agent(served, name) for name in ("files", "long", "places")}
    for number in range(FILES):
        agents["files"].write(f"d{number // 100}/f{number:05}.txt", f"a\nb {number}\nc\n")
    text = "".join(f"line {number} {'x' * 50}\n" for number in range(LINES))
    agents["long"].write("long.txt", text)
    lines[::2] = [f"other {number}" for number in range(PLACES)]
    agents["places"].write("places.txt", "\n".join(lines) + "\n")
    for each in agents.values():
        each.close()


def measure(served):
    window = Browser()
    try:
        window.driver.set_script_timeout(300)
        window.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCHED})
        window.driver.get(served.new_link())
        window.find("header.top")
        reader = Reader(window)
        reader.open(f"{FILES:,} files", "files", "b 1")
        reader.keys(f"{FILES:,} files")
        reader.scroll(f"{FILES:,} files", 0.5, r"b [45]\d{3}")
        reader.scroll(f"{FILES:,} files", 1, f"b {FILES - 1}")
        reader.open(f"{LINES:,} lines", "long", r"line 0 ")
        reader.scroll(f"{LINES:,} lines", 0.5, r"line (39|40)\d{3} ")
        reader.scroll(f"{LINES:,} lines", 1, f"line {LINES - 1}")
        reader.open(f"{PLACES:,} places", "places", "other 0")
        reader.keys(f"{PLACES:,} places")
        reader.scroll(f"{PLACES:,} places", 1, f"other {PLACES - 1}")
        return reader.figures
    finally:
        window.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        (directory / "project").mkdir()
        served = Served(directory, PROJECT.format(place=directory / "project"))
        try:
            prepared(served)
            steps = measure(served)
        finally:
            served.close()
    longest = max(each["blocked_ms"] for each in steps.values())
    if asked.json is not None:
        found = {"longest_block_ms": longest, "steps": steps}
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
