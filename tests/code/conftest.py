"""Places to run code in, where there is a sandbox."""

import pytest

import bailiwick
from bailiwick.sandboxes.bubblewrap import Bubblewrap


@pytest.fixture(scope="session")
def sandboxed():
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")


@pytest.fixture
def volume(sandboxed, tmp_path):
    """Opens a volume of its own."""
    return lambda **options: bailiwick.open(f"sqlite:{tmp_path}/v.db?volume=main", **options)


@pytest.fixture
def memory(sandboxed):
    return lambda **options: bailiwick.open("memory:", **options)
