"""Long differences in a real browser: what is read, and what is in the page, at a time."""

import re

import pytest

from tests.waiting import until_blocking

WATCHED = """
window.longest = { read: 0, told: 0 };
const json = Response.prototype.json;
Response.prototype.json = async function () {
  const text = await this.text();
  longest.read = Math.max(longest.read, text.length);
  return JSON.parse(text);
};
const Real = Worker;
window.Worker = class extends Real {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      longest.told = Math.max(longest.told, JSON.stringify(data).length);
    });
  }
};
"""
"""Keeps how many characters the page had to read of one answer, and was told of one by its reader,
at most: so much is done in one piece."""

AT_A_TIME = 100_000
COUNT = "return document.querySelectorAll(arguments[0]).length"
BOTTOM = "const list = document.querySelector('.hunks'); list.scrollTop = list.scrollHeight"


def written(served, token, path, content):
    body = {"path": path, "content": content}
    assert served.agent("POST", "/file/write", body, token=token)[0] in (200, 201)


@pytest.mark.spec("REVIEW-6", "WEB-1")
def test_of_a_long_difference_only_what_can_be_seen_is_in_the_page_and_read_in_it(served, window):
    token = served.new_agent("long")
    text = "".join(f"line {number} {'x' * 40}\n" for number in range(90_000))
    assert len(text) > 4_500_000
    written(served, token, "long.txt", text)
    written(served, token, "wide.txt", "w" * 2_000_000 + "\n")
    window.go("#/runs")
    window.click(".choice", "agent_run:long/token")
    window.find(".hunk .add", "line 0 ")
    assert window.value(COUNT, "*") < 3_000
    assert len(window.text()) < 200_000
    middle = "const list = document.querySelector('.hunks'); list.scrollTop = list.scrollHeight / 2"
    window.value(middle)
    until_blocking(lambda: re.search(r"line 4\d{4} ", window.text()), timeout_s=60)
    until_blocking(lambda: window.value(BOTTOM) or "wide.txt" in window.text(), timeout_s=60)
    until_blocking(lambda: window.value(BOTTOM) or "characters" in window.text(), timeout_s=60)
    assert len(window.text()) < 200_000
    assert window.value(COUNT, "*") < 3_000
    longest = window.value("return longest")
    assert 0 < longest["told"] < AT_A_TIME, longest
    assert longest["read"] < AT_A_TIME, longest


@pytest.mark.spec("REVIEW-6", "REVIEW-5", "WEB-1")
def test_of_a_file_changed_in_many_places_only_those_that_can_be_seen_are_in_the_page(
    served, window
):
    places = 1_200
    lines = [f"line {number}" for number in range(2 * places)]
    served.person_writes("places.txt", "\n".join(lines) + "\n")
    lines[::2] = [f"other {number}" for number in range(places)]
    token = served.new_agent("places")
    written(served, token, "places.txt", "\n".join(lines) + "\n")
    window.go("#/runs")
    window.click(".choice", "agent_run:places/token")
    window.find(".hunk .add", "other 0")
    assert window.value(COUNT, ".hunk") < 100
    assert window.value(COUNT, "*") < 4_000
    for number in range(60):
        window.press("n")
        window.find(".hunk.marked .add", f"other {number}")
    window.value(BOTTOM)
    window.find(".hunk .add", f"other {places - 1}")
    assert window.value(COUNT, ".hunk") < 100
    longest = window.value("return longest")
    assert max(longest.values()) < AT_A_TIME, longest
