"""A person at the console, in a real browser, beside a running agent."""

import threading

import pytest
from selenium.webdriver.common.keys import Keys

from tests.fronts.console.browsing import RULES, Browser, Served, plain_page
from tests.waiting import give_a_chance_blocking, let_pass_blocking, until_blocking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.leaks_ok("the server and the browser of the module live on to its end"),
]

READ_S = 0.8
"""Longer than a question must have been on show before a key answers it."""

HOSTILE_NAME = "<img src=x onerror=document.title='owned'>.html"
VIEWS = [
    ("#/files", "Name"),
    ("#/file/doc.md", "one"),
    ("#/history/doc.md", "Restore this version"),
    ("#/search?q=needle", "match"),
    ("#/runs", "Take it all back"),
    ("#/changes", "60 min ago"),
    ("#/approvals", "Nobody is waiting"),
    ("#/audit", "Audit ledger"),
    ("#/grants", "Grants"),
    ("#/versions", "Snapshots"),
    ("#/storage", "Largest"),
]

COLOURS = """
const style = getComputedStyle(document.body);
const numbers = (text) => text.match(/[0-9]+/g).slice(0, 3);
return [numbers(style.color).map(Number), numbers(style.backgroundColor).map(Number)];
"""

REVOCABLE = """
const buttons = [...document.querySelectorAll("button.danger")];
return buttons.filter((each) => each.textContent === "Revoke").length;
"""

HOSTILE_TEXT = "<script>document.title = 'owned'</script>\n"


@pytest.mark.spec("WEB-1")
def test_a_tree_is_browsed_and_a_change_of_an_agent_appears_by_itself(served, browser):
    served.write("notes/today.md", "hello\n")
    browser.go("#/files")
    browser.click(".entry a", "notes")
    browser.find(".entry a", "today.md")
    served.write("notes/tomorrow.md", "later\n")
    browser.find(".entry a", "tomorrow.md")
    browser.click(".entry a", "today.md")
    browser.find(".line", "hello")


@pytest.mark.spec("WEB-1")
def test_files_are_made_renamed_and_removed(served, browser):
    browser.go("#/files")
    browser.click("button", "Folder")
    browser.type(".dialog input", "drafts")
    browser.click(".dialog button", "Create")
    browser.click(".entry a", "drafts")
    browser.find(".crumbs b", "drafts")
    browser.click("button", "File")
    browser.type(".dialog input", "plan.txt")
    browser.click(".dialog button", "Create")
    browser.find(".editor textarea").send_keys("first things first")
    browser.find(".editor textarea").send_keys(Keys.CONTROL, "s")
    browser.find(".toast", "Saved")
    assert served.agent("GET", "/file?path=drafts/plan.txt")[1]["content"] == "first things first"
    browser.go("#/files/drafts")
    browser.click(".entry .more")
    browser.click(".popup button", "Rename")
    browser.type(".dialog input", "drafts/scheme.txt")
    browser.click(".dialog button", "Move")
    browser.find(".entry a", "scheme.txt")
    browser.click(".entry .more")
    browser.click(".popup button", "Remove")
    browser.click(".dialog button", "Remove")
    browser.says("Nothing is in here yet")
    assert served.agent("GET", "/file?path=drafts/scheme.txt")[0] == 404


@pytest.mark.spec("WEB-1")
def test_a_file_that_changed_underneath_is_shown_beside_what_was_typed(served, browser):
    served.write("src/app.py", "x = 1\n")
    browser.go("#/file/src/app.py?edit=yes")
    area = browser.find(".editor textarea")
    area.send_keys("# mine\n")
    served.write("src/app.py", "x = 'theirs'\n")
    browser.find(".notice", "agent_run:build/7")
    browser.find(".editor textarea").send_keys(Keys.CONTROL, "s")
    browser.find(".dialog", "changed meanwhile")
    browser.find(".dialog .diff", "theirs")
    browser.find(".dialog .diff", "# mine")
    assert served.agent("GET", "/file?path=src/app.py")[1]["content"] == "x = 'theirs'\n"
    browser.click(".dialog button", "Write mine over it")
    browser.find(".toast", "Saved")
    assert served.agent("GET", "/file?path=src/app.py")[1]["content"] == "# mine\nx = 1\n"


@pytest.mark.spec("WEB-1")
def test_text_is_searched_and_leads_to_its_line(served, browser):
    served.write("src/deep.py", "\n" * 300 + "needle = True\n")
    browser.go("#/search?q=needle")
    browser.find(".hit mark", "needle")
    browser.click("a.hit", "needle")
    browser.find(".line.hit", "needle = True")


@pytest.mark.spec("WEB-1", "VOL-5")
def test_an_earlier_version_is_seen_side_by_side_and_restored(served, browser):
    served.write("doc.md", "one\n")
    served.write("doc.md", "two\n")
    browser.go("#/history/doc.md")
    browser.find(".choice b", "updated")
    browser.find(".diff .del", "one")
    browser.find(".diff .add", "two")
    browser.press("j")
    browser.find(".choice[aria-current=true] b", "created")
    browser.click("button", "Restore this version")
    browser.click(".dialog button", "Restore")
    browser.find(".toast", "Restored")
    assert served.agent("GET", "/file?path=doc.md")[1]["content"] == "one\n"


@pytest.mark.spec("WEB-1")
def test_a_request_is_taken_back_from_the_change_feed(served, browser):
    browser.go("#/changes")
    browser.find(".feed")
    served.write("undo/me.txt", "oh no\n")
    browser.find(".feed a", "undo/me.txt")
    browser.click(".feed button", "Undo")
    browser.find(".dialog", "undo/me.txt")
    browser.click(".dialog button", "Undo")
    browser.find(".toast", "Took back")
    assert served.agent("GET", "/file?path=undo/me.txt")[0] == 404


@pytest.mark.spec("WEB-1")
def test_what_was_changed_while_nobody_looked_is_on_the_page(served):
    served.write("alone/a.txt", "one\n")
    served.write("alone/a.txt", "two\n")
    window = Browser()
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/changes")
        window.type("input[aria-label=Filter]", "alone/")
        window.find(".feed a", "alone/a.txt")
        served.write("alone/live.txt", "now\n")
        window.find(".feed a", "alone/live.txt")
        told = [
            each.text.split("\n")[1:4]
            for each in window.driver.find_elements("css selector", ".feed .space > div")
        ]
        assert told[0] == ["created", "alone/live.txt", "agent_run:build/7"]
        assert told[1:3] == [
            ["updated", "alone/a.txt", "agent_run:build/7"],
            ["created", "alone/a.txt", "agent_run:build/7"],
        ]
        window.click("button", "30 days")
        window.find("main", "30 days ago")
        assert window.errors() == []
    finally:
        window.close()


PROSE = """# A *title*

`code`, **bold**, snake_case_name and <script>document.title = 'owned'</script>.
[one](notes/today.md) [two](https://elsewhere.example/) [three](javascript:alert(1))
![out](https://elsewhere.example/track.png)

- [x] done

| a | b |
|---|---|
| 1 | 2 |
"""


@pytest.mark.spec("WEB-1", "WEB-2")
def test_prose_is_rendered_beside_its_source_and_nothing_in_it_runs(served, browser):
    served.write("prose.md", PROSE)
    browser.go("#/file/prose.md")
    browser.click("button", "Rendered")
    browser.find(".prose h1 em", "title")
    browser.find(".line", "# A *title*")
    assert "<script>" in browser.find(".prose p").text
    assert browser.value(
        "return [...document.querySelectorAll('.prose a')].map(a => a.getAttribute('href'))"
    ) == ["#/file/notes/today.md", "https://elsewhere.example/"]
    count = "return document.querySelectorAll('.prose script, .prose img').length"
    assert browser.value(count) == 0
    assert browser.find(".prose table td", "2")
    assert "owned" not in browser.driver.title
    assert {host.partition(":")[0] for host in browser.hosts_asked()} <= {"127.0.0.1"}


def asking(served, path, content):
    """An agent that writes where a person is asked first, in a thread of its own."""
    answers = []

    def run():
        answers.append(
            served.agent("POST", "/file/write", {"path": path, "content": content, "parents": True})
        )

    thread = threading.Thread(target=run)
    thread.start()
    return thread, answers


PRESS_AT_ONCE = """
window.pressed = 0;
new MutationObserver((_, observer) => {
  if (!document.querySelector(".question h2")) return;
  observer.disconnect();
  window.pressed += 1;
  document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "y", bubbles: true}));
}).observe(document.body, {childList: true, subtree: true});
"""


@pytest.mark.spec("WEB-1", "ASK-1")
def test_a_write_is_approved_while_the_agent_waits(served, browser):
    browser.go("#/files")
    browser.value(PRESS_AT_ONCE)  # too soon: nobody can have read it
    thread, answers = asking(served, "migrations/1.sql", "drop table users;\n")
    browser.find(".side .badge", "1")
    browser.click(".side a", "Approvals")
    browser.find(".question h2", "migrations/1.sql")
    browser.find(".question", "migrations are reviewed")
    browser.find(".diff .add", "drop table users;")
    let_pass_blocking(READ_S)
    browser.find(".question h2", "migrations/1.sql")
    assert browser.value("return window.pressed") == 1
    browser.press("y")
    thread.join(120)
    assert answers[0][0] == 201, answers
    browser.says("Nobody is waiting for you")


@pytest.mark.spec("WEB-1", "ASK-1")
def test_a_key_held_down_answers_one_question_at_most(served, browser):
    browser.go("#/approvals")
    asked = [asking(served, f"migrations/held-{at}.sql", "x\n") for at in range(3)]
    browser.find(".choice", "held-2")
    let_pass_blocking(READ_S)
    for repeat in (False, True, True, True):
        browser.value(
            "document.body.dispatchEvent(new KeyboardEvent('keydown',"
            " {key: 'y', bubbles: true, repeat: arguments[0]}))",
            repeat,
        )
    until_blocking(lambda: any(answers for _, answers in asked))
    give_a_chance_blocking(0.3)
    assert sum(bool(answers) for _, answers in asked) == 1
    for _ in range(2):
        let_pass_blocking(READ_S)
        browser.click(".verdict button", "No")
    for thread, _ in asked:
        thread.join(120)
    assert sorted(answers[0][0] for _, answers in asked) == [201, 403, 403]


@pytest.mark.spec("WEB-1", "ASK-1")
def test_always_is_asked_once_more(served, browser):
    browser.go("#/approvals")
    thread, answers = asking(served, "migrations/always.sql", "x\n")
    browser.find(".question h2", "always.sql")
    let_pass_blocking(READ_S)
    browser.press("a")
    browser.find(".dialog", "Writes a rule for agent_run:*")
    browser.click(".dialog button", "Cancel")
    browser.click(".verdict button", "No")
    thread.join(120)
    assert answers[0][0] == 403


@pytest.mark.spec("NOTE-2")
def test_an_answer_for_longer_is_shown_and_taken_back(served, browser):
    browser.go("#/approvals")
    thread, answers = asking(served, "migrations/lasting.sql", "x\n")
    browser.find(".question h2", "lasting.sql")
    let_pass_blocking(READ_S)
    browser.click(".verdict button", "Always")
    browser.click(".dialog button", "Always")
    thread.join(120)
    assert answers[0][0] == 201
    browser.click("button", "Lasting answers")
    browser.find(".dialog [data-rule]", "migrations/lasting.sql")
    browser.click(".dialog [data-rule] button", "Take back")
    browser.find(".dialog", "Nothing was answered for longer")
    browser.click(".dialog button", "Close")


@pytest.mark.spec("WEB-1")
def test_marks_that_turn_writing_round_are_shown(served, browser):
    served.write("trojan.py", "if admin:\u202e\u2066 # check\n")
    browser.go("#/file/trojan.py")
    browser.find(".line", "⟨202e⟩⟨2066⟩")


@pytest.mark.spec("WEB-1", "EDIT-1")
def test_what_a_text_field_would_rewrite_is_not_edited(served, browser):
    served.write("mixed.txt", "a\r\nb\nc\r\n")
    browser.go("#/file/mixed.txt")
    browser.find(".line", "b")
    browser.gone("button", "Edit")


@pytest.mark.spec("WEB-1", "ASK-1")
def test_a_write_is_refused(served, browser):
    browser.go("#/approvals")
    thread, answers = asking(served, "migrations/2.sql", "drop everything;\n")
    browser.find(".question h2", "migrations/2.sql")
    browser.click(".verdict button", "No")
    thread.join(120)
    assert answers[0][0] == 403
    assert answers[0][1]["errorKind"] == "approval_denied"
    assert served.agent("GET", "/file?path=migrations/2.sql")[0] == 404


@pytest.mark.spec("WEB-1")
def test_every_refusal_shows_who_decided_and_the_ledger_is_verified(served, browser):
    status, told = served.agent(
        "POST", "/file/write", {"path": "sealed/x", "content": "", "parents": True}
    )
    assert (status, told["errorKind"]) == (403, "policy_denied")
    browser.go("#/audit?outcome=denied")
    browser.find("tbody tr", "policy_denied")
    browser.find("tbody td", "sealed/x")
    browser.find("tbody td", told["decidedBy"])
    browser.click("button", "Verify")
    browser.find(".notice.good", "verified")


@pytest.mark.spec("WEB-2", "HTTP-8")
def test_a_file_never_becomes_part_of_the_page(served, browser):
    served.write(HOSTILE_NAME, HOSTILE_TEXT)
    before = browser.value("return document.title")
    browser.go("#/files")
    browser.find(".entry a", HOSTILE_NAME)
    browser.click(".entry a", HOSTILE_NAME)
    browser.find(".line", HOSTILE_TEXT.strip())
    browser.go("#/search?q=owned")
    browser.find(".hits", "owned")
    assert browser.value("return document.querySelectorAll('main img, main script').length") == 0
    assert "owned" not in browser.value("return document.title")
    assert before


@pytest.mark.spec("WEB-2", "HTTP-8")
def test_a_page_that_lies_in_a_workspace_does_not_run_on_the_console_s_origin(served, browser):
    served.write("page.html", HOSTILE_TEXT)
    drawing = '<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=1"></svg>'
    served.write("drawing.svg", drawing)
    with plain_page(HOSTILE_TEXT) as address:
        assert browser.title_at(address) == "owned"  # the control: as a page, it runs
    for path in ("page.html", "drawing.svg"):
        assert browser.title_at(f"{served.url}/file/raw?path={path}") not in ("owned", "1")


@pytest.mark.spec("WEB-2", "WEB-3")
@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_fits_its_window_in_light_and_dark(served, dark, phone, tmp_path):
    served.write("doc.md", "zero\n")
    served.write("doc.md", "one\n")
    served.write("src/deep.py", "\n" * 300 + "needle = True\n")
    window = Browser(dark=dark, phone=phone)
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        ink, paper = window.value(COLOURS)
        assert (sum(ink) > sum(paper)) is dark
        for view, sign in VIEWS:
            window.go(view)
            window.find("main", sign)
            wide = window.value("return document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, view
            picture = tmp_path / f"{view.strip('#/').replace('/', '-')}.png"
            assert window.driver.save_screenshot(str(picture))
        assert window.errors() == []
    finally:
        window.close()


@pytest.mark.spec("WEB-1", "PAST-2")
def test_an_agent_is_let_in_with_a_token_and_shown_out(served, browser):
    browser.go("#/grants")
    browser.click("button", "Let an agent in")
    browser.type(".dialog input", "visitor")
    browser.click(".dialog button", "Make a token")
    browser.find(".dialog", "shown this once")
    secret = browser.value("return document.querySelector('.dialog input').value")
    status, seen = served.agent("GET", "/capabilities", token=secret)
    assert (status, seen["subject"]) == (200, "agent_run:visitor/token")
    assert {"read", "write"} <= set(seen["access"])
    browser.click(".dialog button", "Done")
    browser.click("tr[data-token=visitor] button.danger", "End")
    browser.click(".dialog button", "End")
    browser.find(".toast", "Ended")
    assert served.agent("GET", "/capabilities", token=secret)[0] == 401


@pytest.mark.spec("WEB-1")
def test_a_revoked_grant_ends_what_the_agent_may(tmp_path):
    """In a house of its own: afterwards no agent may anything there, and nobody is asked."""
    house = Served(tmp_path, RULES.replace("roots = true", "roots = false"))
    try:
        house.write("before.txt", "still allowed\n")
        window = Browser()
        try:
            window.driver.get(house.link)
            window.find("nav.side")
            window.go("#/grants")
            window.find("button.danger", "Revoke")
            while left := window.value(REVOCABLE):
                window.click("button.danger", "Revoke")
                window.click(".dialog button", "Revoke")
                window.wait.until(lambda _, left=left: window.value(REVOCABLE) < left)
        finally:
            window.close()
        body = {"path": "after.txt", "content": "no more\n"}
        until_blocking(lambda: house.agent("POST", "/file/write", body)[0] == 403)
    finally:
        house.close()


@pytest.mark.spec("WEB-2")
def test_no_request_leaves_the_machine_and_nothing_breaks_the_policy(served, browser):
    assert {host.partition(":")[0] for host in browser.hosts_asked()} == {"127.0.0.1"}
    assert browser.errors() == []


@pytest.mark.spec("HTTP-8")
def test_a_link_logs_in_once(served, browser):
    stranger = Browser()
    try:
        stranger.driver.get(served.link)
        assert "used already" in stranger.text()
        stranger.driver.get(served.url)
        stranger.says("Log in by link")
    finally:
        stranger.close()


COVERED = """
const shown = [...document.querySelectorAll("button, a, input, select")];
const note = document.querySelector(".toast").getBoundingClientRect();
const covered = ({ top, bottom, left, right }) =>
  bottom > note.top && top < note.bottom && right > note.left && left < note.right;
return shown.filter((each) => each.offsetParent && covered(each.getBoundingClientRect()))
  .map((each) => each.outerHTML.slice(0, 80));
"""


SAY = """
import("/console/dialogs.js").then(({ toast }) => {
  toast("A message", { detail: "with" + " many words".repeat(20) });
});
"""


@pytest.mark.spec("NOTE-1")
@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
def test_a_message_covers_no_button(served, phone):
    window = Browser(phone=phone)
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        for view in ("#/files", "#/approvals", "#/changes", "#/grants"):
            window.go(view)
            window.find("main h1, main .crumbs")
            window.value(SAY)
            window.find(".toast", "A message")
            assert window.value(COVERED) == []
    finally:
        window.close()


HIDDEN = """
window.told = [];
window.Notification = class extends EventTarget {
  static permission = "granted";
  constructor(title, options) { super(); window.told.push([title, options.body]); }
};
Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
"""


@pytest.mark.spec("NOTE-1")
def test_a_question_is_told_by_the_browser_while_the_page_is_hidden(served):
    """A browser without a window shows no notifications: one that notes them stands in for it."""
    window = Browser()
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.value(HIDDEN)
        thread, answers = asking(served, "migrations/hidden.sql", "select 1;\n")
        told = ["agent_run:build/7 asks you", "write migrations/hidden.sql"]
        until_blocking(lambda: told in window.value("return window.told"))
        window.go("#/approvals")
        window.click(".choice", "migrations/hidden.sql")
        window.find(".question h2", "migrations/hidden.sql")
        window.click(".verdict button", "No")
        thread.join(60)
        assert answers[0][0] == 403
        assert window.value("return window.told").count(told) == 1
    finally:
        window.close()


@pytest.mark.spec("NOTE-3", "WEB-2")
def test_a_root_that_nobody_granted_is_asked_for_in_words_and_granted_with_an_end(served, browser):
    subject = "automation:nightly"
    token = served._said("grant", "token", "nightly", "--subject", subject)["token"]
    served.write("asked.txt", "asked\n")
    heard = []

    def ask():
        heard.append(served.agent("GET", "/file?path=asked.txt", token=token))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        browser.go("#/approvals")
        browser.find(".question h2", "have workspace:demo: list, metadata, read, for 1 h")
        browser.find(".question", subject)
        assert "Always" not in browser.find(".verdict").text
        let_pass_blocking(READ_S)
        browser.press("a")
        browser.click(".verdict .button", "Grant it for this time")
        browser.find(".toast", "Allowed")
    finally:
        asking.join(120)
    ((status, told),) = heard
    assert (status, told["content"]) == (200, "asked\n")
    browser.go("#/grants")
    browser.find("tr", subject)
