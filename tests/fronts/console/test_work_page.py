"""What an agent did apart, in a real browser: judged where runs are, before it is in the tree."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.fronts.console.browsing import PROJECT, Browser, Served
from tests.waiting import until_blocking

APART = PROJECT.format(place="overlay:project")
QUEUES = """return performance.getEntriesByType("resource").map((each) => new URL(each.name))
    .filter((each) => each.pathname.endsWith("/review")).map((each) => each.search)"""
LINES = [f"line {number}" for number in range(30)]


def text(lines):
    return "\n".join(lines) + "\n"


@pytest.fixture
def served(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a.txt").write_text(text(LINES))
    (tmp_path / "project/b.txt").write_text(text(LINES))
    house = Served(tmp_path, APART)
    yield house
    house.close()


def edited(*changed):
    lines = list(LINES)
    for number in changed:
        lines[number] = f"changed {number}"
    return text(lines)


def pieces(window, **counts):
    """Wait for these files, and so many pieces of each; None where it may be out of sight, and then
    they are not in the page."""
    script = """return Object.fromEntries(Array.from(document.querySelectorAll("[data-path]"),
        (file) => [file.dataset.path, file.querySelectorAll(".hunk").length]))"""
    wanted = {f"{name}.txt": count for name, count in counts.items()}

    def are_there():
        found = window.value(script)
        return found.keys() == wanted.keys() and all(
            count in (None, found[path]) for path, count in wanted.items()
        )

    until_blocking(are_there)


@pytest.mark.spec("REVIEW-2", "REVIEW-3", "REVIEW-5", "WEB-1")
@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
def test_what_was_done_apart_is_applied_and_given_up_piece_by_piece(served, phone):
    project = served.directory / "project"
    for path, content in (("a.txt", edited(2, 25)), ("b.txt", edited(10)), ("c.txt", "new\n")):
        body = {"path": path, "content": content}
        assert served.agent("POST", "/file/write", body)[0] in (200, 201)
    (project / "b.txt").write_text(edited(10).replace("changed 10", "by a person"))
    assert (project / "a.txt").read_text() == text(LINES)
    window = Browser(phone=phone, dark=phone)
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/runs")
        window.click(".choice", "not applied")
        pieces(window, a=2, b=None, c=None)
        window.press("n")
        window.find(".hunk.marked", "changed 2")
        window.press("y")
        window.find(".toast", "3 pieces left")
        assert (project / "a.txt").read_text() == edited(2)
        pieces(window, a=1, b=None, c=None)
        window.press("n")
        window.find(".hunk.marked", "changed 25")
        window.press("r")
        window.type(".dialog textarea", "keep the numbers")
        window.click(".dialog button", "Reject")
        window.find(".toast", "the agent is told")
        assert (project / "a.txt").read_text() == edited(2)
        status, told = served.agent("GET", "/file?path=a.txt")
        assert (status, told["content"]) == (200, edited(2))
        assert [(each["path"], each["note"]) for each in told["review"]] == [
            ("a.txt", "keep the numbers")
        ]
        pieces(window, b=1, c=None)
        window.find(".chip.bad", "conflict")
        window.click(".question button", "Apply all")
        window.find(".toast", "b.txt: it was changed in the tree, too")
        assert not (project / "c.txt").exists()
        window.find(".sides .base", "line 10")
        window.find(".sides .tree", "by a person")
        window.find(".sides .apart", "changed 10")
        window.click("[data-pick=both]")
        window.find(".sides [data-picked=true]", "by a person")
        window.click(".verdict .button", "Edit")
        field = window.find(".settling textarea:focus")
        assert "by a person\nchanged 10\n" in field.get_property("value")
        field.send_keys(Keys.CONTROL, Keys.END)
        field.send_keys("and mine")
        # What somebody types is there still when others write meanwhile, and is not done unseen.
        (project / "b.txt").write_text(text(LINES).replace("line 10", "by another"))
        served.write("d.txt", "later\n")
        window.click(".edited .button", "Use this text")
        window.find(".toast.bad", "not what stands on both sides")
        window.find(".edited .notice", "It was changed since you began")
        assert "and mine" in window.find(".settling textarea:focus").get_property("value")
        window.click(".edited .button", "Cancel")
        window.find(".sides .tree", "by another")
        window.click("[data-pick=apart]")
        window.click(".verdict .button", "Use this")
        window.find(".toast", "Accepted; 2 pieces left")
        assert (project / "b.txt").read_text() == edited(10)
        window.click(".question button", "Give it all up")
        window.click(".dialog button", "Reject")
        window.gone(".choice", "not applied")
        assert not (project / "c.txt").exists()
        assert (project / "b.txt").read_text() == edited(10)
        assert served.agent("GET", "/file?path=c.txt")[0] == 404
        assert window.errors() == []
    finally:
        window.close()


@pytest.mark.spec("REVIEW-5", "WEB-1")
def test_a_list_that_is_the_same_is_not_drawn_anew(served):
    body = {"path": "a.txt", "content": edited(2, 25)}
    assert served.agent("POST", "/file/write", body)[0] == 200
    window = Browser()
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/runs")
        window.click(".choice", "not applied")
        pieces(window, a=2)
        before = len(window.value(QUEUES))
        window.value("document.querySelector('.hunk').dataset.seen = 'before'")
        assert served.agent("POST", "/file/write", body)[0] == 200
        # The list, and then what can be seen of it.
        until_blocking(lambda: len(window.value(QUEUES)) >= before + 2)
        pieces(window, a=2)
        window.find(".hunk[data-seen=before]")
        assert window.errors() == []
    finally:
        window.close()


@pytest.mark.spec("REVIEW-6", "WEB-1")
def test_many_files_that_are_not_applied_are_listed_without_their_lines(served):
    for number in range(150):
        body = {"path": f"{number:04}.txt", "content": f"line {number}\n"}
        assert served.agent("POST", "/file/write", body)[0] == 201
    window = Browser()
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.value("performance.setResourceTimingBufferSize(5000)")
        window.go("#/runs")
        window.click(".choice", "not applied")
        window.find(".hunk .add", "line 0")
        window.press(Keys.END)
        window.find(".hunk .add", "line 149")
        queues = window.value(QUEUES)
        assert any("brief=true" in each for each in queues)
        assert all("brief=true" in each or "path=" in each for each in queues)
        assert len(queues) < 100, "what was passed by was not waited for"
        assert window.errors() == []
    finally:
        window.close()
