"""Pages of a scope on a server: their cursors go on as those of a scope at hand."""

import pytest

from bailiwick import errors
from tests.client.test_verbs import remote


@pytest.mark.spec("TREE-5", "READ-2")
async def test_pages_over_http_join_to_the_whole(tmp_path):
    async with remote(tmp_path) as fs:
        for number in range(5):
            await fs.write_text(f"d{number}/f.txt", "x" * number, parents=True)
        for search in (
            lambda **more: fs.find(".", "*.txt", **more),
            lambda **more: fs.files(**more),
            lambda **more: fs.glob("**/*.txt", **more),
        ):
            whole, found, joined = await search(), await search(limit=2), []
            while True:
                joined += found.matches
                if found.next_cursor is None:
                    break
                found = await search(limit=2, cursor=found.next_cursor)
            assert joined == whole.matches
            assert len(joined) == 5
            with pytest.raises(errors.ParseError):
                await search(cursor="nonsense")
        assert (await fs.files("d3/f.txt")).paths == ["d3/f.txt"]
        await fs.write_text("log", "one\ntwo\nthree\n")
        page = await fs.read_text("log", line=1, limit=1)
        await fs.append("log", "four\n")
        rest = await fs.read_text("log", cursor=page.next_cursor)
        assert (rest.text, rest.total_lines) == ("two\nthree\nfour\n", 4)
        assert (rest.ends_with_newline, rest.line_feeds) == (True, 4)
        await fs.write_text("log", "ONE\ntwo\nthree\n")
        with pytest.raises(errors.HashMismatch):
            await fs.read_text("log", cursor=page.next_cursor)
