"""A sandbox, or the reason why there is none."""

import pytest

from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.sandboxes.workshop import Workshop


@pytest.fixture(scope="session")
def bubblewrap():
    sandbox = Bubblewrap()
    for lack in sandbox.missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    return sandbox


@pytest.fixture
def workshop(tmp_path, bubblewrap):
    made = Workshop(tmp_path, bubblewrap)
    yield made
    made.clear()
