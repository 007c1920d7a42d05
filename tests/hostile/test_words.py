"""Link texts, patterns, cursors, search words and numbers that try to be more than they are."""

import pytest

from tests.hostile import words

pytestmark = pytest.mark.hostile

CONTAINMENTS = pytest.mark.parametrize("containment", ["kernel", "walk"])


@pytest.mark.spec("LINK-2", "LINK-6")
@CONTAINMENTS
def test_links_that_callers_make(walled, containment):
    walled(words.made_links, containment)


@pytest.mark.spec("TREE-5", "PATH-1")
@CONTAINMENTS
def test_patterns_and_cursors(walled, containment):
    walled(words.patterns_and_cursors, containment)


@pytest.mark.spec("GREP-3")
@CONTAINMENTS
def test_search_words_are_no_options(walled, containment):
    walled(words.search_words, containment)


@pytest.mark.spec("ERR-5", "READ-1", "TREE-5", "GREP-3")
@CONTAINMENTS
def test_strange_arguments(walled, containment):
    walled(words.strange_arguments, containment)


@pytest.mark.spec("TREE-2")
@CONTAINMENTS
def test_copying_in(walled, containment):
    walled(words.copying_in, containment)
