"""Whether the site holds together, looked at as its readers do: `make site`.

Every link and every anchor of every page leads to something that is there. In Chromium, in light
and in dark, on a screen and on a phone, pages complain about nothing, ask no other host for
anything, can be searched, and axe finds no fault of accessibility.
"""

import functools
import http.server
import os
import sys
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.fronts.console.browsing import CHROMIUM, DRIVER, MISSING, Browser
from tests.fronts.mcp.npm import installed_in
from tests.laws.repository import ROOT

SITE = ROOT / "build" / "site"
AXE = {"axe-core": "4.14.0"}
LOOKED_AT = (
    "index.html", "docs/start.html", "docs/policy.html", "docs/comparison.html",
    "docs/console.html",
)  # fmt: skip

RULES = """
const done = arguments[arguments.length - 1];
axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }).then((found) =>
  done(found.violations.map((each) => `${each.id}: ${each.help}: `
    + each.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(" | "))));
"""


class Page(HTMLParser):
    """The places that a page has, and those that it leads to."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.targets, self.untold = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.targets += [given[name] for name in ("href", "src") if given.get(name)]
        if tag == "img" and "alt" not in given:
            self.untold.append(given.get("src"))


def broken(site):
    """What leads nowhere, a line each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        shown = path.relative_to(site)
        yield from (f"{shown}: a picture without words: {each}" for each in page.untold)
        # It is served for whatever is missing, wherever that was looked for.
        for target in page.targets if path.name != "404.html" else ():
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                yield f"{shown}: {target} is not there"
            elif there in pages and unquote(parts.fragment) not in {"", *pages[there].anchors}:
                yield f"{shown}: {target} has no such place"


@contextmanager
def served(site):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def looked_at(host, axe, *, dark, phone):
    """What a browser has to say about some pages, a line each."""
    window = Browser(dark=dark, phone=phone)
    window.driver.set_script_timeout(300)
    how = f"{'dark' if dark else 'light'}{', phone' if phone else ''}"
    try:
        for name in LOOKED_AT:
            window.driver.get(f"http://{host}/{name}")
            window.driver.execute_script(axe)
            for fault in window.driver.execute_async_script(RULES):
                yield f"{name} ({how}): {fault}"
            wide = window.value("return document.documentElement.scrollWidth - innerWidth")
            if wide > 0:
                yield f"{name} ({how}): {wide} pixels wider than the screen"
            yield from (f"{name} ({how}): {each}" for each in window.errors())
        if not phone:
            window.driver.get(f"http://{host}/index.html")
            window.type("input.md-search__input", "overlay")
            window.find(".md-search-result__link", "Overlays")
        if elsewhere := window.hosts_asked() - {host}:
            yield f"({how}): asks {', '.join(sorted(elsewhere))}"
    finally:
        window.close()


def main():
    if CHROMIUM is None or DRIVER is None:
        print(MISSING)
        return 1
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    modules = installed_in(Path(cache) / "bailiwick" / "npm-axe", AXE)
    if isinstance(modules, str):
        print(f"accessibility is looked at by axe: {modules}")
        return 1
    axe = (modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    wrong = list(broken(SITE))
    with served(SITE) as host:
        for dark, phone in ((False, False), (True, False), (True, True)):
            wrong += looked_at(host, axe, dark=dark, phone=phone)
    print(
        "\n".join(wrong) or f"{len(list(SITE.rglob('*.html')))} pages, and nothing wrong with them"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
