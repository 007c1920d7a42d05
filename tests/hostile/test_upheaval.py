"""The root replaced, openat2 denied, the same done twice at once, closing, privileged bits."""

import errno

import pytest

from tests.hostile import upheaval

pytestmark = pytest.mark.hostile

CONTAINMENTS = pytest.mark.parametrize("containment", ["kernel", "walk"])


@pytest.mark.spec("DISK-1")
@CONTAINMENTS
def test_replaced_root_is_never_followed(walled, containment):
    walled(upheaval.root_replaced, containment)


@pytest.mark.spec("DISK-2")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM], ids=["ENOSYS", "EPERM"])
def test_without_openat2_the_walk_is_chosen(walled, number):
    walled(upheaval.openat2_missing, number)


@pytest.mark.spec("DISK-2")
@pytest.mark.parametrize("containment", ["auto", "require-kernel"])
def test_error_on_a_real_path_does_not_weaken_the_method(walled, containment):
    walled(upheaval.openat2_denied_later, containment)


@pytest.mark.spec("TREE-2")
def test_parallel_make_dirs(walled):
    walled(upheaval.parallel_make_dirs, 60)


@pytest.mark.spec("TREE-2")
def test_parallel_make_dirs_by_processes(walled):
    walled(upheaval.parallel_make_dirs_by_processes, 200)


@pytest.mark.spec("TREE-2")
def test_parallel_removes(walled):
    walled(upheaval.parallel_removes, 20)


@pytest.mark.spec("LIFE-1", "LIFE-2")
@CONTAINMENTS
def test_close_while_in_use(walled, containment):
    walled(upheaval.close_while_in_use, containment, 30)


@pytest.mark.spec("LIFE-1", "WRITE-3")
@CONTAINMENTS
def test_cancelled_anywhere(walled, containment):
    walled(upheaval.cancelled_anywhere, containment)


@pytest.mark.spec("LIFE-2")
@CONTAINMENTS
def test_no_descriptor_is_inherited(walled, containment):
    walled(upheaval.nothing_is_inherited, containment)


@pytest.mark.spec("DISK-5")
@CONTAINMENTS
def test_privileged_bits_are_stripped(walled, containment):
    walled(upheaval.privileged_bits, containment)


@pytest.mark.spec("DISK-9")
@CONTAINMENTS
def test_planted_staging_names(walled, containment):
    walled(upheaval.planted_staging_names, containment)


@pytest.mark.spec("TREE-11")
@CONTAINMENTS
def test_a_filesystem_mounted_inside_is_neither_emptied_nor_carried_off(walled, containment):
    walled(upheaval.mounts_inside, containment)
