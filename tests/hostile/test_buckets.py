"""A mounted bucket whose keys are hostile, or whose service is."""

import pytest

from tests.hostile import buckets

pytestmark = [pytest.mark.hostile, pytest.mark.spec("OVER-2", "PATH-1")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("honest", [True, False])
def test_no_key_leads_out_of_where_it_is_copied(walled_as, honest):
    found = walled_as("user")(buckets.keys, honest)
    assert len(found) == len(buckets.KEYS)


@pytest.mark.parametrize("honest", [True, False])
def test_all_of_them_beside_names_that_are_files_and_directories(walled, honest):
    walled(buckets.all_at_once, honest)


def test_keys_lead_plain_programs_out(walled_as):
    assert walled_as("user")(buckets.keys_control) == ["../escaped", "a/../../escaped", "/escaped"]
