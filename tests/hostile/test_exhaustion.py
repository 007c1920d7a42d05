"""Full disks, spent inodes and descriptors, files that do not hold still, trees without end."""

import pytest

from tests.hostile import exhaustion

pytestmark = pytest.mark.hostile


@pytest.mark.spec("ERR-3", "WRITE-3", "DISK-4")
def test_full_disk_leaves_the_old_content(walled):
    walled(exhaustion.disk_full)


@pytest.mark.spec("ERR-3", "DISK-4")
def test_full_journal_changes_nothing(walled):
    walled(exhaustion.journal_full)


@pytest.mark.spec("ERR-3", "WRITE-3")
def test_no_inode_left(walled):
    walled(exhaustion.inodes_gone)


@pytest.mark.spec("ERR-3", "LIFE-2")
@pytest.mark.parametrize("containment", ["kernel", "walk"])
def test_no_descriptor_left(walled, containment):
    walled(exhaustion.descriptors_gone, containment)


@pytest.mark.spec("READ-7")
def test_growing_file(walled):
    walled(exhaustion.growing_file)


@pytest.mark.spec("READ-6")
def test_file_replaced_while_read(walled):
    walled(exhaustion.replaced_while_read)


@pytest.mark.spec("TREE-1", "TREE-5", "TREE-7")
def test_wide_directory(walled):
    walled(exhaustion.wide_directory)


@pytest.mark.spec("TREE-5", "TREE-7")
def test_deep_tree(walled):
    walled(exhaustion.deep_tree)
