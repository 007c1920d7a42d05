"""Lists that are cut go on to what is older, and what they say can be read, on a phone too."""

import re

import pytest

from tests.fronts.console.browsing import Browser
from tests.fronts.console.test_console import READ_S, asking
from tests.waiting import let_pass_blocking, until_blocking

IN_SMALL_PAGES = """
const asked = window.fetch;
window.fetch = (url, how) => asked(String(url).replace("limit=200", "limit=2"), how);
"""


def choices(window):
    return window.value(
        "return [...document.querySelectorAll('.choices .choice')].map((each) => each.innerText)"
    )


@pytest.fixture
def window(served):
    window = Browser()
    window.driver.get(served.new_link())
    window.find("header.top")
    yield window
    assert window.errors() == []
    window.close()


@pytest.mark.spec("RUN-1", "WEB-1")
def test_older_runs_are_listed_when_they_are_asked_for(served, window):
    token = served.new_agent("busy")
    for number in range(203):
        headers = {"X-Bailiwick-Run": f"Look {number} times"}
        assert served.agent("GET", "/list", token=token, headers=headers)[0] == 200
    window.go("#/runs")
    until_blocking(lambda: len(choices(window)) == 201)
    assert choices(window)[0].startswith("Look 202 times")
    assert choices(window)[-1] == "Older runs"
    window.value("document.querySelector('.choices .choice:last-child').click()")
    until_blocking(lambda: len(choices(window)) >= 203)
    assert any(each.startswith("Look 0 times") for each in choices(window))
    assert "Older runs" not in choices(window)
    # Whoever looks at one of them still has them all, and a link to it leads there.
    window.value(
        "[...document.querySelectorAll('.choice')].find((each) =>"
        " each.innerText.startsWith('Look 1 times')).click()"
    )
    window.find(".question h2", "Look 1 times")
    until_blocking(lambda: any(each.startswith("Look 0 times") for each in choices(window)))
    run = window.value("return location.hash").rpartition("/")[2]
    window.go("#/files")
    window.find(".listing")
    window.go(f"#/runs/{run[:8]}")
    window.find(".question h2", "Look 1 times")
    until_blocking(lambda: choices(window)[-1] == "Older runs")
    window.go("#/runs/nonsense")
    window.find(".empty", "There is nothing called nonsense here")


@pytest.mark.spec("WEB-1")
def test_older_versions_are_listed_and_compared_when_they_are_asked_for(served, window):
    for number in range(5):
        served.write("aged.md", f"number {number}\n")
    window.value(IN_SMALL_PAGES)
    window.go("#/history/aged.md")
    until_blocking(lambda: len(choices(window)) == 3)
    assert choices(window)[-1] == "Older versions"
    # The last one that is listed is compared with the one before it.
    window.value("document.querySelectorAll('.choices .choice')[1].click()")
    window.find(".diff .del", "number 2")
    window.find(".diff .add", "number 3")
    until_blocking(lambda: len(choices(window)) == 5)
    window.click(".choice", "Older versions")
    until_blocking(lambda: len(choices(window)) == 5 and "created" in choices(window)[-1])


@pytest.mark.spec("NOTE-2", "WEB-1")
def test_older_answers_are_listed_when_they_are_asked_for(served, window):
    window.go("#/approvals")
    for number in range(3):
        thread, answers = asking(served, f"migrations/old-{number}.sql", "x\n")
        window.find(".question h2", f"old-{number}.sql")
        let_pass_blocking(READ_S)
        window.click(".verdict button", "No")
        thread.join(120)
        assert answers[0][0] == 403
    window.value(IN_SMALL_PAGES)
    window.click("button", "Answered")
    until_blocking(lambda: len(choices(window)) == 3)
    assert choices(window)[-1] == "Older answers"
    window.click(".choice", "Older answers")
    until_blocking(lambda: len(choices(window)) == 3 and "old-0.sql" in choices(window)[2])


@pytest.mark.spec("WEB-1")
def test_where_grants_are_left_out_it_is_said(served, window):
    window.value(
        "const asked = window.fetch;"
        " window.fetch = async (url, how) => {"
        "  const answer = await asked(url, how);"
        "  if (!String(url).startsWith('/grants')) return answer;"
        "  return Response.json({ ...await answer.json(), truncated: true }); };"
    )
    window.go("#/grants")
    window.find("td", "There are older grants than these")


@pytest.mark.spec("WEB-2")
def test_the_name_of_a_root_stands_on_one_line_where_there_is_room(served, window):
    window.go("#/grants")
    window.find(".grants button", "Revoke")
    lines = window.value(
        "const range = document.createRange();"
        " return [...document.querySelectorAll('.grants td:nth-child(2)')].map((each) => {"
        "  range.selectNodeContents(each); return range.getClientRects().length; });"
    )
    assert set(lines) == {1}


@pytest.mark.spec("WEB-2")
def test_grants_records_and_changes_can_be_read_on_a_phone(served):
    served.write("doc.md", "one\n")
    window = Browser(phone=True)
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/grants")
        window.find("button", "Revoke")
        name, button, card = (
            window.value(
                "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", each
            )
            for each in (".stacked b", ".stacked .button.danger", ".card:has(.stacked)")
        )
        assert name["height"] < 30  # on one line
        assert button["right"] <= card["right"]
        window.go("#/audit")
        window.find("td .chip", "success")
        narrow = (
            "return [...document.querySelectorAll('.stacked td')].filter((each) =>"
            " each.offsetWidth && each.getBoundingClientRect().right > innerWidth).length"
        )
        assert window.value(narrow) == 0
        told = window.value("return document.querySelector('.stacked tbody tr').innerText")
        assert re.search(r"\b\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\b", told), told
        window.go("#/changes")
        window.find(".legend")
        count, legend = (
            window.value(
                "const range = document.createRange();"
                "range.selectNodeContents(document.querySelector(arguments[0]));"
                "return range.getBoundingClientRect().toJSON()",
                each,
            )
            for each in (".bar:has(> .legend) > b", ".legend")
        )
        assert count["height"] < 30
        assert count["bottom"] <= legend["top"] or count["right"] <= legend["left"]
        assert window.errors() == []
    finally:
        window.close()


@pytest.mark.spec("WEB-1")
def test_how_long_is_left_is_told_in_what_a_person_counts_with(window):
    asked = "return import('/console/words.js').then((words) => words.left({}, 0))"
    spans = (9_000, 61_000, 28_702_000, 2_595_600_000)
    told = [window.value(asked.format(each)) for each in spans]
    assert told == ["9 s", "1 min 1 s", "7 h 58 min", "30 d 1 h"]
