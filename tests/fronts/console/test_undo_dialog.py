"""The dialog that takes a run back, in a real browser: what stands against it is told by path."""

import pytest

from tests.fronts.console.browsing import Browser


@pytest.mark.spec("RUN-3", "WEB-1")
@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
def test_why_a_path_cannot_be_taken_back_is_told_beside_it(served, phone):
    name = f"against{int(phone)}"
    token = served.new_agent(name)
    served.person_writes(f"{name}-a.txt", "1\n2\n3\n")
    for path in (f"{name}-a.txt", f"{name}-b.txt"):
        body = {"path": path, "content": "one\ntwo\n3\n"}
        assert served.agent("POST", "/file/write", body, token=token)[0] in (200, 201)
    served.person_writes(f"{name}-a.txt", "one\nzwei\n3\n")
    window = Browser(phone=phone, dark=phone)
    try:
        window.driver.get(served.new_link())
        window.find("header.top")
        window.go("#/runs")
        window.click(".choice", f"agent_run:{name}/token")
        window.click(".question button", "Take it all back")
        window.find(".dialog .notice", "nothing is done")
        told = window.value(
            "return [...document.querySelectorAll('.dialog .notice p')].map((e) => e.innerText)"
        )
        assert len(told) == 1
        path, reason = told[0].split(maxsplit=1)
        assert path == f"{name}-a.txt"
        assert len(reason.split()) > 2
        assert window.value(
            "const told = document.querySelector('.dialog .notice p').getBoundingClientRect(),"
            " said = document.querySelector('.dialog .notice b').getBoundingClientRect();"
            " return told.top >= said.bottom && told.left === said.left"
        ), "each reason has a line of its own"
        labels = window.value(
            "return [...document.querySelectorAll('.dialog footer button')].map((e) => e.innerText)"
        )
        assert labels == ["Cancel"]
        window.click(".dialog button", "Cancel")
        window.gone(".dialog")
        kept = served.agent("GET", f"/file?path={name}-a.txt", token=token)[1]["content"]
        assert kept == "one\nzwei\n3\n"
        assert window.errors() == []
    finally:
        window.close()
