"""Another user of the machine, against the file of a volume and its blobs."""

import pytest

from tests.hostile import foreign_volume, inside

pytestmark = [pytest.mark.hostile, pytest.mark.spec("VOL-3")]

GROWN_KIB_MAX = 64 * 1024


@pytest.mark.parametrize("name", foreign_volume.ROWS)
def test_a_volume_that_another_user_controls_is_refused(walled_as, name):
    result = walled_as("root")(inside.apart, foreign_volume.attack_file, name)
    assert result["control"] == "the attacker's", "the plain call obeys: else nothing is proved"
    assert result.get("kind") == "permission_denied", result
    assert result["hint"] or "plain file" in result["message"]


@pytest.mark.spec("SCALE-2")
@pytest.mark.parametrize("name", foreign_volume.COPY_TARGETS)
def test_a_volume_is_not_copied_to_where_anothers_link_leads(walled_as, name):
    result = walled_as("root")(inside.apart, foreign_volume.attack_copy, name)
    assert result["control"], "the plain call obeys: else nothing is proved"
    assert result["answers"][0] == "permission_denied"
    assert result["answers"][1] in {"permission_denied", "root_not_found"}
    assert result["untouched"]


def test_the_data_directory_is_private_and_refused_once_it_is_not(walled_as):
    result = walled_as("root")(inside.apart, foreign_volume.attack_data_directory)
    assert result["made"] == 0o700
    assert result["before"] == {"read": "the victim's"}
    assert result["after"]["kind"] == "permission_denied"


def test_what_is_nobody_elses_goes_on_working(walled):
    for place, answer in walled(inside.apart, foreign_volume.own_and_shared_places).items():
        assert answer == {"read": "the victim's"}, place


@pytest.mark.parametrize("name", foreign_volume.OBJECTS)
def test_what_stands_in_the_place_of_a_blob_is_never_read(walled_as, name):
    result = walled_as("root")(inside.apart, foreign_volume.attack_object, name)
    expected = {"a pipe": "waits for ever", "a directory": "fails"}.get(name, "gives bytes")
    assert result["control"] == expected
    assert (result["kind"], result["path"], result["lost"]) == ("io_error", "f", ["f"])
    assert result["fine"]
    assert result["secret_is_left"]
    assert result["grown_kib"] < GROWN_KIB_MAX


@pytest.mark.spec("VOL-8")
def test_collecting_takes_away_nothing_but_blobs(walled_as):
    result = walled_as("root")(inside.apart, foreign_volume.attack_collecting)
    assert result["control"], "a walk through the link does not reach the documents"
    assert result["kept_beside"][-2:] == ["left-by-somebody", "report.txt"]
    assert result["kept"]
    assert (result["beside"], result["linked"]) == ("done", "io_error")


def test_a_folder_of_blobs_that_is_another_users_is_refused(walled_as):
    result = walled_as("root")(inside.apart, foreign_volume.attack_folder)
    refused = [result[name] for name in ("theirs", "open", "planted")]
    assert refused == ["permission_denied"] * 3
    assert result["control"]
    assert result["written to theirs"] == []
