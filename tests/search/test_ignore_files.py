"""Ignore files as verbs come by them: which of two wins, and where a large one is compiled."""

import threading

import pytest

import bailiwick
from bailiwick.verbs.walks import ignore_files


@pytest.mark.spec("TREE-6")
async def test_the_later_of_two_ignore_files_wins_however_it_is_met():
    async with bailiwick.open("memory:") as fs:
        files = {".gitignore": "a\n!b\n", ".bailiwickignore": "!a\nb\n", "a": "", "b": ""}
        for name, text in files.items():
            await fs.write_text(f"sub/{name}", text, parents=True)
        assert [entry.path for entry in (await fs.glob("sub/?")).matches] == ["sub/a"]
        listed = await fs.list("sub", include_ignored=True)
        assert [entry.name for entry in listed.entries if entry.ignored] == ["b"]
        assert (await fs.read_text("sub/a")).matched_ignore is None
        assert (await fs.read_text("sub/b")).matched_ignore == "file"


@pytest.mark.spec("TREE-6")
async def test_a_large_ignore_file_is_compiled_off_the_loop(monkeypatch):
    threads = []
    real = ignore_files.compile_rules

    def compile_rules(text):
        threads.append(threading.current_thread())
        return real(text)

    monkeypatch.setattr(ignore_files, "compile_rules", compile_rules)
    rules = "".join(f"/of-this-test-{number:04}\n" for number in range(1_000))
    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".gitignore", rules)
        await fs.write_text("sub/.gitignore", rules + "x\n", parents=True)
        for name in ("of-this-test-0999", "sub/x", "sub/y"):
            await fs.write_text(name, "")
        for _ in range(2):
            shown = [entry.path for entry in (await fs.files(".")).matches]
            assert shown == [".gitignore", "sub/.gitignore", "sub/y"]
    assert len(threads) == 2
    assert threading.main_thread() not in threads
