"""The model that stores are held against is itself right: cases worked out by hand."""

import pytest

from bailiwick.errors import KINDS
from bailiwick.testing.model import DictModel, ModelDirectory, ModelFile, ModelLink, Refused

DIRECTORY = ModelDirectory(0o700)


def planted():
    model = DictModel()
    model.nodes |= {
        ("d",): DIRECTORY,
        ("d", "f"): ModelFile(b"x", 0o600),
        ("to-d",): ModelLink("d"),
        ("to-f",): ModelLink("d/f"),
        ("out",): ModelLink("../d"),
        ("loop",): ModelLink("loop"),
        ("dangling",): ModelLink("nothing"),
        ("top",): ModelLink("/"),
        ("slash",): ModelLink("d/f/"),
    }
    return model


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("d/f", b"x"),
        ("to-d/f", b"x"),
        ("to-f", b"x"),
        ("top/to-d/f", b"x"),
        ("d", "is_a_directory"),
        ("nothing", "path_not_found"),
        ("dangling", "path_not_found"),
        ("out", "symlink_escape"),
        ("out/x", "symlink_escape"),
        ("loop", "too_many_links"),
        ("d/f/x", "not_a_directory"),
        ("to-f/x", "not_a_directory"),
        ("slash", "not_a_directory"),
    ],
)
def test_reading(path, outcome):
    parts = tuple(path.split("/"))
    if isinstance(outcome, bytes):
        assert planted().read(parts) == outcome
    else:
        assert outcome in KINDS
        with pytest.raises(Refused, match=outcome):
            planted().read(parts)


def test_missing_parents_are_made_but_not_through_a_dangling_link():
    model = planted()
    assert model.write(("to-d", "a", "b", "f"), b"y", parents=True)
    assert model.nodes[("d", "a")] == model.nodes[("d", "a", "b")] == DIRECTORY
    for top in ("dangling", "loop", "out", "to-f"):
        with pytest.raises(Refused):
            model.make_dir((top, "a"), parents=True)
    assert not model.make_dir((), parents=True)


def test_a_move_takes_everything_along():
    model = planted()
    assert model.move(("d",), ("e",))
    assert model.read(("e", "f")) == b"x"
    assert ("d", "f") not in model.nodes
    with pytest.raises(Refused, match="parse_error"):
        model.move(("e",), ("e", "x"))
    with pytest.raises(Refused, match="permission_denied"):
        model.move((), ("x",))
    assert not model.move(("e",), ("e",))


def test_stat_tells_the_place_and_lstat_the_entry():
    model = planted()
    assert model.stat(("to-d", "f")) == ("d/f", "file")
    assert model.stat(("top",)) == (".", "directory")
    assert model.lstat(("to-d",)) == "symlink"
    assert model.entries(("to-d",)) == ["f"]
