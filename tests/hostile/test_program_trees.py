"""What a program left in its working copy, brought back, is what it would have left in the tree."""

import pytest

from tests.hostile import program_trees


@pytest.mark.hostile
@pytest.mark.spec("EXEC-7", "EXEC-9")
@pytest.mark.parametrize("history", ["off", "on"])
@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_same_with_and_without_a_sandbox(with_sandboxes, seed, history):
    with_sandboxes(program_trees.same, seed, history)


@pytest.mark.hostile
@pytest.mark.spec("EXEC-7", "EXEC-9")
@pytest.mark.parametrize("kind", ["memory", "volume", "overlay"])
@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_same_where_the_tree_is_written_out(with_sandboxes, seed, kind):
    with_sandboxes(program_trees.same_in_a_store, seed, kind)
