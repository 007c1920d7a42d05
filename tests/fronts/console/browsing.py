"""A real server and a real Chromium for one test session."""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
MISSING = (
    "the console is tested in Chromium, which is not installed: apt install chromium"
    " chromium-driver"
)

LISTEN = """window.isHit = false;
    const hit = () => { window.isHit = true; };
    arguments[0].addEventListener("click", hit, { capture: true, once: true });"""
HEARD = "return window.isHit !== false"
"""Also where the click led to another page, which knows nothing of it."""

RULES = """
[ask]
timeout = "60 s"
surface = "console"
roots = true

[[root]]
id = "demo"
kind = "workspace"
volume = "sqlite:demo.db?volume=demo"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write", "watch"]

[[rule]]
subject = "agent_run:*"
root = "workspace:*"
operation = ["write", "edit"]
path = ["migrations/**"]
effect = "ask"
reason = "migrations are reviewed"

[[rule]]
subject = "agent_run:*"
root = "workspace:*"
operation = ["write"]
path = ["sealed/**"]
effect = "deny"
reason = "sealed"

[[token]]
name = "person"
subject = "user:local"

[[token]]
name = "agent"
subject = "agent_run:build/7"
"""

PROJECT = """
[[root]]
id = "project"
kind = "workspace"
path = "{place}"
history = "on"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:project"
access = ["read", "list", "metadata", "write", "watch"]

[[token]]
name = "person"
subject = "user:local"

[[token]]
name = "agent"
subject = "agent_run:build/7"
"""
"""One directory with its past, on which one agent works."""


class Served:
    """`bailiwick serve` as a process of its own, and calls to it."""

    def __init__(self, directory: Path, rules: str = RULES):
        self.directory = directory
        (directory / "bailiwick.toml").write_text(rules)
        environment = {
            **os.environ,
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_DATA_HOME": str(directory / "data"),
        }
        command = [sys.executable, "-m", "bailiwick"]
        self.environment = environment
        self.process = subprocess.Popen(
            [*command, "serve", "--config", "bailiwick.toml", "--port", "0"],
            cwd=directory, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self):
        said = ""
        while "/login?link=" not in said:
            line = self.process.stdout.readline()
            assert line, said
            said += line
        self.url = re.search(r"http://127\.0\.0\.1:\d+", said).group()
        self.link = re.search(r"http://127\.0\.0\.1:\d+/login\S+", said).group()
        self.agent_token = self._said("grant", "token", "agent")["token"]

    def agent(self, method, route, body=None, timeout=120, token=None, headers=None):
        """What the agent gets, or whoever shows ``token``: status and document."""
        request = urllib.request.Request(
            self.url + route, method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "authorization": f"Bearer {token or self.agent_token}",
                "content-type": "application/json",
                **(headers or {}),
            },
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def _said(self, *words):
        done = subprocess.run(
            [sys.executable, "-m", "bailiwick", *words, "--config", "bailiwick.toml", "--json"],
            cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def new_agent(self, name):
        """The token of another agent, who may what all may."""
        return self._said("grant", "token", name, "--subject", f"agent_run:{name}/token")["token"]

    def person_writes(self, path, content):
        """What a person at the terminal writes."""
        token = self.person_token(f"person-{len(path)}")
        status, document = self.agent(
            "POST", "/file/write", {"path": path, "content": content}, token=token
        )
        assert status in (200, 201), document

    def person_token(self, name):
        return self._said("grant", "token", name, "--subject", "user:local")["token"]

    def write(self, path, content):
        status, document = self.agent(
            "POST", "/file/write", {"path": path, "content": content, "parents": True}
        )
        assert status in (200, 201), document
        return document

    def new_link(self):
        """Another link that logs in once."""
        return f"{self.url}/login?link={self._said('grant', 'token', '--link')['link']}"

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(120)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


class Browser:
    """Chromium, driven as a person would: by what can be seen."""

    def __init__(self, *, dark=False, phone=False):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in (
            "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
            "--disable-background-networking", "--no-first-run",
            "--window-size=1280,800",
        ):  # fmt: skip
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # What a browser leaves that did not end by itself in time goes with the place it lies in.
        self._place = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        environment = {**os.environ, "TMPDIR": self._place.name}
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER, env=environment))
        self.wait = WebDriverWait(self.driver, 10, poll_frequency=0.02)
        if phone:
            self.driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True},
            )
        if dark:
            self.driver.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
            )

    def go(self, place):
        self.driver.execute_script("location.hash = arguments[0]", place)

    def find(self, selector, text=None):
        """The first element that can be seen, waited for; with ``text`` the one that says it."""

        def seen(driver):
            for each in driver.find_elements(By.CSS_SELECTOR, selector):
                try:
                    if each.is_displayed() and (text is None or text in each.text):
                        return each
                except Exception:
                    return None
            return None

        try:
            return self.wait.until(seen)
        except TimeoutException as late:  # all that a page says takes long to be read
            raise AssertionError(f"{selector} {text or ''} is not in:\n{self.text()}") from late

    def gone(self, selector, text=None):
        def absent(driver):
            try:
                return not any(
                    each.is_displayed() and (text is None or text in each.text)
                    for each in driver.find_elements(By.CSS_SELECTOR, selector)
                )
            except Exception:
                return False

        self.wait.until(absent, f"{selector} {text or ''} is still there")

    def click(self, selector, text=None):
        """Where the page moved just then, and something else was hit, it is done again."""

        def clicked(_):
            try:
                element = self.find(selector, text)
                self.value(LISTEN, element)
                element.click()
                return self.value(HEARD)
            except Exception:
                return False

        self.wait.until(clicked)

    def says(self, text):
        try:
            self.wait.until(lambda _: text in self.text())
        except TimeoutException as late:
            raise AssertionError(f"{text!r} is not in:\n{self.text()}") from late

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "body").text

    def type(self, selector, text):
        field = self.find(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def press(self, *keys):
        self.driver.find_element(By.TAG_NAME, "body").send_keys(*keys)

    def value(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def errors(self):
        """What the page complained about: scripts that failed and policies that were broken."""
        return [
            each["message"]
            for each in self.driver.get_log("browser")
            if each["source"] in ("javascript", "security", "other")
        ]

    def hosts_asked(self):
        """Every host that the page sent a request to."""
        asked = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if url.startswith("http"):
                    asked.add(url.split("/")[2])
        return asked

    def title_at(self, address):
        """What a page calls itself once it is loaded, in a window of its own."""
        here = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        try:
            self.driver.get(address)
            return self.driver.title
        finally:
            self.driver.close()
            self.driver.switch_to.window(here)

    def close(self):
        self.driver.quit()
        self._place.cleanup()


@contextlib.contextmanager
def plain_page(text):
    """The address of a page that any server would serve so."""

    class Page(http.server.BaseHTTPRequestHandler):
        timeout = 1.0
        """A browser opens connections ahead, and says nothing on them for a minute."""

        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = False  # all of them are waited for

    with Server(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
