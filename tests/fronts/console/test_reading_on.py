"""Somebody reads what a run did while it is drawn anew: they stay where they are."""

import pytest

from tests.fronts.console.test_long_differences import written
from tests.waiting import until_blocking

WATCHED = """
window.read = 0;
window.holding = false;
window.held = [];
const kinds = new Map(), Real = Worker;
window.Worker = class extends Real {
  postMessage(message, moved) {
    kinds.set(message[0], message[1]);
    super.postMessage(message, moved);
  }
  addEventListener(type, tell) {
    super.addEventListener(type, (event) => {
      const kind = kinds.get(event.data?.[0]);
      if (holding && kind === "pieces") { held.push(() => tell(event)); return; }
      tell(event);
      if (kind === "file") read += 1;
    });
  }
};
"""
"""Counts how often a file was read; while ``holding``, pieces of one are not told to the page."""

RELEASE = "holding = false; for (const tell of held.splice(0)) tell()"


def reading(served, window, name):
    """A run changed a file in a hundred places, and somebody is at the third."""
    lines = [f"line {number}" for number in range(200)]
    served.person_writes(f"{name}.txt", "\n".join(lines) + "\n")
    lines[::2] = [f"{name} {number}" for number in range(100)]
    token = served.new_agent(name)
    written(served, token, f"{name}.txt", "\n".join(lines) + "\n")
    window.go("#/runs")
    window.click(".choice", f"agent_run:{name}/token")
    window.find(".hunk .add", f"{name} 0")
    for number in range(3):
        window.press("n")
        window.find(".hunk.marked .add", f"{name} {number}")
    return token


@pytest.mark.spec("REVIEW-5")
def test_a_key_pressed_while_the_pieces_are_drawn_anew_goes_on_from_the_marked_one(served, window):
    reading(served, window, "again")
    window.value("holding = true")
    window.press("y")
    until_blocking(lambda: window.value("return held.length"), timeout_s=60)
    assert window.value("return document.querySelectorAll('.hunk').length") == 0
    window.press("n")
    window.value(RELEASE)
    window.find(".hunk.marked .add", "again 3")


@pytest.mark.spec("REVIEW-5")
def test_a_key_pressed_while_the_list_is_drawn_anew_goes_on_from_the_marked_one(served, window):
    token = reading(served, window, "anew")
    window.value("holding = true")
    written(served, token, "zz-another.txt", "of the same run\n")
    until_blocking(lambda: window.value("return held.length"), timeout_s=60)
    window.press("n")
    window.value(RELEASE)
    window.find(".hunk.marked .add", "anew 3")


@pytest.mark.spec("REVIEW-5", "REVIEW-6")
def test_what_is_as_it_was_is_not_drawn_again_when_others_do_something(served, window):
    reading(served, window, "calm")
    window.value("for (const each of document.querySelectorAll('.hunk')) each.dataset.mine = 1")
    own = "return document.querySelectorAll('[data-mine]').length"
    before = window.value("return read")
    drawn = window.value(own)
    written(served, served.new_agent("elsewhere"), "elsewhere.txt", "of another run\n")
    window.find(".choice", "agent_run:elsewhere/token")
    until_blocking(lambda: window.value("return read") > before, timeout_s=60)
    window.press("n")
    window.find(".hunk.marked .add", "calm 3")
    assert window.value(own) == drawn
