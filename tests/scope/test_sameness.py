"""Whatever is done through a scope, it comes out the same in memory and on disk."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick import Edit
from tests.scope.support import KINDS, Opener, snapshot

OF_THE_STORE = {
    "version", "mtime_ns", "created_ns", "request_id", "links", "visited", "current_version",
}  # fmt: skip
"""What a store is free to say in its own way."""

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES | st.sampled_from([".", ".."]), min_size=1, max_size=4).map("/".join)
PLAIN = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
PATH = PLAIN | PATHS | PLAIN.map(lambda path: path + "/")
TEXT = st.text("xy\n", max_size=8)
YES = st.booleans()

STEPS = st.one_of(
    st.tuples(
        st.just("write_text"), PATH, TEXT,
        st.fixed_dictionaries({"parents": YES, "mode": st.sampled_from(["create", "overwrite"])}),
    ),
    st.tuples(st.just("write_stream"), PATH, TEXT.map(lambda text: [text.encode()])),
    st.tuples(st.just("append"), PATH, TEXT, st.fixed_dictionaries({"parents": YES})),
    st.tuples(st.just("truncate"), PATH, st.integers(0, 9)),
    st.tuples(st.just("edit"), PATH, st.just([Edit("x", "yy", True)])),
    st.tuples(st.just("make_dir"), PATH, st.fixed_dictionaries({"parents": YES})),
    st.tuples(
        st.just("remove"), PATH, st.fixed_dictionaries({"recursive": YES, "missing_ok": YES})
    ),
    st.tuples(st.just("move"), PATH, PATH, st.fixed_dictionaries({"replace": YES})),
    st.tuples(st.just("copy"), PATH, PATH, st.fixed_dictionaries({"recursive": YES})),
    st.tuples(st.just("symlink"), PLAIN, PLAIN | st.sampled_from([".", "../a", "./b/../c"])),
    st.tuples(st.just("set_mode"), PATH, st.sampled_from([0o600, 0o644, 0o755])),
    st.tuples(st.sampled_from(["stat", "lstat", "exists", "readlink", "read_text"]), PATH),
    st.tuples(st.sampled_from(["list", "find", "files", "read_bytes"]), PATH),
    st.tuples(st.just("glob"), st.sampled_from(["*", "**", "**/a", "?/*"]), PATH),
    st.tuples(st.just("grep"), st.sampled_from(["x", "y$", "^$"]), PATH),
    st.tuples(st.just("diff"), PATH, PATH),
)  # fmt: skip


def _plain(value):
    """A result without what the store says in its own way."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in OF_THE_STORE}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


async def _outcome(fs, step):
    verb, *arguments = step
    options = arguments.pop() if isinstance(arguments[-1], dict) else {}
    try:
        result = await getattr(fs, verb)(*arguments, **options)
    except bailiwick.BailiwickError as refused:
        return refused.kind, refused.errno, _plain(refused.details)
    return _plain(msgspec.to_builtins(result, enc_hook=str))


def _escapes(step):
    """A link that leads out is refused on disk when it is made, in memory when it is followed."""
    return step[0] == "symlink" and step[2].startswith("..") and "/" not in step[1]


@pytest.mark.spec("VOL-12", "TREE-3")
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS.filter(lambda step: not _escapes(step)), min_size=3, max_size=14))
async def test_memory_and_disk_agree_on_any_sequence_of_verbs(tmp_path, steps):
    outcomes = {}
    for kind in KINDS:
        async with Opener(kind, tmp_path)() as fs:
            outcomes[kind] = [await _outcome(fs, step) for step in steps]
            outcomes[kind].append(await snapshot(fs))
    for at, step in enumerate([*steps, "the whole tree"]):
        for kind in KINDS[1:]:
            assert outcomes[kind][at] == outcomes["memory"][at], (kind, step)
