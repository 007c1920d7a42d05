"""What a person has to see on a phone is there, and not cut."""

import pytest

from tests.fronts.console.browsing import Browser

DEEP = "a/directory/of/some/depth/with/a/name_that_is_long.py"
APART = """
const asked = window.fetch;
window.fetch = async (url, how) => {
  const answer = await asked(url, how);
  if (!/[/]work([?]|$)/.test(String(url))) return answer;
  return Response.json({ kind: "work_list", work: [{ id: "w0123456789", root: "workspace:demo",
    subject: "user:local", beganMs: Date.now(), requestId: "r-1", via: [],
    command: ["sh", "-c", "make all the things that this project is made of, one by one"] }] });
};
"""
WHOLE = """
const range = document.createRange(), box = arguments[0].getBoundingClientRect();
range.selectNodeContents(arguments[0]);
const text = range.getBoundingClientRect();
return text.left >= box.left - 1 && text.right <= box.right + 1
    && arguments[0].scrollWidth <= arguments[0].clientWidth + 1;
"""


@pytest.fixture(scope="module")
def window(served):
    served.write(DEEP, "one\n")
    opened = Browser(phone=True)
    try:
        opened.driver.get(served.new_link())
        opened.find("header.top")
        yield opened
        assert opened.errors() == []
    finally:
        opened.close()


@pytest.mark.spec("WEB-2")
def test_a_heading_stands_whole_beside_its_buttons(window):
    window.go("#/approvals")
    window.find("button", "Tell me when I look elsewhere")
    assert window.value(WHOLE, window.find("h1", "Approvals"))


@pytest.mark.spec("WEB-2")
def test_a_change_says_when(window):
    window.go("#/changes")
    row = window.find(".feed .space > div", DEEP.rpartition("/")[2])
    assert "ago" in row.text or "just now" in row.text
    assert window.value("return arguments[0].scrollHeight <= arguments[0].clientHeight", row)


@pytest.mark.spec("WEB-2", "REVIEW-5")
def test_the_name_of_a_file_that_was_changed_stands_whole(window):
    window.go("#/runs")
    window.click(".choice", "agent_run:build/7")
    assert window.value(WHOLE, window.find(".hunks header .grow", DEEP))


@pytest.mark.spec("WEB-2", "REVIEW-5")
def test_what_a_run_is_called_and_how_it_is_stand_apart(window):
    window.go("#/runs")
    window.find(".choice .chip", "at work")
    gaps = window.value(
        "return [...document.querySelectorAll('.choice .chip + .chip')].map((each) =>"
        " each.getBoundingClientRect().left"
        " - each.previousElementSibling.getBoundingClientRect().right)"
    )
    assert gaps
    assert min(gaps) >= 3


@pytest.mark.spec("WEB-2", "REVIEW-2")
def test_of_a_long_command_it_is_said_that_it_is_not_applied(window):
    window.go("#/files")
    window.value(APART)
    window.go("#/runs")
    chip = window.find(".choice .chip", "not applied")
    choice = window.find(".choice", "make all the things")
    edges = "return arguments[0].getBoundingClientRect().right"
    assert window.value(edges, chip) <= window.value(edges, choice)
