"""Caps: what is cut says so and by how much, and everything stays reachable."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bailiwick
from tests.toolbox.support import TRUNCATED, inner, parts, toolbox, workspace

pytestmark = pytest.mark.slow


async def read_all(box, path, **first):
    """Every page of a file, joined as their marks say."""
    text, given_, pages = "", {"path": path, **first}, 0
    while True:
        page = await box.call("read_file", given_)
        assert "text" in page, page
        got = inner(page["text"])
        assert len(got.encode()) <= max(box.config.max_tool_result_bytes, 4)
        text += got
        pages += 1
        if "nextCursor" not in page:
            return text, pages
        if "nextLine" in page:
            text += "\n"
        given_ = {"path": path, "cursor": page["nextCursor"]}


lines = st.lists(
    st.text(st.characters(exclude_characters="\0\ufeff\ufffe", exclude_categories=["Cs"])),
    max_size=60,
)


@pytest.mark.spec("TOOL-2")
@settings(max_examples=60)
@given(lines, st.integers(256, 400), st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le"]))
async def test_pages_of_any_text_join_to_the_whole(texts, cap, encoding):
    text = "\n".join(texts) * 9
    mark = "\ufeff" if encoding.startswith("utf-16") else ""
    async with workspace(max_tool_result_bytes=cap) as (fs, box):
        await fs.write_bytes("f", (mark + text).encode(encoding))
        try:
            whole = (await fs.read_text("f")).text
        except bailiwick.BinaryFile:
            return
        joined, _ = await read_all(box, "f")
        assert joined == whole


@pytest.mark.spec("TOOL-2")
async def test_a_file_larger_than_a_read_of_the_scope():
    async with workspace() as (fs, box):
        text = "".join(f"line {number}\n" for number in range(100_000))
        await fs.write_text("f", text)
        assert await read_all(box, "f") == (text, 5)
        first = await box.call("read_file", {"path": "f"})
        assert first["truncated"] is True
        assert first["omittedBytes"] == len(text) - len(inner(first["text"])) - 1
        assert first["text"].endswith(TRUNCATED.format(first["omittedBytes"]))
        last = await box.call("read_file", {"path": "f", "line": 99_999})
        assert inner(last["text"]) == "line 99998\nline 99999\n"
        assert "truncated" not in last


@pytest.mark.spec("TOOL-2")
async def test_a_line_longer_than_any_answer():
    async with workspace(max_tool_result_bytes=1000) as (fs, box):
        text = "é" * 400_000 + "\nend"
        await fs.write_text("f", text)
        page = await box.call("read_file", {"path": "f"})
        assert "nextLine" not in page
        assert page["omittedBytes"] == len(text.encode()) - 1000
        page = await box.call("read_file", {"path": "f", "line": 2})
        assert inner(page["text"]) == "end"


@pytest.mark.spec("TOOL-2")
async def test_a_window_that_was_asked_for_is_not_a_cut_one():
    async with workspace() as (fs, box):
        await fs.write_text("f", "1\n2\n3\n4\n")
        page = await box.call("read_file", {"path": "f", "line": 2, "limit": 2})
        assert inner(page["text"]) == "2\n3"
        assert "truncated" not in page
        assert page["nextLine"] == 4
        assert page["sha256"] == (await fs.read_text("f")).sha256
        rest = await box.call("read_file", {"path": "f", "cursor": page["nextCursor"]})
        assert inner(rest["text"]) == "4\n"
        beyond = await box.call("read_file", {"path": "f", "line": 50})
        assert inner(beyond["text"]) == ""


@pytest.mark.spec("TOOL-2")
async def test_a_cursor_of_another_version_is_refused():
    async with workspace(max_tool_result_bytes=300) as (fs, box):
        await fs.write_text("f", "a\n" * 1000)
        page = await box.call("read_file", {"path": "f"})
        await fs.write_text("f", "b\n" * 1000)
        again = await box.call("read_file", {"path": "f", "cursor": page["nextCursor"]})
        assert again["errorKind"] == "hash_mismatch"
        forged = await box.call("read_file", {"path": "f", "cursor": "AAAA"})
        assert forged["errorKind"] == "parse_error"
        both = await box.call("read_file", {"path": "f", "cursor": "AAAA", "line": 1})
        assert both["errorKind"] == "parse_error"


@pytest.mark.spec("TOOL-2", "TOOL-6")
async def test_listings_and_matches():
    async with workspace(max_dir_entries=10, max_glob_matches=7) as (fs, box):
        for number in range(25):
            await fs.write_text(f"d/f{number:02}", "x", parents=True)
        listed = await box.call("ls", {"path": "d"})
        assert (len(listed["entries"]), listed["truncated"], listed["omittedEntries"]) == (
            10, True, 15,
        )  # fmt: skip
        found = await box.call("glob", {"pattern": "d/*"})
        assert (len(found["matches"]), found["truncated"]) == (7, True)
        assert found["omittedMatches"] == 18
        assert "truncated" not in await box.call("glob", {"pattern": "d/f0[0-6]"})
        lines_ = await box.call("grep", {"pattern": "x", "maxResults": 3})
        assert (len(lines_["matches"]), lines_["truncated"]) == (3, True)


@pytest.mark.spec("TOOL-2")
async def test_the_defaults():
    async with workspace() as (fs, box):
        config = box.config
        assert (
            config.max_tool_result_bytes, config.max_dir_entries, config.max_glob_matches,
            config.max_grep_matches,
        ) == (256 * 1024, 1000, 1000, 200)  # fmt: skip
        await fs.write_text("f", "x\n" * 300)
        found = await box.call("grep", {"pattern": "x"})
        assert (len(found["matches"]), found["truncated"]) == (200, True)
        assert len((await box.call("grep", {"pattern": "x", "maxResults": 250}))["matches"]) == 250


@pytest.mark.spec("TOOL-2", "TOOL-6")
async def test_no_answer_is_much_larger_than_its_cap():
    cap = 2_000
    async with workspace(max_tool_result_bytes=cap, max_dir_entries=500) as (fs, box):
        for number in range(200):
            await fs.write_text(f"d/{'n' * 200}{number:03}", "needle " * 300, parents=True)
        await fs.write_text("e", "needle\n" * 3000)
        for tool, given_ in [
            ("ls", {"path": "d"}), ("glob", {"pattern": "**"}), ("read_file", {"path": "e"}),
            ("edit_file", {"path": "e", "oldText": "needle", "newText": "N", "replaceAll": True}),
        ]:  # fmt: skip
            answer = await box.call(tool, given_)
            assert answer["truncated"] is True
            assert len(str(answer)) < 3 * cap + 500, tool
        found = await box.call("grep", {"pattern": "needle", "path": "d"})
        assert found["truncated"] is True
        assert sum(len(inner(match["line"])) for match in found["matches"]) <= cap + 2_000


@pytest.mark.spec("TOOL-2")
async def test_a_large_directory_is_counted():
    async with bailiwick.open("memory:") as fs:
        for number in range(4_100):
            await fs.write_bytes(f"f{number}", b"")
        listed = await toolbox(fs).call("ls")
        assert (len(listed["entries"]), listed["omittedEntries"]) == (1000, 3100)
        listed = await toolbox(fs, max_dir_entries=3_000).call("ls")
        assert (len(listed["entries"]), listed["omittedEntries"]) == (3000, 1100)


@pytest.mark.spec("TOOL-2", "TOOL-3")
async def test_the_note_stands_outside_the_tags():
    async with workspace(max_tool_result_bytes=300) as (fs, box):
        await fs.write_text("f", "x" * 1000)
        found = parts((await box.call("read_file", {"path": "f"}))["text"])
        assert found[5] == "x" * 300
        assert found[7] == "700"


@pytest.mark.spec("TOOL-2", "EDIT-5")
async def test_a_large_file_can_be_edited():
    """Elsewhere an edit is impossible where its difference is too large to show."""
    async with workspace() as (fs, box):
        await fs.write_text("f", "line\n" * 300_000 + "last\n")
        edit = {"path": "f", "oldText": "last", "newText": "end"}
        assert (await box.call("edit_file", edit))["firstChangedLine"] == 300_001
        every = {"path": "f", "oldText": "line", "newText": "l", "replaceAll": True}
        answer = await box.call("edit_file", every)
        assert answer["ok"] is True
        assert answer["truncated"] is True
        assert len(answer["diff"]) < 300_000
        assert (await fs.stat("f")).size == 600_004


@pytest.mark.spec("TOOL-2", "TOOL-6")
@pytest.mark.parametrize("most", [4096, 262_144])
async def test_no_argument_makes_grep_answer_more_than_its_bytes(most):
    """Tags count too: short lines are mostly tags."""
    async with workspace(max_tool_result_bytes=most) as (fs, box):
        await fs.write_text("f", "x\n" * 5_000)
        answer = await box.call("grep", {"pattern": "x", "maxResults": 1_000_000, "context": 1})
        assert len(json.dumps(answer["matches"])) <= most * 1.2
        assert answer["truncated"] is True
        assert answer["omittedMatches"] > 0


@pytest.mark.spec("READ-2")
async def test_what_a_tool_cut_goes_on_after_an_append_and_not_after_a_rewrite():
    async with workspace(max_tool_result_bytes=300) as (fs, box):
        text = "".join(f"line {number}\n" for number in range(200))
        await fs.write_text("f", text)
        page = await box.call("read_file", {"path": "f"})
        await fs.append("f", "more\n")
        following = await box.call("read_file", {"path": "f", "cursor": page["nextCursor"]})
        assert (text + "more\n").startswith(f"{inner(page['text'])}\n{inner(following['text'])}")
        await fs.write_text("f", text.replace("line 0", "LINE 0") + "more\n")
        for stale in (page, following):
            refused = await box.call("read_file", {"path": "f", "cursor": stale["nextCursor"]})
            assert refused["errorKind"] == "hash_mismatch"
