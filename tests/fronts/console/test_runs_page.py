"""The page of runs in a real browser: what an agent did, told, judged and taken back."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.fronts.console.browsing import PROJECT, Browser, Served
from tests.waiting import until_blocking


@pytest.mark.spec("RUN-1", "RUN-2", "RUN-3", "WEB-1")
def test_what_an_agent_did_while_nobody_looked_is_seen_and_taken_back_by_its_lines(served):
    token = served.new_agent("reviewed")
    lines = [f"line {number}" for number in range(30)]
    served.person_writes("review.txt", "\n".join(lines) + "\n")
    lines[2], lines[25] = "the second", "the last"
    status, _ = served.agent(
        "POST", "/file/write", {"path": "review.txt", "content": "\n".join(lines) + "\n"},
        token=token,
    )  # fmt: skip
    assert status == 200
    window = Browser()
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/runs")
        window.click(".choice", "agent_run:reviewed/token")
        window.find(".hunks header", "review.txt")
        until_blocking(
            lambda: window.value("return document.querySelectorAll('.hunk').length") == 2
        )
        window.press("n")
        window.press("n")
        window.find(".hunk.marked", "the last")
        window.press("u")
        window.find(".dialog", "review.txt")
        window.click(".dialog button", "Take back 1 path")
        window.find(".toast", "Took back")
        window.find(".hunk[data-state=undone]", "the last")
        lines[25] = "line 25"
        told = served.agent("GET", "/file?path=review.txt", token=token)[1]["content"]
        assert told == "\n".join(lines) + "\n"
        assert window.errors() == []
    finally:
        window.close()


@pytest.mark.spec("RUN-1", "WEB-1")
def test_a_run_is_told_in_the_order_it_happened(served):
    token = served.new_agent("teller")
    for path, step in (("told.txt", "write it"), ("sealed/told.txt", "seal it")):
        served.agent(
            "POST", "/file/write", {"path": path, "content": "x\n", "parents": True}, token=token,
            headers={"X-Bailiwick-Run": "Tell a story", "X-Bailiwick-Step": step},
        )  # fmt: skip
    window = Browser()
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/runs")
        window.click(".choice", "Tell a story")
        window.click(".question button", "Timeline")
        window.find(".timeline li.bad", "policy_denied")
        lines = window.value(
            "return [...document.querySelectorAll('.timeline li')].map((e) => e.innerText)"
        )
        assert [line.split(maxsplit=1)[1].split("\n")[-1] for line in lines] == [
            "write it", "write_text told.txt", "seal it",
            "write_text sealed/told.txt policy_denied by rule.2",
        ]  # fmt: skip
        assert window.errors() == []
    finally:
        window.close()


@pytest.mark.spec("REVIEW-1", "REVIEW-3", "REVIEW-5", "WEB-1")
@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
def test_a_person_agrees_with_one_piece_and_rejects_another_with_a_note(served, phone):
    name = f"judged{int(phone)}"
    token = served.new_agent(name)
    lines = [f"line {number}" for number in range(30)]
    served.person_writes(f"{name}.txt", "\n".join(lines) + "\n")
    lines[2], lines[25] = "the second", "the last"
    body = {"path": f"{name}.txt", "content": "\n".join(lines) + "\n"}
    assert served.agent("POST", "/file/write", body, token=token)[0] == 200
    window = Browser(phone=phone, dark=phone)
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/runs")
        window.click(".choice", f"agent_run:{name}/token")
        window.find(".choice[aria-current=true]", "0 of 2 reviewed")
        until_blocking(
            lambda: window.value("return document.querySelectorAll('.hunk').length") == 2
        )
        window.press("n")
        window.find(".hunk.marked", "the second")
        window.press("y")
        window.find(".choice[aria-current=true]", "1 of 2 reviewed")
        window.find(".hunk .chip.good", "accepted")
        until_blocking(
            lambda: window.value("return document.querySelectorAll('.hunk').length") == 2
        )
        window.press("n")
        window.press("n")
        window.find(".hunk.marked", "the last")
        window.press("r")
        window.type(".dialog textarea", "keep the numbers")
        window.click(".dialog button", "Reject")
        window.find(".toast", "the agent is told")
        window.find(".hunk .chip.bad", "rejected")
        lines[25] = "line 25"
        status, told = served.agent("GET", f"/file?path={name}.txt", token=token)
        assert (status, told["content"]) == (200, "\n".join(lines) + "\n")
        ((path, note),) = [(each["path"], each["note"]) for each in told["review"]]
        assert (path, note) == (f"{name}.txt", "keep the numbers")
        assert window.errors() == []
    finally:
        window.close()


def asked(window, route):
    """How often the page has asked for something, which the browser itself remembers."""
    return window.value(
        "return performance.getEntriesByType('resource').map((e) => new URL(e.name))"
        ".filter((u) => (u.pathname + u.search).includes(arguments[0])).length",
        route,
    )


MANY = 2_100


AT_END = """
const list = document.querySelector(".hunks");
return list.scrollTop + list.clientHeight > list.scrollHeight - 2"""


@pytest.mark.spec("REVIEW-6", "WEB-1")
def test_of_many_files_only_those_that_can_be_seen_are_in_the_page_and_asked_for(served):
    token = served.new_agent("many")
    operations = [
        {"op": "write", "path": f"many/{number:05}.txt", "content": f"line {number}\n"}
        for number in range(MANY)
    ]
    operations[0]["parents"] = True
    for first in range(0, MANY, 100):
        body = {"operations": operations[first : first + 100]}
        assert served.agent("POST", "/batch", body, token=token)[0] == 200
    window = Browser()
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.value("performance.setResourceTimingBufferSize(5000)")
        window.go("#/runs")
        window.click(".choice", "agent_run:many/token")
        window.find(".hunk .add", "line 0")
        assert window.value("return document.querySelectorAll('*').length") < 3_000
        assert asked(window, "path=many") < 30
        window.press(Keys.END)
        until_blocking(
            lambda: window.value("return document.body.innerText").count(f"{MANY - 1:05}.txt"),
            timeout_s=60,
        )
        window.find(".hunk .add", f"line {MANY - 1}")
        until_blocking(lambda: window.value(AT_END))
        assert asked(window, "changes?brief=true") <= 2 * 3, "all are listed as soon as it is shown"
        assert asked(window, "path=many") < 100, "what was passed by was not waited for"
        assert window.value("return document.querySelectorAll('*').length") < 6_000
        window.press(Keys.HOME)
        window.find(".hunks header", "00000.txt")
        window.find(".hunk .add", "line 0")
        window.press("n")
        window.find(".hunk.marked", "created directory")
        for _ in range(40):
            window.press("n")
        window.find(".hunk.marked", "line ")
        assert window.errors() == []
    finally:
        window.close()


@pytest.mark.spec("REVIEW-5", "WEB-1")
def test_a_file_of_a_run_is_accepted_at_once_and_all_that_is_left_of_it(served):
    token = served.new_agent("agreed")
    for path in ("agreed/a.txt", "agreed/b.txt", "agreed/c.txt"):
        body = {"path": path, "content": "x\n", "parents": True}
        assert served.agent("POST", "/file/write", body, token=token)[0] == 201
    window = Browser()
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/runs")
        window.click(".choice", "agent_run:agreed/token")
        for name in "acb":  # what comes above it would move it away from under the pointer
            window.find(f"[data-accepts='agreed/{name}.txt']:enabled")
        window.click("[data-accepts='agreed/b.txt']")
        window.find("[data-path='agreed/b.txt'] .chip.good", "accepted")
        window.find(".choice", "1 of 4 reviewed")
        window.click(".question button", "Accept all")
        window.gone(".question button", "Accept all")
        window.find("[data-path='agreed/c.txt'] .chip.good", "accepted")
        assert window.errors() == []
    finally:
        window.close()


@pytest.fixture
def moved(tmp_path):
    """A directory in which an agent removed something to make room, and set a mode."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("old", "new", "run"):
        (project / name).write_text(f"{name}\n")
        (project / name).chmod(0o640)
    rules = PROJECT.format(place="project").replace('"watch"]', '"watch", "delete", "move"]')
    house = Served(tmp_path, rules)
    try:
        for route, asked in (
            ("/remove", {"path": "old"}),
            ("/move", {"path": "new", "destination": "old"}),
            ("/mode", {"path": "run", "fileMode": "0750"}),
        ):
            status, told = house.agent("POST", route, asked)
            assert status == 200, told
        yield house
    finally:
        house.close()


@pytest.mark.spec("RUN-2", "RUN-3", "WEB-1")
@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
def test_what_is_no_text_is_told_in_words(moved, phone):
    project = moved.directory / "project"
    window = Browser(phone=phone, dark=phone)
    try:
        window.driver.get(moved.new_link())
        window.find("header.top")
        window.go("#/runs")
        window.find(".hunks header", "new → old")
        window.find(".reason", "Something else stood there, and is gone")
        window.find(".hunk", "mode 640 to 750")
        window.press("n")
        window.find(".hunk.marked", "over another")
        window.press("r")
        window.type(".dialog textarea", "leave it")
        window.click(".dialog button", "Reject")
        window.find(".toast", "the agent is told")
        assert [(project / name).read_text() for name in ("old", "new")] == ["old\n", "new\n"]
        window.click(".question button", "Take it all back")
        window.click(".dialog button", "Take back")
        window.find(".toast", "Took back")
        assert {each.name: each.read_text() for each in project.iterdir()} == {
            name: f"{name}\n" for name in ("old", "new", "run")
        }
        assert (project / "run").stat().st_mode & 0o777 == 0o640
        assert window.errors() == []
    finally:
        window.close()
