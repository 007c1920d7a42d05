"""Completions against a model: what a listing shows, and begins as was typed."""

import asyncio
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick.fronts.mcp.completion import VALUES_MAX, complete_path
from bailiwick.tools import tools

NAMES = st.text(st.sampled_from("ab%?# é日/&+"), min_size=1, max_size=6)
TREES = st.lists(NAMES, max_size=12)


@pytest.mark.spec("MCP-1", "TREE-1")
@settings(max_examples=60, deadline=None)
@given(tree=TREES, data=st.data())
def test_a_completion_is_what_a_listing_shows(tree, data):
    asyncio.run(_agrees(tree, data))


async def _agrees(tree, data):
    async with bailiwick.open("memory:") as fs:
        for name in tree:
            place = "/".join(part for part in name.split("/") if part)
            try:
                await fs.write_text(place, "", parents=True)
            except bailiwick.BailiwickError:
                continue  # no name, or a directory already
        paths = [str(each.path) for each in (await fs.find(include_ignored=True)).matches]
        whole = data.draw(st.sampled_from([*paths, "", "none/x"]))
        typed = whole[: data.draw(st.integers(0, len(whole)))]
        box = tools(fs, "w")
        found = (await complete_path(box, quote(typed, safe="/")))["completion"]
        expected = await _model(fs, typed)
        assert [unquote(value) for value in found["values"]] == expected[:VALUES_MAX]
        assert (found["total"], found["hasMore"]) == (len(expected), False)
        await box.aclose()


async def _model(fs, typed):
    directory, slash, begun = typed.rpartition("/")
    try:
        page = await fs.list(directory if slash else ".", include_ignored=True)
    except bailiwick.BailiwickError:
        return []
    return [
        f"{directory}{slash}{entry.name}" + ("/" if entry.type == "directory" else "")
        for entry in page.entries
        if entry.name.startswith(begun)
    ]
