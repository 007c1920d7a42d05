"""Every row of the corpus with every verb, both containments and both identities."""

import pytest

from tests.hostile import corpus

pytestmark = pytest.mark.hostile

CASES = [
    pytest.param(row.number, who, id=f"{row.number}-{who}")
    for row in corpus.ROWS.values()
    for who in row.who
]


@pytest.mark.spec("PATH-1", "PATH-2", "PATH-3", "PATH-4", "PATH-5", "PATH-7")
@pytest.mark.spec("LINK-1", "LINK-2", "LINK-3", "LINK-4", "LINK-5", "LINK-6")
@pytest.mark.spec("DISK-1", "DISK-2", "DISK-9", "READ-7", "TREE-3")
@pytest.mark.parametrize(("number", "who"), CASES)
def test_row(walled_as, number, who):
    assert walled_as(who)(corpus.run_row, number) > 0


@pytest.mark.parametrize(("number", "who"), [case for case in CASES if "bare" not in case.values])
def test_control(walled_as, number, who):
    """Each attack succeeds where there is no boundary, or says why there is nothing to gain."""
    walled_as(who)(corpus.run_control, number)


def test_no_two_rows_have_one_number():
    rows = (*corpus.rows_names.ROWS, *corpus.rows_links.ROWS, *corpus.rows_objects.ROWS)
    assert len(rows) == len(corpus.ROWS)
