"""A directory in which the agents of frameworks run programs."""

import pytest

from bailiwick.sandboxes.bubblewrap import Bubblewrap


@pytest.fixture
def project(tmp_path):
    """A directory in which programs can be run."""
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    place = tmp_path / "project"
    place.mkdir()
    return place
