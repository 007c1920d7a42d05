"""The walk over names and links that stores of nodes share, by itself."""

import pytest

from bailiwick.errors import NotADirectory, PathNotFound, SymlinkEscape, TooManyLinks
from bailiwick.nodes.lookup import NodeNames, beneath, ids_above, is_deeper
from bailiwick.nodes.node import ROOT_ID, Node
from bailiwick.nodes.walk import walk
from bailiwick.paths import REMOVED, ScopedPath


class Tree:
    """Nodes by their paths, which are their ids, too: a directory ends with a slash, a link is
    ``name -> text``."""

    def __init__(self, *rows):
        self.nodes = {ROOT_ID: self.node(ROOT_ID, "", "", "directory")}
        for row in rows:
            place, _, text = row.partition(" -> ")
            kind = "symlink" if text else "directory" if place.endswith("/") else "file"
            above, _, name = place.rstrip("/").rpartition("/")
            self.nodes[place.rstrip("/")] = self.node(
                place.rstrip("/"), above or ROOT_ID, name, kind, text.encode()
            )

    def node(self, node_id, parent, name, kind, data=b""):
        return Node(node_id, parent, name, kind, data, None, 0o644, 0, 0, "1")

    @property
    def root(self):
        return self.nodes[ROOT_ID]

    async def get_node(self, node_id):
        return self.nodes.get(node_id)

    async def find_node(self, directory_id, name):
        found = (each for each in self.nodes.values() if each.parent == directory_id)
        return next((each for each in found if each.name == name), None)

    async def list_nodes(self, directory_id):
        return [each for each in self.nodes.values() if each.parent == directory_id]


def reached(tree, path, *, symlinks="in-root", hops_max=40):
    names = NodeNames(tree)
    return walk(names, tree.root, ScopedPath(path), symlinks=symlinks, hops_max=hops_max)


@pytest.mark.spec("LINK-2")
@pytest.mark.parametrize(
    ("path", "came_to"),
    [
        ("d/e/f", "d/e/f"), ("up/f", "d/e/f"), ("d/e/back/e/f", "d/e/f"),
        ("d/e/top/d/e/f", "d/e/f"), ("d/e/self/f", "d/e/f"), ("d/e/twice/e/f", "d/e/f"), (".", "."),
    ],
)  # fmt: skip
async def test_links_lead_where_their_text_says(path, came_to):
    tree = Tree(
        "d/", "d/e/", "d/e/f", "up -> d/e", "d/e/back -> ..", "d/e/top -> ../..", "d/e/self -> .",
        "d/e/twice -> ../e/..",
    )  # fmt: skip
    found = await reached(tree, path)
    assert (found.path, found.missing) == (came_to, ())


@pytest.mark.spec("LINK-2")
async def test_a_name_that_is_missing_ends_the_walk_only_if_it_was_typed():
    tree = Tree("d/", "d/broken -> none", "d/ok -> ../d")
    found = await reached(tree, "d/ok/new/deeper")
    assert (found.path, found.missing) == ("d", ("new", "deeper"))
    with pytest.raises(PathNotFound, match="a link leads to nothing"):
        await reached(tree, "d/broken")


@pytest.mark.spec("LINK-1")
@pytest.mark.parametrize("text", ["..", "d/../..", "../x"])
async def test_no_link_leads_above_the_root(text):
    with pytest.raises(SymlinkEscape, match="outside this root"):
        await reached(Tree("d/", f"out -> {text}"), "out")


@pytest.mark.spec("LINK-1")
async def test_no_link_is_followed_where_they_are_rejected():
    tree = Tree("d/", "d/f", "up -> d")
    assert (await reached(tree, "d/f", symlinks="reject")).path == "d/f"
    with pytest.raises(SymlinkEscape, match="not followed"):
        await reached(tree, "up/f", symlinks="reject")


@pytest.mark.spec("LINK-3")
async def test_as_many_links_are_followed_as_are_allowed_and_no_more():
    tree = Tree("f", "l1 -> f", "l2 -> l1", "l3 -> l2")
    assert (await reached(tree, "l2", hops_max=2)).path == "f"
    with pytest.raises(TooManyLinks):
        await reached(tree, "l3", hops_max=2)


async def test_nothing_lies_in_a_file():
    tree = Tree("d/", "d/f")
    for path in ("d/f/x", "d/f/x/y"):
        with pytest.raises(NotADirectory):
            await reached(tree, path)


async def test_what_lies_above_and_beneath():
    tree = Tree("d/", "d/e/", "d/e/f", "d/l -> e")
    assert [each.id for each in await beneath(tree, tree.nodes["d"])] == [
        "d", "d/e", "d/l", "d/e/f",
    ]  # fmt: skip
    assert await ids_above(tree, tree.nodes["d/e"]) == ["d/e", "d", ROOT_ID]
    assert await ids_above(tree, tree.root) == [ROOT_ID]
    del tree.nodes["d"]
    assert await ids_above(tree, tree.nodes["d/e"]) == ["d/e", "d"]


@pytest.mark.parametrize(("levels", "deeper"), [(0, True), (1, True), (2, False), (3, False)])
async def test_depth_is_counted_beneath(levels, deeper):
    tree = Tree("d/", "d/e/", "d/e/f", "other/", "other/deep/", "other/deep/er/")
    assert await is_deeper(tree, tree.nodes["d"], levels) is deeper
    assert await is_deeper(tree, tree.nodes["d/e/f"], 0) is False


@pytest.mark.spec("DISK-9", "LINK-2")
@pytest.mark.parametrize("path", ["to", "to/s", "d/to", "d/to/s", "s"])
async def test_no_link_leads_to_what_no_caller_could_name(path):
    tree = Tree(
        f"{REMOVED}/", f"{REMOVED}/s", "d/", f"to -> {REMOVED}", f"d/to -> ../d/../{REMOVED}",
        f"s -> to/../{REMOVED}/s",
    )  # fmt: skip
    assert (await reached(tree, f"{REMOVED}/s")).path == f"{REMOVED}/s"  # ours to name
    with pytest.raises(PathNotFound):
        await reached(tree, path)
