"""What is made of calls: held against a blocking scope, which has the same verbs as `state`."""

import hashlib

import pytest

import bailiwick
from bailiwick import code
from bailiwick.code.conveniences import Conveniences

pytestmark = pytest.mark.spec("CODE-1")


class OutsideState(Conveniences):
    """A `state` without a sandbox."""

    Edit = bailiwick.Edit

    def __init__(self, scope):
        self.scope = scope

    def __getattr__(self, name):
        return getattr(self.scope, name)


@pytest.fixture
def state():
    with bailiwick.open_sync("memory:") as fs:
        fs.write_text("src/a.py", "import os\nx = old_name\n", parents=True)
        fs.write_text("src/deep/b.py", "old_name()\nold_name()\n", parents=True)
        fs.write_text("notes.md", "nothing\n")
        fs.write_json("conf.json", {"a": {"b": [1, {"c": 2}]}, "x.y": 3})
        yield OutsideState(fs)


def test_files_are_searched_and_replaced_in(state):
    assert state.search_files("old_\\w+", "src", include="*.py") == [
        {"path": "src/a.py", "matches": [{"line": 2, "text": "x = old_name"}]},
        {
            "path": "src/deep/b.py",
            "matches": [{"line": 1, "text": "old_name()"}, {"line": 2, "text": "old_name()"}],
        },
    ]
    planned = state.replace_in_files("old_name", "new_name", dry_run=True)
    assert [each.replacements for each in planned] == [1, 2]
    assert "old_name" in state.read_text("src/a.py").text
    state.replace_in_files("old_name", "new_name")
    assert state.read_text("src/deep/b.py").text == "new_name()\nnew_name()\n"
    # A text of several lines, of which one is found elsewhere too.
    assert [each.path for each in state.replace_in_files("os\nx", "sys\ny")] == ["src/a.py"]
    assert state.replace_in_files("nowhere", "x") == []


def test_a_text_is_replaced_wherever_it_stands_or_nowhere(state):
    for number in range(4):
        state.write_text(f"many/{number}", "old_name\n" * 400, parents=True)
    with pytest.raises(ValueError, match="more than 1500 matches"):
        state.replace_in_files("old_name", "new_name", max_results=1_500)
    assert state.read_text("many/0").text == "old_name\n" * 400
    changed = state.replace_in_files("old_name", "new_name", "many")
    assert [(str(each.path), each.replacements) for each in changed] == [
        (f"many/{number}", 400) for number in range(4)
    ]


def test_edits_are_planned_and_applied_where_nothing_has_changed(state):
    plan = state.plan_edits(
        [
            {"path": "src/a.py", "old": "import os", "new": "import sys"},
            {"path": "src/a.py", "old": "x = ", "new": "y = "},
            {"path": "src/deep/b.py", "old": "old", "new": "new", "replace_all": True},
        ]
    )
    assert [each["path"] for each in plan] == ["src/a.py", "src/deep/b.py"]
    assert "-import os" in plan[0]["diff"]
    state.append("src/deep/b.py", "more\n")
    with pytest.raises(bailiwick.HashMismatch):
        state.apply_edits(plan)
    assert state.read_text("src/a.py").text.startswith("import os")
    plan = state.plan_edits([{"path": "src/a.py", "old": "import os", "new": "import sys"}])
    assert [each.replacements for each in state.apply_edits(plan)] == [1]
    assert state.read_text("src/a.py").text.startswith("import sys")


def test_a_tree_is_summarized(state):
    told = state.summarize_tree(depth=2)
    assert (told["files"], told["directories"]) == (4, 2)
    assert told["endings"] == {".py": 2, ".json": 1, ".md": 1}
    assert told["tree"].splitlines() == ["conf.json", "notes.md", "src/", "  a.py", "  deep/"]
    assert state.summarize_tree("src")["tree"] == "a.py\ndeep/\n  b.py"


def test_a_file_is_hashed(state):
    assert state.hash_file("notes.md") == hashlib.sha256(b"nothing\n").hexdigest()


def test_json_is_queried_and_updated(state):
    assert state.query_json("conf.json")["x.y"] == 3
    assert state.query_json("conf.json", "a.b[1].c") == 2
    assert state.query_json("conf.json", '$["x.y"]') == 3
    assert state.query_json("conf.json", "a.b[-1]") == {"c": 2}
    with pytest.raises(KeyError):
        state.query_json("conf.json", "a.nothing")
    with pytest.raises(ValueError, match="no place"):
        state.query_json("conf.json", "a..b")
    state.update_json(
        "conf.json", {"a.b[0]": 7, "new.deep": True, "a.b[+]": 4}, remove=['["x.y"]', "a.b[1].c"]
    )
    assert state.query_json("conf.json") == {"a": {"b": [7, {}, 4]}, "new": {"deep": True}}
    state.write_json("list.json", [{"n": 1}, {"n": 2}])
    assert state.query_json("list.json", "[*].n") == [1, 2]


async def test_they_are_there_inside(memory):
    async with memory() as fs:
        await fs.write_text("a.py", "x = 1\n")
        await fs.write_json("c.json", {"n": 1})
        result = await code.run(
            fs,
            "state.apply_edits(state.plan_edits([{'path': 'a.py', 'old': '1', 'new': '2'}]))\n"
            "state.replace_in_files('x', 'y')\nstate.update_json('c.json', {'m': 1})\n"
            "[state.read_text('a.py').text, state.query_json('c.json', 'm'),"
            " state.search_files('y')[0]['path'], state.summarize_tree()['files'],"
            " len(state.hash_file('a.py'))]",
        )
        assert result.ok, result.error
        assert result.value == ["y = 2\n", 1, "a.py", 2, 64]
