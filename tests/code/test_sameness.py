"""Whatever calls a program makes, the tree is what the same calls leave that are made directly."""

import asyncio
import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick import code
from bailiwick.errors import BailiwickError
from tests.scope.support import snapshot

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/b", "../x", "", "c\n"])
TEXTS = st.sampled_from(["", "one\n", "one two\n", "é\n", "x" * 300])

FLAG = st.booleans()
VALUES = st.recursive(st.none() | st.integers() | TEXTS, st.lists, max_leaves=4)


def call(verb, given, **optional):
    return st.tuples(st.just(verb), st.fixed_dictionaries(given, optional=optional))


CALLS = st.one_of(
    call("write_text", {"path": NAMES, "text": TEXTS}, parents=FLAG, mode=st.just("create")),
    call("append", {"path": NAMES, "data": TEXTS}),
    call("edit", {"path": NAMES, "old": st.just("one"), "new": TEXTS}, replace_all=FLAG),
    call("make_dir", {"path": NAMES}, parents=FLAG),
    call("remove", {"path": NAMES}, recursive=FLAG, missing_ok=FLAG),
    call("move", {"path": NAMES, "to": NAMES}, replace=FLAG),
    call("copy", {"path": NAMES, "to": NAMES}, recursive=FLAG),
    call("symlink", {"path": NAMES, "target": NAMES}),
    call("truncate", {"path": NAMES, "size": st.integers(-1, 9)}),
    call("write_json", {"path": NAMES, "value": VALUES}),
    call("read_text", {"path": NAMES}),
    call("stat", {"path": NAMES}),
    call("files", {}),
)

PROGRAM = """
import json
told = []
for verb, arguments in json.loads({calls!r}):
    try: told.append(shown(getattr(state, verb)(**arguments)))
    except BailiwickError as error: told.append(error.kind)
told
"""
SHOWN = """
def shown(value):
    fields = getattr(value, "__dict__", None)
    if fields is None: return value
    return {name: each for name, each in fields.items() if isinstance(each, (str, int, bool))
            and name not in UNLIKE}
"""
UNLIKE = {"request_id", "version", "mtime_ns", "created_ns", "_name"}


async def made_directly(fs, calls):
    told = []
    for verb, arguments in calls:
        try:
            value = await getattr(fs, verb)(**arguments)
        except BailiwickError as error:
            told.append(error.kind)
            continue
        beside = [name for name, each in vars(type(value)).items() if isinstance(each, property)]
        fields = {name: getattr(value, name) for name in (*value.__struct_fields__, *beside)}
        told.append(
            {
                name: each
                for name, each in fields.items()
                if isinstance(each, (str, int, bool)) and name not in UNLIKE
            }
        )
    return json.loads(msgspec.json.encode(told, enc_hook=str))


@pytest.mark.spec("CODE-1")
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(CALLS, max_size=25))
def test_calls_leave_the_same_tree_and_say_the_same(sandboxed, calls):
    async def both():
        async with bailiwick.open("memory:") as one, bailiwick.open("memory:") as other:
            source = f"UNLIKE = {UNLIKE!r}\n{SHOWN}" + PROGRAM.format(calls=json.dumps(calls))
            result = await code.run(one, source)
            assert result.ok, result.error
            assert result.value == await made_directly(other, calls)
            assert await snapshot(one) == await snapshot(other)
            assert "internal_error" not in result.value

    asyncio.run(both())
