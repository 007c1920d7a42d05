"""Code in a sandbox: what it comes to, what it changes, and how it ends."""

import asyncio
from contextlib import aclosing

import pytest

import bailiwick
from bailiwick import code
from bailiwick.code.service import CodeService
from bailiwick.errors import MissingAccess, ParseError, PathNotFound, PolicyDenied, Unsupported
from bailiwick.scope.front_access import runs_code
from tests.authority.support import EVERYTHING, governed, rule
from tests.scope.support import snapshot

pytestmark = pytest.mark.slow

RUNNING = (*EVERYTHING, "execute")
GRANT = f'[[grant]]\nsubject = "agent_run:*"\nroot = "workspace:demo"\naccess = {list(RUNNING)!r}\n'
ALLOW = GRANT + '[[rule]]\nid = "code"\ncommand = ["bailiwick.code"]\neffect = "allow"\n'


@pytest.mark.spec("CODE-1")
async def test_it_returns_value_output_calls_and_changes(memory):
    async with memory() as fs:
        result = await code.run(
            fs,
            "state.write_text('a/b.txt', 'hello\\n', parents=True)\n"
            "print(state.read_text('a/b.txt').text, end='')\n"
            "import sys; print('beside', file=sys.stderr)\n"
            "state.move('a/b.txt', 'c.txt')\n"
            "state.files().paths",
        )
        assert result.ok, result.error
        assert (result.value, result.output) == (["c.txt"], "hello\nbeside\n")
        assert [(each.verb, each.path) for each in result.calls] == [
            ("write_text", "a/b.txt"), ("read_text", "a/b.txt"), ("move", "a/b.txt"),
            ("files", "."),
        ]  # fmt: skip
        assert [(each.kind, each.path, each.origin) for each in result.changes] == [
            ("created", "a/b.txt", None), ("moved", "c.txt", "a/b.txt"),
        ]  # fmt: skip
        assert (await fs.read_text("c.txt")).text == "hello\n"
        assert result.sandbox == "bubblewrap"


@pytest.mark.spec("CODE-1")
@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 1", 2),
        ("result = [1]\nx = 2", [1]),
        ("result = 'kept'\nprint('x')", "kept"),
        ("x = 1", None),
        ("{'a': (1, None), 'b': {2}}", {"a": [1, None], "b": [2]}),
        ("b'raw'", "b'raw'"),
        ("float('nan')", "nan"),
        ("x = []\nx.append(x)\nx", "[[...]]"),
        ("import sys\nresult = 3\nsys.exit()", 3),
        ("10 ** 30", 10**30),
        ("'\\udc80'", "?"),
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n x: 'int'\nstr(A(1))", "A(x=1)"),
    ],
)
async def test_its_value_is_the_last_expression_or_the_variable_result(memory, source, value):
    async with memory() as fs:
        result = await code.run(fs, source)
        assert result.ok, result.error
        assert result.value == value


@pytest.mark.spec("CODE-1")
async def test_a_value_is_one_that_everybody_can_write_down(memory):
    async with memory() as fs:
        for source, message in (
            ("x = []\nfor _ in range(300): x = [x]\nx", "deep"),
            ("'x' * (9 << 20)", "too large"),
        ):
            error = (await code.run(fs, source)).error
            assert error.type == "ValueError"
            assert message in error.message


@pytest.mark.spec("CODE-1")
async def test_an_exception_is_told_by_the_lines_of_the_code_alone(memory):
    async with memory() as fs:
        source = "def f(path):\n    return state.read_text(path)\n\nf('nope')"
        error = (await code.run(fs, source)).error
        assert (error.type, error.kind) == ("PathNotFound", "path_not_found")
        shown = [each for each in error.traceback.splitlines(True) if each.strip(" ^~\n")]
        assert "".join(shown) == (
            "Traceback (most recent call last):\n"
            '  File "<code>", line 4, in <module>\n'
            "    f('nope')\n"
            '  File "<code>", line 2, in f\n'
            "    return state.read_text(path)\n"
            "bailiwick.PathNotFound: nope: no such file or directory\n"
        )
        error = (await code.run(fs, "1 +")).error
        assert error.type == "SyntaxError"
        assert 'File "<code>", line 1' in error.traceback
        error = (await code.run(fs, "try:\n 1/0\nexcept ZeroDivisionError:\n {}['x']")).error
        assert error.type == "KeyError"
        assert error.traceback.count("<code>") == 2
        assert "During handling" in error.traceback
        error = (await code.run(fs, "import sys; sys.exit('no')")).error
        assert (error.type, error.message) == ("SystemExit", "no")


@pytest.mark.spec("CODE-1")
async def test_errors_are_those_of_python_with_a_kind(memory):
    async with memory() as fs:
        await fs.write_text("a", "x\n")
        result = await code.run(
            fs,
            "told = []\n"
            "for wrong in (lambda: state.read_text('b'), lambda: state.write_text('a', 'y',"
            " mode='create'), lambda: state.edit('a', old='q', new='r'),"
            " lambda: state.read_text('../x'), lambda: state.read_text('a', line='one'),"
            " lambda: state.read_text('\\0')):\n"
            "    try: wrong()\n"
            "    except (OSError, ValueError) as error:\n"
            "        assert isinstance(error, BailiwickError)\n"
            "        told.append([error.kind, error.path])\n"
            "try: state.read_text('b')\n"
            "except FileNotFoundError as error: told.append([error.errno, error.retryable])\n"
            "for wrong in (lambda: state.read_text(), lambda: state.nothing(),"
            " lambda: state.read_text('a', nothing=1), lambda: state.write_text('a', object()),"
            " lambda: state.read_text('\\udc80')):\n"
            "    try: wrong()\n"
            "    except (TypeError, AttributeError) as error: told.append(type(error).__name__)\n"
            "told",
        )
        assert result.ok, result.error
        assert result.value == [
            ["path_not_found", "b"], ["file_already_exists", "a"], ["text_not_found", None],
            ["path_outside_workspace", None], ["parse_error", None], ["parse_error", None],
            [2, False], "TypeError", "AttributeError", "TypeError", "TypeError", "TypeError",
        ]  # fmt: skip


@pytest.mark.spec("CODE-1")
async def test_all_changes_are_one_request_to_undo(volume):
    async with volume() as fs:
        await fs.write_text("a", "one\n")
        before = await snapshot(fs)
        result = await code.run(
            fs,
            "state.edit('a', old='one', new='two')\n"
            "state.write_bytes('d/b', b'\\0', parents=True)\nstate.remove('a')",
        )
        assert result.ok, result.error
        assert await snapshot(fs) != before
        undone = await fs.undo(result.request_id)
        assert not undone.conflicts
        assert await snapshot(fs) == before


@pytest.mark.spec("CODE-1")
async def test_transactional_is_all_or_nothing(volume):
    async with volume() as fs:
        await fs.write_text("a", "one\n")
        source = "state.write_text('a', 'two\\n')\nstate.write_text('b', 'new\\n')\n"
        before = await snapshot(fs)
        for ending in ("1/0", "while True: pass", "import os; os._exit(3)"):
            result = await code.run(fs, source + ending, transactional=True, timeout=3)
            assert not result.ok
            assert result.changes == []
            assert await snapshot(fs) == before
        result = await code.run(fs, source, transactional=True)
        assert result.ok, result.error
        assert [each.path for each in result.changes] == ["a", "b"]
        assert (await fs.read_text("a")).text == "two\n"
        await fs.undo(result.request_id)
        assert await snapshot(fs) == before


@pytest.mark.spec("CODE-1")
async def test_what_others_changed_meanwhile_is_told_of_a_transaction(volume, monkeypatch):
    answer = CodeService.answer

    async def meddling(self, asked):
        if asked.verb == "exists":
            await fs.write_text("a", "theirs\n")
        return await answer(self, asked)

    monkeypatch.setattr(CodeService, "answer", meddling)
    async with volume() as fs:
        await fs.write_text("a", "one\n")
        source = "print('on')\nstate.write_text('a', 'mine\\n')\nstate.exists('a')"
        result = await code.run(fs, source, transactional=True)
        assert (result.error.kind, result.changes) == ("hash_mismatch", [])
        assert (result.output, result.value) == ("on\n", True)
        assert (await fs.read_text("a")).text == "theirs\n"


@pytest.mark.spec("CODE-1")
async def test_all_or_nothing_is_refused_where_there_are_no_transactions(memory):
    async with memory() as fs:
        with pytest.raises(Unsupported, match="transactions"):
            await code.run(fs, "1", transactional=True)


@pytest.mark.spec("CODE-1")
async def test_it_needs_execute_and_a_rule_that_lets_an_agent(sandboxed, tmp_path):
    async with governed(tmp_path, ALLOW) as house:
        fs = await house.scope(RUNNING)
        assert (await code.run(fs, "state.write_text('a', 'x')\n2")).value == 2
        kept = [each for each in await house.records() if each.operation == "exec"]
        assert kept
        assert all("bailiwick.code" in str(each) for each in kept)
        plain = await house.scope(EVERYTHING)
        with pytest.raises(MissingAccess):
            await code.run(plain, "1")
    async with governed(tmp_path, GRANT + rule("deny", access=["execute"])) as house:
        with pytest.raises(PolicyDenied):
            await code.run(await house.scope(RUNNING), "1")


@pytest.mark.spec("CODE-1")
async def test_its_calls_pass_grant_and_policy(sandboxed, tmp_path):
    rules = (
        ALLOW + rule("hide", "secret/**", id="hidden") + rule("deny", "kept.txt", access=["write"])
    )
    async with governed(tmp_path, rules) as house:
        await house.plant({"secret/key": "k\n", "kept.txt": "x\n", "a": "y\n"})
        fs = await house.scope(("read", "list", "metadata", "write", "execute"))
        result = await code.run(
            fs,
            "told = []\n"
            "for wrong in (lambda: state.read_text('secret/key'),"
            " lambda: state.write_text('kept.txt', 'z'), lambda: state.remove('a')):\n"
            "    try: wrong()\n"
            "    except BailiwickError as error: told.append(error.kind)\n"
            "told + [state.exists('secret/key'), state.grep('k').matches,"
            " [str(each) for each in state.files().paths]]",
        )
        assert result.ok, result.error
        assert result.value == [
            "path_not_found", "policy_denied", "missing_access", False, [], ["a", "kept.txt"],
        ]  # fmt: skip
        assert result.changes == []


@pytest.mark.spec("CODE-1")
async def test_streams_go_by_pieces_of_any_file(memory):
    async with memory() as fs:
        data = bytes(range(256)) * 40_000  # ten megabytes: more than one message holds
        await fs.write_bytes("large", data)
        result = await code.run(
            fs,
            "try: state.read_bytes('large')\n"
            "except OSError as error: print(error.kind)\n"
            "size = sum(len(each) for each in state.stream('large'))\n"
            "with state.stream('large', offset=3, length=5) as some: print(b''.join(some))\n"
            "written = state.write_stream('copy', state.stream('large'))\n"
            "def broken():\n    yield b'x'\n    raise KeyError('stop')\n"
            "try: state.write_stream('never', broken())\n"
            "except KeyError: print(state.exists('never'))\n"
            "import io\nstate.write_stream('io', io.BytesIO(b'abc'))\n"
            "[size, written.size, state.hash_file('copy') == state.hash_file('large')]",
        )
        assert result.ok, result.error
        assert result.value == [len(data), len(data), True]
        assert result.output == "file_too_large\nb'\\x03\\x04\\x05\\x06\\x07'\nFalse\n"
        assert [each.path for each in result.changes] == ["copy", "io"]
        assert (await fs.read_bytes("copy")).data == data


@pytest.mark.spec("CODE-1")
async def test_forks_transactions_and_locks_are_blocks(volume):
    async with volume() as fs:
        await fs.write_text("a", "one\n")
        result = await code.run(
            fs,
            "with state.fork('try') as other:\n"
            "    other.write_text('a', 'forked\\n')\n"
            "    state.copy_from(other, 'a', 'from-fork')\n"
            "with state.transaction() as inside: inside.write_text('b', 'x')\n"
            "try:\n"
            "    with state.transaction() as inside:\n"
            "        inside.write_text('c', 'x')\n        raise KeyError\n"
            "except KeyError: pass\n"
            "with state.lock('a') as lease:\n"
            "    lease.renew()\n    state.write_text('a', 'two\\n', lock_token=lease.token)\n"
            "with state.create_temp() as temp:\n"
            "    temp.write_text('t', 'x'); state.copy_from(temp, 't', 't')\n"
            "[str(each) for each in state.files().paths] + [len(state.forks())]",
        )
        assert result.ok, result.error
        assert result.value == ["a", "b", "from-fork", "t", 2]
        assert [str(each.path) for each in result.changes] == ["from-fork", "b", "a", "t"]


@pytest.mark.spec("CODE-1")
async def test_what_it_leaves_open_comes_to_nothing(volume):
    async with volume() as fs:
        await fs.write_text("a", "one\n")
        result = await code.run(
            fs,
            "open_one = state.transaction().__enter__()\nopen_one.write_text('b', 'x')\n"
            "next(iter(state.stream('a')))\nstate.lock('a', ttl=600)\nstate.fork('left')\n"
            "state._call('write_stream', {'path': 'half'})\nNone",
        )
        assert result.ok, result.error
        assert result.changes == []
        assert [str(each) for each in (await fs.files()).paths] == ["a"]
        await fs.write_text("a", "free\n")


@pytest.mark.spec("CODE-1")
async def test_calls_are_counted_and_what_is_open_too(memory):
    limits = bailiwick.Limits(code_calls_max=50, code_handles_max=3)
    async with memory(limits=limits) as fs:
        await fs.write_text("a", "x\n")
        result = await code.run(fs, "for _ in range(60): state.exists('a')")
        assert (result.error.kind, len(result.calls)) == ("quota_exceeded", 50)
        result = await code.run(fs, "for _ in range(60): state.exists('a')", calls_max=7)
        assert (result.error.kind, len(result.calls)) == ("quota_exceeded", 7)
        with pytest.raises(ParseError, match="calls_max"):
            await code.run(fs, "1", calls_max=51)
        result = await code.run(fs, "[state.stream('a') for _ in range(5)]")
        assert result.error.kind == "busy"


@pytest.mark.spec("CODE-1")
async def test_output_is_bounded_and_says_so(memory):
    async with memory() as fs:
        result = await code.run(
            fs, "print('begin')\nfor _ in range(100_000): print('y' * 50)\nprint('end')",
            output_bytes_max=1_000,
        )  # fmt: skip
        assert result.ok, result.error
        assert result.truncated
        assert len(result.output) < 1_100
        assert result.output.startswith("begin\n")
        assert result.output.endswith("end\n")
        assert f"[... {result.output_omitted_bytes} bytes omitted ...]" in result.output
        result = await code.run(fs, "print('é\\udc80\\x1b[31m')")
        assert result.output == "é\\udc80\x1b[31m\n"


@pytest.mark.spec("CODE-1")
async def test_what_never_ends_is_ended(memory):
    async with memory() as fs:
        for timeout in (1, 10, 60):  # where the machine is so busy that it has not begun by then
            result = await code.run(fs, "print('on')\nwhile True: pass", timeout=timeout)
            assert result.timed_out
            if result.output:
                break
        assert result.error.type == "TimeoutError"
        assert result.output == "on\n"
        with pytest.raises(ParseError, match="timeout"):
            await code.run(fs, "1", timeout=0)


@pytest.mark.spec("CODE-1")
async def test_nothing_ends_it_before_its_time_is_up_by_the_clock(memory):
    """What computes in several threads has as long, and where we are late it is still told that
    its time was up: a bound on what it computes ends it without a word."""
    bound = "import resource\nresource.getrlimit(resource.RLIMIT_CPU)"
    async with memory() as fs:
        result = await code.run(fs, bound, timeout=30)
        assert min(result.value) > 2 * 30


@pytest.mark.spec("CODE-1")
async def test_a_person_who_is_asked_is_not_waited_for_when_it_is_over(sandboxed, tmp_path):
    rules = ALLOW + rule("ask", "a", access=["write"], default="deny")
    async with governed(tmp_path, rules) as house:
        asked = asyncio.Event()

        async def ask(approval):
            asked.set()
            await asyncio.Event().wait()

        fs = (await house.scope(RUNNING)).with_caller("test", asker=ask)
        result = await code.run(fs, "state.write_text('a', 'x')", timeout=4)
        assert asked.is_set()
        assert result.timed_out
        assert await house.tree() == {}


@pytest.mark.spec("CODE-1")
async def test_it_is_ended_with_whoever_waits_for_it_and_with_its_root(memory):
    async with memory() as fs:
        heard = await fs.change_cursor()
        running = asyncio.create_task(
            code.run(fs, "state.write_text('on', '')\nimport signal; signal.pause()")
        )
        async for _ in fs.watch(".", since=heard):
            break
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        running = asyncio.create_task(
            code.run(fs, "state.write_text('again', '')\nimport signal; signal.pause()")
        )
        async for change in fs.watch(".", since=heard):
            if change.path == "again":
                break
    result = await running
    assert not result.ok
    assert not result.timed_out


@pytest.mark.spec("CODE-1")
async def test_what_is_not_built_or_makes_no_sense_is_refused_in_words(memory):
    async with memory() as fs:
        with pytest.raises(Unsupported, match="monty"):
            await code.run(fs, "1", engine="monty")
        with pytest.raises(ParseError, match="engine"):
            await code.run(fs, "1", engine="js")
        with pytest.raises(ParseError):
            await code.run(fs, "x" * 200_000)
        with pytest.raises(ParseError):
            await code.run(fs, b"1")
        with pytest.raises(Unsupported, match="server"):
            await code.run(object(), "1")
        with pytest.raises(ParseError, match="blocking"):
            code.run_sync(fs, "1")


@pytest.mark.spec("CODE-1")
def test_blocking_code_runs_it_too(sandboxed, tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    with bailiwick.open_sync(tmp_path) as fs:
        result = code.run_sync(fs, "state.edit('a.txt', [Edit('one', 'two')]).replacements")
        assert result.value == 1, result.error
    assert (tmp_path / "a.txt").read_text() == "two\n"


@pytest.mark.spec("CODE-1")
async def test_a_directory_that_every_sandbox_shows_is_refused(sandboxed, tmp_path, monkeypatch):
    from bailiwick.build import interpreters

    (tmp_path / "tree").mkdir()
    monkeypatch.setattr(interpreters, "_SYSTEM", (*interpreters._SYSTEM, str(tmp_path)))
    async with bailiwick.open(tmp_path / "tree", state_dir=str(tmp_path / "state")) as fs:
        with pytest.raises(Unsupported, match="among the directories of the system"):
            await code.run(fs, "1")
        assert not runs_code(fs)


@pytest.mark.spec("CODE-1")
async def test_a_run_counts_as_a_command(memory):
    async with memory(limits=bailiwick.Limits(exec_per_subject_max=1)) as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "r"), access=fs.access)

        async def agrees(approval):
            return "once"

        agent = agent.with_caller("test", asker=agrees)
        heard = await fs.change_cursor()
        source = "state.write_text('on', '')\nimport signal; signal.pause()"
        running = asyncio.create_task(code.run(agent, source))
        async for _ in fs.watch(".", since=heard):
            break
        with pytest.raises(bailiwick.RateLimited):
            await code.run(agent, "1")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await code.run(agent, "1")).value == 1


@pytest.mark.spec("CODE-1")
async def test_it_works_on_a_fork(volume):
    async with volume() as fs, aclosing(await fs.fork("try")) as other:
        result = await code.run(other, "state.write_text('a', 'x')")
        assert result.ok, result.error
        with pytest.raises(PathNotFound):
            await fs.read_text("a")
