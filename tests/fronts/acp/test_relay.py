"""The relay between hostile ends: what passes, what never does, and what it holds at most."""

import asyncio
import json
import os
import random

import pytest

import bailiwick
from bailiwick.fronts.acp import files
from bailiwick.fronts.acp import relay as relay_module
from bailiwick.fronts.acp.extension import CALLS, Served
from bailiwick.model import MiB
from tests.fronts.acp.readers import methods_in
from tests.fronts.acp.wires import wires
from tests.waiting import give_a_chance

pytestmark = pytest.mark.spec("ACP-3")

STRANGE = [
    b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}\n',
    b'  {"method" : "x/y" , "jsonrpc":"2.0","params":{"a":1.50,"b":1e400,"\\u0041":"\\/"}}  \r\n',
    b'{"jsonrpc":"2.0","id":"1","result":{"big":123456789012345678901234567890}}\n',
    '{"jsonrpc":"2.0","method":"session/update","params":{"t":"ü\u2028\u0085😀"}}\n'.encode(),
    b'{"jsonrpc":"2.0","method":"session/update","params":{"half":"\\ud83d"}}\n',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"\\u0000"}}\n',
    b'{"jsonrpc":"2.0","id":3,"method":"terminal/create","params":{"command":"ls"}}\n',
    b"\n",
    b'{"id":-1,"unknown":[[[]]],"method":"_vendor/thing"}\r\n',
    b'{"method":"m","params":{"Method":"fs/x","method":1,"method":2,"toolCallId":"bailiwick"}}\n',
]


async def test_what_is_not_ours_passes_as_the_bytes_that_came():
    async with wires() as between:
        for line in STRANGE:
            await between.agent.say(line)
            assert await between.editor.hear() == line
            await between.editor.say(line)
            assert await between.agent.hear() == line
        assert between.said == []


async def test_an_editor_is_passed_on_even_where_it_is_not_understood():
    async with wires() as between:
        for line in (b"not json\n", b'{"id":\n', b"[1,2]\n", b'{"a":NaN}\n', b"\xff\xfe\n"):
            await between.editor.say(line)
            assert await between.agent.hear() == line


async def test_lines_arrive_whole_however_they_are_cut():
    rng = random.Random(7)
    lines = [json.dumps({"method": "m", "params": "x" * rng.randrange(3000)}) for _ in range(40)]
    data = "".join(line + "\n" for line in lines).encode()
    async with wires() as between:
        at = 0
        while at < len(data):
            size = rng.randrange(1, 4000)
            await between.agent.say(data[at : at + size])
            await asyncio.sleep(0)
            at += size
        for line in lines:
            assert await between.editor.hear() == line.encode() + b"\n"


async def test_initialize_says_what_is_served_and_nothing_else_changes():
    asked = (
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,'
        b'"clientCapabilities":{"fs":{"readTextFile":false,"future":true,"_meta":{"k":1}},'
        b'"terminal":true,"number":1.50},"_meta":{"a":"\\/"}}}\n'
    )
    async with wires(serves=Served(read=True, write=False, more=["_bailiwick/list"])) as between:
        await between.editor.say(asked)
        heard = await between.agent.hear()
    told = json.loads(heard)
    wanted = json.loads(asked)
    wanted["params"]["clientCapabilities"]["fs"] = {
        "readTextFile": True, "writeTextFile": False,
        "_meta": {"k": 1, "bailiwick": {"methods": ["_bailiwick/list"]}},
    }  # fmt: skip
    assert told == wanted
    assert b'"number":1.50' in heard
    assert b'"\\/"' in heard


@pytest.mark.parametrize("capabilities", ["null", "{}", '{"fs":null}', None])
async def test_initialize_without_capabilities_gets_them(capabilities):
    params = {"protocolVersion": 1}
    if capabilities is not None:
        params["clientCapabilities"] = json.loads(capabilities)
    async with wires() as between:
        await between.editor.say(
            json.dumps({"id": 0, "method": "initialize", "params": params}).encode() + b"\n"
        )
        told = await between.agent.hear_json()
    ours = {"bailiwick": {"methods": list(CALLS)}}
    served = {"readTextFile": True, "writeTextFile": True, "_meta": ours}
    assert told["params"]["clientCapabilities"]["fs"] == served


CALL = '{"jsonrpc":"2.0","id":7,"method":"fs/write_text_file","params":{"path":"/etc/x"}}'

WRAPPED = '{"jsonrpc":"2.0","method":"session/update","params":\r%s\r}'

SMUGGLED = {
    "a number that only some take": CALL[:-1] + ',"x":NaN}',
    "a comment": CALL[:-1] + "/* */}",
    "a comma too many": CALL[:-1] + ",}",
    "a batch": f"[{CALL}]",
    "two at once": f"{{}} {CALL}",
    "the method twice": '{"method":"fs/write_text_file","id":7,"method":"session/update"}',
    "twice, escaped": '{"method":"fs/write_text_file","id":7,"m\\u0065thod":"session/update"}',
    "twice, far apart": '{"method":"fs/write_text_file","p":{"x":"]}\\"{"},"method"'
    + " " * 200 + ':"session/update"}',
    "a mark before it": "\ufeff" + CALL,
    "another line end": '{"method":"session/update","params":[\r' + CALL + "\r]}",
    "another line end, half a character in a name": WRAPPED % ('{"\\ud800":1,' + CALL[1:]),
    "another line end, half a character in a text": WRAPPED % CALL.replace("/x", "\\ud800"),
    "another line end, a batch": WRAPPED % f"[{CALL}]",
    "another line end, the first method": WRAPPED % (CALL[:-1] + ',"method":"x"}'),
    "another line end before it": "\r" + CALL.replace("fs/", "x/") + "\r\r",
    "another case": CALL.replace('"method"', '"Method"'),
    "another case beside it": CALL.replace('"method"', '"METHOD"')[:-1]
    + ',"method":"session/update"}',
    "another case, escaped": CALL.replace('"method"', '"\\u004dethod"'),
    "another s": CALL.replace('"params"', '"param\u017f"').replace("fs/", "x/"),
    "a name with half a character": CALL.replace('"method"', '"m\\ud800ethod"'),
    "a method with half a character": CALL.replace("fs/", "f\\udfffs/"),
    "a method that is no text": '{"method":["fs/write_text_file"],"id":7}',
    "single quotes": CALL.replace('"', "'"),
    "a broken character": CALL[:-1].encode() + b',"x":"\xff"}',
    "two bytes a letter": CALL.encode("utf-16-le"),
    "very deep": '{"method":"session/update","params":' + "[" * 50_000 + "]" * 50_000 + "}",
}  # fmt: skip


@pytest.mark.parametrize("way", sorted(SMUGGLED))
async def test_no_file_call_is_smuggled_past_the_scope(way):
    line = SMUGGLED[way]
    data = (line if isinstance(line, bytes) else line.encode()) + b"\n"
    async with wires() as between:
        await between.agent.say(data)
        answer = await between.agent.hear_json()
        assert answer["error"]["code"] == -32700
        assert answer["id"] is None
        # What comes next is not held up, and is the first thing that the editor hears.
        await between.agent.say(b'{"method":"next"}\n')
        assert await between.editor.hear() == b'{"method":"next"}\n'
        assert len(between.said) == 1


@pytest.mark.parametrize(
    "way",
    [
        way
        for way in sorted(SMUGGLED)
        if way.startswith(("another line end,", "another case", "a name", "a batch", "a number"))
    ],
)
def test_there_are_editors_that_would_have_served_it(way):
    assert "fs/write_text_file" in methods_in(SMUGGLED[way].encode())


async def test_a_text_with_line_ends_of_its_own_is_only_a_text():
    quoted = CALL.replace('"', "'")
    line = f'{{"method":"session/update","params":"\u2028{quoted}\u2028"}}\n'.encode()
    async with wires() as between:
        await between.agent.say(line)
        assert await between.editor.hear() == line


@pytest.mark.parametrize("method", ["fs\\/read_text_file", "\\u0066s/read_text_file"])
async def test_a_file_call_is_known_however_it_is_spelled(method):
    async with wires() as between:
        await between.scope.write_text("a", "text")
        line = f'{{"id":1,"method":"{method}","params":{{"sessionId":"s","path":"/a"}}}}\n'
        await between.agent.say(line.encode())
        assert (await between.agent.hear_json())["result"]["content"] == "text"


async def test_file_calls_we_do_not_know_are_not_the_editors_to_serve():
    async with wires() as between:
        for method in ("fs/delete_file", "FS/write_text_file", "_Bailiwick/remove"):
            answer = await between.agent.request(method, {"path": "/a"})
            assert answer["error"]["code"] == -32601
        # One that nobody waits for does nothing, here or there.
        await between.agent.say(
            b'{"method":"fs/write_text_file","params":{"sessionId":"s","path":"/a","content":""}}\n'
        )
        await between.agent.say(b'{"method":"next"}\n')
        assert await between.editor.hear() == b'{"method":"next"}\n'
        assert not await between.scope.exists("a")


@pytest.mark.spec("ACP-2")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sessionId": "s"},
        {"sessionId": "s", "path": 7},
        {"sessionId": "s", "path": "/a", "line": -1},
        {"sessionId": "s", "path": "/a", "line": "1"},
        {"sessionId": "s", "path": "/a", "limit": 1.5},
        {"sessionId": "s", "path": "/a", "limit": True},
        {"sessionId": "s", "path": "/a\0"},
        [1, 2],
    ],
)
async def test_arguments_that_make_no_sense_are_said_to(params):
    async with wires() as between:
        answer = await between.agent.request("fs/read_text_file", params)
        assert answer["error"]["code"] == -32602
        assert answer["error"]["data"]["errorKind"] == "parse_error"


async def test_ids_are_answered_as_they_were_given():
    async with wires() as between:
        for request in (0, -5, "1", "", None, 10**30):
            answer = await between.agent.request("fs/read_text_file", {}, request)
            assert answer["id"] == request


@pytest.mark.parametrize(
    "request_id",
    ["1e999", "1.5", "true", "{}", "[]", '"\\ud800"', '"\\ud83d\\ude00\\ud800"', "1" * 5000],
)
async def test_what_is_no_id_is_refused_and_nothing_ends(request_id):
    call = '{"id":%s,"method":"%s","params":{"sessionId":"s","path":"/a","content":"x"}}\n'
    async with wires() as between:
        for method in ("fs/write_text_file", "session/request_permission"):
            await between.agent.say((call % (request_id, method)).encode())
            answer = await between.agent.hear_json()
            assert (answer["id"], answer["error"]["code"]) == (None, -32700)
        assert not await between.scope.exists("a")
        # An editor's answer to nobody is the agent's to wonder about.
        line = f'{{"id":{request_id},"result":{{}}}}\n'.encode()
        await between.editor.say(line)
        assert await between.agent.hear() == line
        assert "result" in await between.write("/a", "y")


@pytest.mark.spec("ACP-2")
@pytest.mark.parametrize("content", ["\\ud83d\\ude00 \\ud800", "\\udc00", "\\ud83d\\ud83d\\ude00"])
async def test_text_that_is_no_unicode_is_refused_and_never_mended(content):
    call = '{"id":5,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/a",%s}}\n'
    async with wires() as between:
        for given in (f'"content":"{content}"', f'"content":"x","_meta":{{"{content}":1}}'):
            await between.agent.say((call % given).encode())
            answer = await between.agent.hear_json()
            assert (answer["id"], answer["error"]["code"]) == (5, -32602)
            assert answer["error"]["data"]["errorKind"] == "parse_error"
            assert not await between.scope.exists("a")
        # What is whole is written as it was sent.
        await between.agent.say((call % '"content":"\\ud83d\\ude00 \\\\ud800"').encode())
        assert "result" in await between.agent.hear_json()
        assert (await between.scope.read_text("a")).text == "😀 \\ud800"


async def test_the_same_id_on_both_sides_is_two_requests():
    async with wires() as between:
        await between.scope.write_text(".env", "KEY=1")
        await between.editor.say(b'{"id":1,"method":"session/prompt","params":{}}\n')
        await between.agent.hear()
        await between.agent.say(
            b'{"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/.env"}}\n'
        )
        question = await between.editor.hear_json()
        assert question["id"] != 1
        # The agent's own answer to the editor's request 1 goes by, while our question is open.
        await between.agent.say(b'{"id":1,"result":{"stopReason":"end_turn"}}\n')
        assert (await between.editor.hear_json())["result"] == {"stopReason": "end_turn"}
        # An answer to somebody else's request 1 is not ours.
        await between.editor.say(b'{"id":1,"result":{}}\n')
        assert await between.agent.hear() == b'{"id":1,"result":{}}\n'
        chosen = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        await between.editor.say(
            json.dumps({"id": question["id"], "result": chosen}).encode() + b"\n"
        )
        answer = await between.agent.hear_json()
        assert (answer["id"], answer["result"]["content"]) == (1, "KEY=1")
        # The same answer again is nobody's.
        await between.editor.say(json.dumps({"id": question["id"], "result": chosen}).encode())
        await between.editor.say(b'\n{"method":"next"}\n')
        assert await between.agent.hear() == b'{"method":"next"}\n'


async def test_our_ids_cannot_be_guessed():
    prefixes = set()
    for _ in range(3):
        async with wires() as between:
            await between.scope.write_text(".env", "KEY=1")
            await between.agent.say(
                b'{"id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/.env"}}\n'
            )
            prefixes.add((await between.editor.hear_json())["id"].rpartition("-")[0])
    assert len(prefixes) == 3


@pytest.mark.spec("LIFE-1")
@pytest.mark.parametrize(
    ("who", "line"),
    [
        ("agent", b'{"method":"$/cancel_request","params":{"requestId":5}}\n'),
        ("editor", b'{"method":"session/cancel","params":{"sessionId":"s"}}\n'),
    ],
)
async def test_a_call_that_waits_can_be_cancelled(who, line):
    async with wires() as between:
        await between.scope.write_text(".env", "KEY=1")
        ask = '{"id":%s,"method":"fs/read_text_file","params":{"sessionId":"%s","path":"/.env"}}\n'
        await between.agent.say((ask % (5, "s")).encode())
        await between.editor.hear()
        await between.agent.say((ask % ('"5"', "other")).encode())
        await between.editor.hear()
        await getattr(between, who).say(line)
        heard = [await between.agent.hear_json()]
        if who == "editor":
            heard.append(await between.agent.hear_json())
            assert json.loads(line) in heard
        answer = next(each for each in heard if "error" in each)
        assert answer["error"]["code"] == -32800
        assert answer["id"] == 5
        assert await between.agent.hears_nothing(), "the other call still waits"


async def test_a_cancellation_of_something_else_passes():
    line = b'{"method":"$/cancel_request","params":{"requestId":"bailiwick"}}\n'
    async with wires() as between:
        await between.agent.say(line)
        assert await between.editor.hear() == line


async def test_too_many_calls_at_once_are_refused_and_nothing_is_stuck(monkeypatch):
    monkeypatch.setattr(relay_module, "CALLS_MAX", 4)
    async with wires() as between:
        await between.scope.write_text(".env", "KEY=1")
        ask = '{"id":%d,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/.env"}}\n'
        for number in range(5):
            await between.agent.say((ask % number).encode())
        answer = await between.agent.hear_json()
        assert answer["id"] == 4
        assert answer["error"]["data"]["errorKind"] == "busy"
        assert answer["error"]["data"]["retryable"] is True
        for _ in range(4):
            question = await between.editor.hear_json()
            denied = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
            await between.editor.say(
                json.dumps({"id": question["id"], "result": denied}).encode() + b"\n"
            )
        kinds = [(await between.agent.hear_json())["error"]["data"]["errorKind"] for _ in range(4)]
        assert kinds == ["approval_denied"] * 4


async def test_an_agent_that_floods_waits_for_the_editor():
    line = b'{"method":"session/update","params":"' + b"x" * 65_000 + b'"}\n'
    async with wires(limit=256 * 1024) as between:
        flooding = asyncio.create_task(_flood(between.agent, line, 400))
        await give_a_chance(0.2)  # to all of it
        # Nobody reads: what is under way is bounded by buffers, not by what the agent has.
        assert not flooding.done()
        for _ in range(400):
            assert await between.editor.hear() == line
        await flooding


async def _flood(end, line, count):
    for _ in range(count):
        await end.say(line)


async def test_a_line_too_long_is_refused_with_a_word(monkeypatch):
    monkeypatch.setattr(relay_module, "LINE_BYTES_MAX", 1 * MiB)
    long = b"x" * (3 * MiB)
    async with wires() as between:
        start = b'{"jsonrpc":"2.0","id":9,"method":"fs/write_text_file","params":"'
        await between.agent.say(start + long + b'"}\n')
        answer = await between.agent.hear_json()
        assert (answer["id"], answer["error"]["code"]) == (9, -32600)
        await between.agent.say(b'{"jsonrpc":"2.0","id":9,"result":"' + long + b'"}\n')
        answer = await between.editor.hear_json()
        assert (answer["id"], answer["error"]["code"]) == (9, -32603)
        await between.agent.say(b'{"params":"' + long + b'","id":9,"method":"x"}\n')
        answer = await between.agent.hear_json()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        await between.agent.say(b'{"method":"next"}\n')
        assert await between.editor.hear() == b'{"method":"next"}\n'
        # What an editor sends passes at any length, and what comes between waits for its end.
        sent = b'{"id":1,"method":"session/prompt","params":"' + long + b'"}\n'
        saying = asyncio.create_task(between.editor.say(sent))
        await between.agent.say(b'{"id":2,"method":"fs/read_text_file","params":{}}\n')
        heard = {await between.agent.hear(), await between.agent.hear()}
        await saying
        assert sent in heard


@pytest.mark.spec("ACP-1")
async def test_windows_of_lines():
    text = "".join(f"line {number}\r\n" for number in range(1, 60_001))
    async with wires() as between:
        await between.scope.write_bytes("a", text.encode())
        lines = text.split("\n")

        async def window(**given):
            return (await between.read("/a", **given))["result"]["content"]

        assert await window() == text
        assert await window(line=1) == text
        assert await window(line=0, limit=2) == "\n".join(lines[:2])
        assert await window(line=30_000, limit=25_000) == "\n".join(lines[29_999:54_999])
        assert await window(line=59_999) == "\n".join(lines[59_998:])
        assert await window(line=70_000) == ""
        assert await window(line=5, limit=0) == ""
        assert await window(limit=3) == "\n".join(lines[:3])


@pytest.mark.spec("ACP-1")
async def test_a_line_longer_than_a_page_is_one_line():
    text = "é" * 400_000 + "\nnext\n"
    async with wires() as between:
        await between.scope.write_bytes("a", text.encode())
        assert (await between.read("/a", limit=1))["result"]["content"] == text.split("\n")[0]
        assert (await between.read("/a", line=2, limit=1))["result"]["content"] == "next\n"


@pytest.mark.spec("ACP-1")
async def test_a_write_keeps_what_the_file_was_made_of():
    async with wires() as between:
        await between.scope.write_bytes("a", "\ufeffone\r\ntwo\r\n".encode())
        await between.write("/a", "eins\nzwei\n")
        read = await between.scope.read_bytes("a")
        assert read.data == "\ufeffeins\r\nzwei\r\n".encode()


@pytest.mark.spec("ACP-1", "ACP-2")
async def test_only_regular_files_of_text(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "directory").mkdir()
    async with bailiwick.open(tmp_path) as scope, wires(scope) as between:
        kinds = {}
        for name in ("pipe", "binary", "directory"):
            answer = await between.read(str(tmp_path / name))
            kinds[name] = answer["error"]["data"]["errorKind"]
        wrote = await between.write(str(tmp_path / "pipe"), "x")
    assert kinds == {
        "pipe": "not_a_regular_file", "binary": "binary_file", "directory": "is_a_directory",
    }  # fmt: skip
    assert wrote["error"]["data"]["errorKind"] == "not_a_regular_file"


@pytest.mark.spec("ACP-1")
async def test_what_is_too_large_to_hold_is_refused_and_its_lines_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "READ_BYTES_MAX", 4 * MiB)
    monkeypatch.setattr(files, "_LARGE_AT_ONCE", 1)
    (tmp_path / "log").write_text("a line of the log\n" * 500_000)
    (tmp_path / "fits").write_text("a line of the log\n" * 200_000)
    async with bailiwick.open(tmp_path) as scope, wires(scope) as between:
        answer = await between.read(str(tmp_path / "log"))
        assert answer["error"]["data"]["errorKind"] == "file_too_large"
        answer = await between.read(str(tmp_path / "log"), line=1, limit=400_000)
        assert answer["error"]["data"]["errorKind"] == "file_too_large"
        window = await between.read(str(tmp_path / "log"), line=499_999, limit=1)
        assert window["result"]["content"] == "a line of the log"
        # Several that are large: each gets its turn.
        for request in range(4):
            asked = {"sessionId": "s", "path": str(tmp_path / "fits")}
            await between.agent.say(
                json.dumps(
                    {"id": request, "method": "fs/read_text_file", "params": asked}
                ).encode() + b"\n"
            )  # fmt: skip
        got = {(await between.agent.hear_json())["id"] for _ in range(4)}
        assert got == {0, 1, 2, 3}
