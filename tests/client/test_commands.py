"""Programs on a server through the client: the same as here, and taken up again where it broke."""

import asyncio
import signal

import pytest

import bailiwick
from bailiwick.client import connect, connect_sync, reconnection
from bailiwick.errors import (
    ApprovalTimeout,
    Busy,
    Closed,
    GrantRevoked,
    InternalError,
    IoError,
    MissingAccess,
    NotADirectory,
    ParseError,
    PathNotFound,
    RateLimited,
    Unsupported,
)
from bailiwick.fronts.http.routes import commands
from bailiwick.scope.execution import OwnCopy
from tests.client.lying import answer, lying
from tests.fronts.http.serving import AGENT
from tests.fronts.http.test_commands import ALLOWED, ROOT, RUNNING, served
from tests.waiting import until

pytestmark = [pytest.mark.spec("EXEC-10", "PY-5"), pytest.mark.usefixtures("needs_bubblewrap")]


def told(result):
    return {(str(each.path), each.kind) for each in result.changes}


async def said(execution, since=0):
    return b"".join([piece.data async for piece in execution.output(since)])


async def token_of(house, *access, subject=AGENT):
    await house.authority.add_grant(
        subject=subject, root="workspace:demo", access=access, by=bailiwick.User("local")
    )
    return await house.authority.tokens.issue(
        subject.replace("/", "."), subject, by=bailiwick.User("local"), front="test"
    )


SCRIPT = (
    "echo out; echo err >&2; cat; sed -i s/one/two/ a.txt; mkdir d; printf '\\377' > d/f; exit 3"
)


@pytest.mark.spec("EXEC-3", "EXEC-6")
async def test_a_command_results_in_the_same_as_here(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    async with (
        served(tmp_path) as house,
        connect(house.url, token=house.token) as there,
        bailiwick.open(here, state_dir=str(tmp_path / "own")) as local,
    ):
        found = []
        for fs, place in ((local, here), (there, house.place)):
            (place / "a.txt").write_text("one\n")
            execution = fs.exec(
                shell=SCRIPT, env={"A": "b"}, stdin=b"\xff\n", timeout=60,
                limits=bailiwick.CommandLimits(processes_max=32),
            )  # fmt: skip
            assert execution.request_id
            pieces = [piece async for piece in execution]
            result = await execution.result()
            assert result.request_id == execution.request_id
            assert type(result).__name__ == "ExecResult"
            assert [each.seq for each in pieces] == list(range(len(pieces)))
            by_stream = {
                stream: b"".join(each.data for each in pieces if each.stream == stream)
                for stream in ("stdout", "stderr")
            }
            assert [piece async for piece in execution.output(1)] == pieces[1:]
            assert await execution.result() == result
            found.append((by_stream, result.exit_code, result.signal, told(result), result.work_id))
            assert (place / "a.txt").read_text() == "two\n"
            assert (place / "d" / "f").read_bytes() == b"\xff"
        assert found[0] == found[1]
        assert found[1][0]["stdout"] == b"out\n\xff\n"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"argv": "echo hi"}, ParseError), ({"argv": []}, ParseError), ({}, ParseError),
        ({"argv": ["echo"], "shell": "echo"}, ParseError), ({"argv": ["a\0b"]}, ParseError),
        ({"argv": ["echo"], "publish": "sometimes"}, ParseError),
        ({"argv": ["echo"], "timeout": 0}, ParseError),
        ({"argv": ["echo"], "limits": 3}, ParseError), ({"argv": ["\ud800"]}, ParseError),
        ({"argv": ["echo"], "env": {"A B": "c"}}, ParseError), ({"argv": [b"echo"]}, ParseError),
        ({"argv": ["echo"], "stdin": "text"}, ParseError),
        ({"argv": ["echo"], "cwd": "nowhere"}, PathNotFound),
        ({"argv": ["echo"], "cwd": "a.txt"}, NotADirectory),
        ({"argv": ["echo"], "network": "host"}, Unsupported),
    ],
)  # fmt: skip
async def test_what_makes_no_command_is_refused(tmp_path, wrong, error):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        (house.place / "a.txt").write_text("one\n")
        with pytest.raises(error):
            await fs.exec(**wrong)
        assert await fs.work() == []


@pytest.mark.spec("EXEC-6")
async def test_an_interrupted_stream_goes_on_where_it_broke(tmp_path):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        execution = await fs.exec(
            shell="for n in 1 2 3 4 5 6; do echo $n; read go; done", stdin="pipe"
        )
        read = []
        async for piece in execution:
            read.append(piece)
            for connection in list(house.server.server_state.connections):
                connection.transport.close()  # as any machine on the way may
            await until(lambda: not house.server.server_state.connections)
            await execution.write(b"go\n")
        assert b"".join(each.data for each in read) == b"1\n2\n3\n4\n5\n6\n"


async def test_input_its_end_signals_and_a_size(tmp_path):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        data = bytes(range(256)) * 4_096  # a megabyte: several requests
        execution = await fs.exec(["sh", "-c", "cat > f; wc -c < f"], stdin="pipe")
        await execution.write(data)
        await execution.close_input()
        assert (await said(execution)).strip() == str(len(data)).encode()
        await execution.result()
        assert (house.place / "f").read_bytes() == data
        await execution.close_input()
        with pytest.raises(Closed) as caught:
            await execution.write(b"x")
        assert not caught.value.retryable
        with pytest.raises(ParseError):
            await execution.write("text")
        execution = await fs.exec(["sleep", "1000"])
        for odd in (0, -1, 99, 64, signal.SIGCHLD):
            with pytest.raises(ParseError):
                await execution.send_signal(odd)
        await execution.send_signal(signal.SIGINT)
        result = await execution.result()
        assert result.signal == signal.SIGINT
        await execution.send_signal(signal.SIGKILL)  # nothing happens
        await execution.resize(10, 10)


async def test_much_to_read_goes_over_when_it_has_begun(tmp_path):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        data = bytes(range(256)) * 12_288  # three megabytes
        execution = fs.exec(shell="cat > f; wc -c < f", stdin=data)
        assert (await said(execution)).strip() == str(len(data)).encode()
        await execution.result()
        assert (house.place / "f").read_bytes() == data
        assert (await fs.exec(["true"], stdin=data).result()).exit_code == 0  # which reads nothing


@pytest.mark.spec("EXEC-6")
async def test_what_a_command_does_not_read_yet_is_sent_again(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "EXEC_INPUT_SECONDS_MAX", 0.05)
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        script = "trap 'cat | wc -c; exit' USR1; echo begun; while :; do sleep 0.01; done"
        execution = await fs.exec(shell=script, stdin="pipe")
        async for _ in execution:
            break
        told_later = asyncio.Event()
        taken = execution._taken

        async def counted(data, **query):
            count = await taken(data, **query)
            if not count:
                told_later.set()  # nobody reads, and the pipe is full
            return count

        monkeypatch.setattr(execution, "_taken", counted)
        writing = asyncio.ensure_future(execution.write(b"x" * 300_000))
        await told_later.wait()
        await execution.send_signal(signal.SIGUSR1)
        await writing
        await execution.close_input()
        assert (await said(execution, 1)).split()[-1] == b"300000"


async def test_closing_ends_it_and_leaving_the_client_does_not(tmp_path):
    async with served(tmp_path) as house:
        async with connect(house.url, token=house.token) as fs:
            execution = fs.exec(["sleep", "1000"])
            await execution.aclose()  # which was not begun
            async with fs.exec(shell="echo x > f; echo begun; sleep 1000") as execution:
                async for piece in execution:
                    assert piece.data == b"begun\n"
                    break
            result = await execution.result()
            assert (result.signal, result.changes) == (9, [])
            with pytest.raises((Closed, PathNotFound)):
                await said(execution)
            async with await fs.open_work(result.work_id) as work:
                assert told(await work.changes()) == {("f", "created")}
                await work.discard()
            goes_on = await fs.exec(["sleep", "1000"])
        with pytest.raises(Closed):
            await goes_on.result()
        await goes_on.aclose()
        with pytest.raises(Closed):
            await fs.exec(["true"])
        (entry,) = house.app.executions._commands.values()
        assert entry.ended_at is None


@pytest.mark.spec("EXEC-3", "EXEC-8")
async def test_a_session_and_its_working_copy(tmp_path):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        (house.place / "a.txt").write_text("one\n")
        async with fs.session(env={"LANG": "C"}) as session:
            assert session.id.startswith("w")
            await session.exec(shell="mkdir d; echo two > a.txt; echo x > d/f").result()
            clock = await session.exec(["sleep", "600"], timeout=3600)
            session.cwd = "d"
            session.env["MORE"] = "m"
            assert await said(session.exec(shell="cat f; echo $LANG $MORE")) == b"x\nC m\n"
            assert await said(session.exec(["cat", "f"], cwd="d", env={"MORE": "n"})) == b"x\n"
            terminal = session.exec(["stty", "size"], terminal=bailiwick.WindowSize(7, 9))
            assert (await said(terminal)).strip() == b"7 9"
            assert told(await session.changes()) == {
                ("a.txt", "updated"),
                ("d", "created"),
                ("d/f", "created"),
            }
            assert "+two" in (await session.diff("a.txt")).text
            with pytest.raises(Busy):
                await session.publish()
            with pytest.raises(Unsupported):
                session.exec(["true"], replayable=False)
            await clock.aclose()
            assert "a.txt" in await session.discard(["a.txt"])
            assert told(await session.publish(paths=["d"])) == {
                ("d", "created"),
                ("d/f", "created"),
            }
            await session.exec(shell="echo y > f").result()
        with pytest.raises(Closed):
            await session.exec(["true"])
        assert (house.place / "d" / "f").read_text() == "x\n"
        (left,) = await fs.work()
        assert (left.id, left.root) == (session.id, "workspace:demo")
        again = await fs.open_session(session.id)
        assert (again.cwd, again.env, again.lost) == ("d", {"LANG": "C", "MORE": "m"}, ())
        assert await said(again.exec(["cat", "f"])) == b"y\n"
        assert told(await again.publish()) == {("d/f", "updated")}
        await again.aclose()
        for missing in ("w0000000000", "..", "x"):
            for opens in (fs.open_session, fs.open_work):
                with pytest.raises((PathNotFound, ParseError)):
                    await opens(missing)


async def test_an_error_that_is_told_is_not_asked_for_again(tmp_path, monkeypatch):
    async def fails(*given):
        raise OSError(28, "no room")

    monkeypatch.setattr(OwnCopy, "_brought_back", fails)
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        execution = await fs.exec(["echo", "said"])
        asked = []
        opened = fs._session.transport.opened
        monkeypatch.setattr(
            fs._session.transport,
            "opened",
            lambda request: asked.append(request) or opened(request),
        )
        with pytest.raises(IoError, match="ENOSPC"):
            await execution.result()
        assert len(asked) == 1


async def test_working_copies(tmp_path):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        script = "mkdir d; echo 1 > d/a; echo 2 > b; echo 3 > c"
        result = await fs.exec(shell=script, publish="manual").result()
        async with await fs.open_work(result.work_id) as work:
            assert work.id == result.work_id
            assert "+2" in (await work.diff("b")).text
            assert told(await work.apply(["d"])) == {("d", "created"), ("d/a", "created")}
            (house.place / "b").write_text("person\n")
            refused = await work.apply()
            assert [str(each.path) for each in refused.conflicts] == ["b"]
            assert told(await work.apply(publish="partial")) == {("c", "created")}
            assert [str(each) for each in await work.discard()] == ["b"]
        with pytest.raises(PathNotFound):
            await fs.open_work(result.work_id)


LINES = "".join(f"line {number}\n" for number in range(1, 31))


@pytest.mark.spec("EXEC-8", "EXEC-10")
async def test_single_hunks_and_joined_files_come_back_from_a_server(tmp_path):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        file = house.place / "a"
        file.write_text(LINES)
        script = "sed -i 's/line 2$/TWO/; s/line 15$/FIFTEEN/; s/line 29$/LAST/' a"
        result = await fs.exec(shell=script, publish="manual").result()
        async with await fs.open_work(result.work_id) as work:
            for odd in ({}, {"a": [0.5]}, {"a": "1"}, {"a": []}, {"a": [9]}, [1]):
                with pytest.raises(ParseError):
                    await work.apply(hunks=odd)
            assert file.read_text() == LINES
            assert told(await work.apply(hunks={"a": [1]})) == {("a", "updated")}
            assert file.read_text() == LINES.replace("line 2\n", "TWO\n")
            assert await work.discard(hunks={"a": [1]}) == ["a"]
            file.write_text(file.read_text().replace("line 8\n", "PERSON\n"))
            refused = await work.apply()
            assert [str(each.path) for each in refused.conflicts] == ["a"]
            assert told(await work.apply(merge=True)) == {("a", "updated")}
        wanted = LINES.replace("line 2\n", "TWO\n").replace("line 8\n", "PERSON\n")
        assert file.read_text() == wanted.replace("line 29\n", "LAST\n")


@pytest.mark.spec("EXEC-8", "EXEC-10")
async def test_a_session_on_a_server_is_joined_with_what_others_changed(tmp_path):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        file = house.place / "a"
        file.write_text(LINES)
        async with fs.session() as session:
            await session.exec(shell="sed -i 's/line 2$/TWO/' a").result()
            assert told(await session.changes()) == {("a", "updated")}
            file.write_text(LINES.replace("line 29\n", "PERSON\n"))
            assert [str(each.path) for each in (await session.publish()).conflicts] == ["a"]
            assert told(await session.publish(merge=True)) == {("a", "updated")}
        assert file.read_text() == LINES.replace("line 2\n", "TWO\n").replace(
            "line 29\n", "PERSON\n"
        )


async def test_an_agent_is_bounded_asked_about_and_stopped(tmp_path):
    limits = 'durability = "rename"\nlimits = { exec_per_subject_max = 1 }'
    async with served(tmp_path, ALLOWED.replace('durability = "rename"', limits)) as house:
        token = await token_of(house, *RUNNING)
        async with connect(house.url, token=token) as fs:
            execution = await fs.exec(shell="echo x > f; echo b; sleep 1000")
            async for _ in execution:
                break
            with pytest.raises(RateLimited):
                await fs.exec(["true"])
            (entry,) = house.app.executions._commands.values()
            await house.authority.revoke(entry.scope.grant.id, by=bailiwick.User("local"))
            with pytest.raises(GrantRevoked):
                await execution.result()
            await execution.aclose()
    other = tmp_path / "other"
    other.mkdir()
    async with served(other, ROOT, ask_wait_s=0.05) as house:
        token = await token_of(house, *RUNNING)
        async with connect(house.url, token=token) as fs, connect(house.url, token=house.token):
            answering = asyncio.ensure_future(answered(house))
            assert await said(fs.exec(["echo", "asked"])) == b"asked\n"
            await answering
            with pytest.raises(ApprovalTimeout):
                await fs.with_caller("test", wait_s=0.01).exec(["echo", "again"])
        reader = await token_of(house, "read", "list", subject="agent_run:c1/reader")
        async with connect(house.url, token=reader) as fs:
            with pytest.raises(MissingAccess):
                await fs.exec(["true"])
            with pytest.raises(MissingAccess):
                await fs.session().__aenter__()


async def answered(house):
    desk = house.authority.approvals
    (question,) = await until(desk.pending)
    await desk.answer(question.id, "once", by="user:local", front="test")


def blocking(url, token, place):
    with connect_sync(url, token=token) as fs:
        execution = fs.exec(["sh", "-c", "cat; echo two > a.txt"], stdin="pipe")
        execution.write(b"typed\n")
        execution.close_input()
        assert b"".join(piece.data for piece in execution) == b"typed\n"
        assert told(execution.result()) == {("a.txt", "created")}
        with fs.exec(["sleep", "1000"]) as execution:
            pass
        assert execution.result().signal == 9
        with fs.session() as session:
            assert session.id
            session.exec(shell="echo x > f").result()
            assert told(session.changes()) == {("f", "created")}
        (left,) = fs.work()
        with fs.open_work(left.id) as work:
            assert told(work.changes()) == {("f", "created")}
        with fs.open_session(left.id) as session:
            session.publish()
        assert (place / "f").read_text() == "x\n"
        with pytest.raises(PathNotFound):
            fs.open_session("w0000000000")


async def test_blocking_code_has_the_same(tmp_path):
    async with served(tmp_path) as house:
        await asyncio.to_thread(blocking, house.url, house.token, house.place)


LIES = [
    b"",
    b"{",
    b"[]\n",
    b'{"seq": 0}\n',
    b'{"seq": 1, "stream": "stdout", "data": "x"}\n',
    b'{"seq": 0, "stream": "stdout", "data": "!", "encoding": "base64"}\n',
    b'{"result": 3}\n',
    b'{"result": {"exitCode": "x"}}\n',
    b'{"error": 3}\n',
]


@pytest.mark.parametrize("lie", LIES)
async def test_what_is_no_answer_is_an_error_and_never_output(lie, monkeypatch):
    monkeypatch.setattr(reconnection, "RETRIES_MAX", 1)
    begun = answer({"exec": {"id": "e"}})
    async with lying([begun, answer(lie)]) as liar, connect(liar.url) as fs:
        execution = await fs.exec(["true"])
        with pytest.raises((InternalError, IoError)):
            await said(execution)
        with pytest.raises((InternalError, IoError)):
            await execution.result()
    for wrong in ({}, {"exec": 3}, {"exec": {"id": 3}}, {"kind": "exec", "exec": {"id": "e"}}):
        async with lying(answer(wrong)) as liar, connect(liar.url) as fs:
            with pytest.raises(InternalError):
                await fs.exec(["true"])
            with pytest.raises(InternalError):
                await fs.session().changes()


@pytest.mark.spec("EXEC-3", "EXEC-4")
async def test_a_session_is_told_which_other_roots_to_show(tmp_path):
    async with served(tmp_path) as house, connect(house.url, token=house.token) as fs:
        notes = tmp_path / "notes"
        notes.mkdir()
        (notes / "n.txt").write_text("note\n")
        await house.authority.add_root("workspace:notes", str(notes), trusted=True)
        async with fs.session(roots=("workspace:notes",)) as session:
            execution = session.exec(["cat", "/roots/workspace/notes/n.txt"])
            assert await said(execution) == b"note\n"
            await execution.result()
        with pytest.raises(ParseError):
            async with fs.session(roots="workspace:notes"):
                pass
