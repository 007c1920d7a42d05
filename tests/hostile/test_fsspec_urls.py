"""URLs and paths of fsspec that try to leave their place."""

import pytest

from tests.hostile import fsspec_urls

pytestmark = [pytest.mark.hostile, pytest.mark.spec("FSSPEC-1", "PATH-3", "LINK-2")]


@pytest.mark.parametrize("way", ["scope", "place", "dirfs"])
def test_no_spelling_of_a_path_leaves_its_filesystem(walled_as, way):
    assert walled_as("root")(fsspec_urls.paths, way) > 1_000


def test_no_spelling_of_a_url_leaves_the_place_it_names(walled_as):
    result = walled_as("root")(fsspec_urls.urls)
    assert result["tries"] > 300
    assert "../outside/secret" in result["control"], "the host's own filesystem must hand it out"


def test_a_volume_that_is_not_there_is_not_made_by_naming_it(walled_as):
    walled_as("root")(fsspec_urls.volumes)
