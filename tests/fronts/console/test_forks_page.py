"""Forks in a real browser: what differs is seen by its lines, taken over in parts, and settled."""

import pytest

from tests.fronts.console.browsing import Browser

LINES = [f"line {number}" for number in range(30)]


def text(lines):
    return "\n".join(lines) + "\n"


def with_lines(**changed):
    return text([changed.get(f"at{number}", line) for number, line in enumerate(LINES)])


@pytest.fixture
def person(served):
    """Calls of a person, and a fork in which three files differ."""
    token = served._said("grant", "token", "forker", "--subject", "user:local")["token"]

    def call(method, route, body=None):
        status, document = served.agent(method, route, body, token=token)
        assert status < 300, document
        return document

    return call


def content(person, path, fork=None):
    query = f"&fork={fork}" if fork else ""
    return person("GET", f"/file?path={path}{query}")["content"]


def write(person, path, content, fork=None):
    query = f"?fork={fork}" if fork else ""
    person("POST", f"/file/write{query}", {"path": path, "content": content, "parents": True})


@pytest.fixture
def window(served):
    window = Browser()
    window.driver.get(served.new_link())
    window.find("header.top")
    yield window
    window.close()


@pytest.mark.spec("REVIEW-5", "WEB-1")
def test_chosen_files_and_lines_of_a_fork_are_taken_over(served, person, window):
    for path in ("f1/a.txt", "f1/b.txt", "f1/gone.txt"):
        write(person, path, text(LINES))
    person("POST", "/fork", {"name": "try1"})
    write(person, "f1/a.txt", with_lines(at3="three", at20="twenty"), "try1")
    write(person, "f1/b.txt", with_lines(at5="five"), "try1")
    write(person, "f1/new.txt", "new\n", "try1")
    person("POST", "/remove?fork=try1", {"path": "f1/gone.txt"})
    write(person, "f1/here.txt", "only here\n")
    window.go("#/versions")
    window.click("tr .button", "Compare and merge")
    window.find(".hunks header", "f1/a.txt")
    window.find(".diff .add", "twenty")
    assert "f1/here.txt" not in window.text()
    window.click("[data-accepts='f1/b.txt']:enabled")
    window.find(".toast", "4 pieces left")
    window.gone("[data-path='f1/b.txt']")
    window.click("[data-accepts='f1/gone.txt']:enabled")
    window.find(".toast", "3 pieces left")
    assert content(person, "f1/b.txt") == with_lines(at5="five")
    assert served.agent("GET", "/file?path=f1/gone.txt")[0] == 404
    window.find("[data-path='f1/a.txt'] .hunk", "twenty")
    window.value(
        "[...document.querySelectorAll(\"[data-path='f1/a.txt'] .hunk\")]"
        ".find((e) => e.innerText.includes('twenty')).querySelector('button').click()"
    )
    window.find(".toast", "2 pieces left")
    assert content(person, "f1/a.txt") == with_lines(at20="twenty")
    window.click(".bar .button", "Merge everything")
    window.find(".toast", "nothing is left")
    assert content(person, "f1/a.txt") == with_lines(at3="three", at20="twenty")
    assert content(person, "f1/new.txt") == "new\n"
    assert content(person, "f1/here.txt") == "only here\n"
    assert window.errors() == []


@pytest.mark.spec("REVIEW-5", "WEB-1")
def test_what_both_sides_changed_is_settled_in_place(served, person, window):
    paths = ("f2/ours.txt", "f2/theirs.txt", "f2/edited.txt", "f2/there.txt", "f2/kept.txt")
    for path in paths:
        write(person, path, text(LINES))
    person("POST", "/fork", {"name": "try2"})
    for path in paths[:3]:
        write(person, path, with_lines(at1="there"), "try2")
        write(person, path, with_lines(at1="here"))
    write(person, "f2/there.txt", with_lines(at1="there"), "try2")
    person("POST", "/remove", {"path": "f2/there.txt"})
    person("POST", "/remove?fork=try2", {"path": "f2/kept.txt"})
    write(person, "f2/kept.txt", with_lines(at1="here"))
    window.go("#/fork/try2")
    window.find(".chip.bad", "conflict")
    window.click(".bar .button", "Merge everything")
    window.find(".toast.bad", "Nothing was changed")

    def card(path, what):
        return f"[data-path='{path}'] {what}"

    assert window.find(card("f2/ours.txt", ".verdict .main")).get_attribute("disabled")
    for path, side in (("f2/ours.txt", "tree"), ("f2/theirs.txt", "apart")):
        window.click(card(path, f"[data-pick={side}]"))
        window.click(card(path, ".verdict .button"), "Use this")
        window.gone(f"[data-path='{path}']")
    window.click(card("f2/edited.txt", ".verdict .button"), "Edit")
    window.type(card("f2/edited.txt", "textarea"), "mine")
    window.click(card("f2/edited.txt", ".edited .button"), "Use this text")
    window.gone("[data-path='f2/edited.txt']")
    window.click(card("f2/there.txt", ".verdict .button"), "All as in the fork")
    window.gone("[data-path='f2/there.txt']")
    window.click(card("f2/kept.txt", ".button"), "Reject")
    window.click(".dialog button", "Reject")
    window.says("There is nothing to take over.")
    assert content(person, "f2/ours.txt") == with_lines(at1="here")
    assert content(person, "f2/theirs.txt") == with_lines(at1="there")
    assert content(person, "f2/edited.txt") == "mine"
    assert content(person, "f2/there.txt") == with_lines(at1="there")
    assert content(person, "f2/kept.txt") == with_lines(at1="here")
    assert content(person, "f2/edited.txt", "try2") == "mine"
    assert window.errors() == []
