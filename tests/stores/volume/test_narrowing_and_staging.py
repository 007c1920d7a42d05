"""What every store is held to when it is narrowed or staged into, on volumes."""

import contextlib

import pytest

from tests.stores.test_narrowing import (  # noqa: F401
    test_a_view_of_a_view,
    test_appends_of_both_lose_nothing,
    test_closing_a_view_closes_the_view_alone,
    test_closing_the_store_closes_its_views,
    test_closing_waits_for_work_of_a_view,
    test_it_is_the_same_tree,
    test_links_are_followed_in_one_view_and_not_in_the_other,
    test_never_looser,
)
from tests.stores.test_staged_trees import (  # noqa: F401
    test_a_closed_store,
    test_a_file_that_is_too_large,
    test_a_merge_that_fails_undoes_all_of_it,
    test_a_name_that_is_taken_meanwhile,
    test_a_place_that_will_not_do,
    test_content_without_a_file,
    test_directories_that_shut_themselves,
    test_links_where_none_are_made,
    test_merging,
    test_nothing_is_made_twice_or_through_something_else,
    test_nothing_is_seen_before_it_is_published,
    test_what_is_discarded_never_was,
)
from tests.stores.volume.volumes import make_volume

pytestmark = [pytest.mark.spec("VOL-12"), pytest.mark.both_engines]


@pytest.fixture
def make(tmp_path):
    return make_volume(tmp_path)


@pytest.fixture
def opened(make):
    """``async with opened() as fs``: a fresh tree."""

    @contextlib.asynccontextmanager
    async def open_tree(**options):
        fs = await make(**options)
        async with contextlib.aclosing(fs):
            yield fs

    return open_tree
