"""Results can be sent as they are: everything in them has a form in JSON."""

import msgspec
import pytest

from bailiwick import Limits, model
from bailiwick.archives import results
from bailiwick.paths import ScopedPath
from bailiwick.search.results import GrepResult
from tests.scope.every_verb import VERBS, plant_tree

NOT_RESULTS = {
    model.Value, Limits, model.Edit, model.Change, model.Entry,
    results.ArchiveResult, results.ExtractResult,
}  # fmt: skip
"""Values that are no result of these verbs, or rows of one."""

PLAIN = {"stream": list, "exists": bool, "readlink": str}


@pytest.mark.spec("PY-1")
async def test_every_result_can_be_encoded(either):
    seen = set()
    for name, verb in VERBS.items():
        async with either() as fs:
            await plant_tree(fs)
            result = await verb.call(fs)
            packed = msgspec.json.encode(result, enc_hook=str)
            assert msgspec.json.decode(packed) is not None
            if name in PLAIN:
                assert type(result) is PLAIN[name]
                continue
            seen.add(type(result))
            back = msgspec.json.decode(packed, type=type(result), dec_hook=_path)
            assert back == result
    made = {value for value in vars(model).values() if _is_value(value)}
    assert seen == (made | {GrepResult}) - NOT_RESULTS


def _is_value(value):
    return isinstance(value, type) and issubclass(value, model.Value)


def _path(kind, value):
    assert kind is ScopedPath
    return ScopedPath(value)
