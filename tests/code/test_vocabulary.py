"""What `state` has is what a scope has, and what a model is told of it is true."""

import inspect
import re

import pytest

from bailiwick import Scope, code
from bailiwick.code import stubs
from bailiwick.code.conveniences import Conveniences
from bailiwick.code.vocabulary import LEFT_OUT, vocabulary
from bailiwick.operations import EXEC, OPERATIONS
from bailiwick.wire.verbs import VERBS

CONVENIENCES = {
    "search_files", "replace_in_files", "plan_edits", "apply_edits", "summarize_tree", "hash_file",
    "query_json", "update_json",
}  # fmt: skip


@pytest.mark.spec("CODE-1")
def test_every_verb_is_there_or_left_out_for_a_reason():
    """None is lost, and nothing is there that the tables of verbs do not know."""
    known = {verb for each in OPERATIONS.values() for verb in each.verbs}
    named = {each for each in known | set(VERBS) if hasattr(Scope, each)}
    assert named - set(vocabulary()) == (set(LEFT_OUT) | set(EXEC.verbs)) & named
    assert set(vocabulary()) - named == {"change_cursor"}
    assert not {"exec", "session", "delegate", "with_request", "with_caller"} & set(vocabulary())
    assert not [each for each in vocabulary() if each.startswith("_")]


def test_parameters_are_those_of_the_verbs():
    for name, verb in vocabulary().items():
        real = list(inspect.signature(getattr(Scope, name)).parameters.values())[1:]
        told = [(each.name, each.default) for each in verb.parameters]
        assert told == [(each.name, each.default) for each in real if each.name != "limits"]


@pytest.mark.spec("CODE-1")
def test_stubs_are_small_and_name_every_call_with_its_parameters():
    text = stubs.stubs()
    assert len(text.encode()) < 4_000
    told = dict(re.match(r"(\w+)\((.*?)\)(?: ->|$)", line).groups() for line in text.splitlines())
    assert set(told) == set(vocabulary()) | CONVENIENCES
    for name, verb in vocabulary().items():
        said = re.findall(r"(\w+)[?=,]|(\w+)$", told[name])
        names = {first or second for first, second in said} - {""}
        wanted = {each.name for each in verb.parameters}
        assert wanted - names <= stubs.UNSAID
        assert names <= wanted | {"overwrite", "create", "60", "0"}
    assert set(stubs.CONVENIENCES) == CONVENIENCES


@pytest.mark.spec("CODE-1")
async def test_state_has_what_the_stubs_say(memory):
    """Looked at from inside."""
    async with memory() as fs:
        result = await code.run(
            fs,
            "import inspect\n"
            "{name: str(inspect.signature(getattr(state, name))) for name in dir(state)"
            " if not name.startswith('_') and name != 'Edit'}",
        )
        assert result.ok, result.error
        expected = {name: f"({stubs.signature(verb)})" for name, verb in vocabulary().items()}
        inside = {name: text for name, text in result.value.items() if name not in CONVENIENCES}
        assert inside == expected
        for name in CONVENIENCES:
            outside = inspect.signature(getattr(Conveniences, name))
            parameters = list(outside.parameters.values())[1:]
            assert result.value[name] == str(outside.replace(parameters=parameters))


def test_every_error_is_there_with_the_class_of_python():
    from bailiwick import errors

    rows = {name: (kind, bases) for name, kind, bases in stubs.error_table()}
    for name, (kind, bases) in rows.items():
        cls = getattr(errors, name)
        if kind is not None:
            assert cls.kind == kind
            builtin = vars(__import__("builtins"))[bases[1]]
            assert issubclass(cls, builtin)
            assert not any(
                issubclass(cls, each) and issubclass(each, builtin) and each is not builtin
                for each in (FileNotFoundError, PermissionError, IsADirectoryError, ValueError)
            )
    public = [each for each in vars(errors).values() if isinstance(each, type)]
    kinds = {each.kind for each in public if hasattr(each, "kind")}
    assert kinds == {kind for kind, _ in rows.values() if kind}
