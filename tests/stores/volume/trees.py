"""Looking at whole trees, and the plain model that they are held against."""

from bailiwick.errors import BailiwickError
from bailiwick.testing.driver import StoreDriver


async def tree_of(store):
    """Everything in a store: path → content, text of a link, or None for a directory."""
    fs, found, waiting = StoreDriver(store), {}, ["."]
    while waiting:
        directory = waiting.pop()
        for entry in await fs.entries(directory):
            path = entry.name if directory == "." else f"{directory}/{entry.name}"
            if entry.type == "directory":
                found[path] = None
                waiting.append(path)
            elif entry.type == "symlink":
                found[path] = await fs.readlink(path)
            else:
                found[path] = await fs.read(path)
    return found


async def outcome(call):
    """What a call gave: ``done`` or the kind of its error."""
    try:
        await call
    except BailiwickError as error:
        return error.kind
    return "done"


def beneath(tree, path):
    return [each for each in tree if each == path or each.startswith(f"{path}/")]


def parent_is_there(tree, path):
    parent = path.rpartition("/")[0]
    return not parent or (parent in tree and tree[parent] is None)


class Model:
    """One branch as a dict, and as it was at each of its versions."""

    def __init__(self, tree=None, at=0):
        self.tree = dict(tree or {})
        self.past = [(at, dict(self.tree))]

    def keep(self, version):
        self.past.append((version, dict(self.tree)))

    def at(self, version):
        found = None
        for number, tree in self.past:
            if number <= version:
                found = tree
        return found

    # Each says whether it can be done, and does it.

    def write(self, path, data):
        if not parent_is_there(self.tree, path) or not isinstance(self.tree.get(path, b""), bytes):
            return False
        self.tree[path] = data
        return True

    def append(self, path, data):
        return (
            self.write(path, self.tree.get(path, b"") + data)
            if isinstance(self.tree.get(path, b""), bytes)
            else False
        )

    def make_dir(self, path):
        if not parent_is_there(self.tree, path) or path in self.tree:
            return False
        self.tree[path] = None
        return True

    def symlink(self, path, text):
        if not parent_is_there(self.tree, path) or path in self.tree:
            return False
        self.tree[path] = text
        return True

    def remove(self, path):
        if path not in self.tree:
            return False
        for each in beneath(self.tree, path):
            del self.tree[each]
        return True

    def move(self, path, to):
        if path not in self.tree or not parent_is_there(self.tree, to):
            return False
        if to == path or f"{to}/".startswith(f"{path}/"):
            return False
        if to in self.tree:
            old, new = self.tree[to], self.tree[path]
            if f"{path}/".startswith(f"{to}/"):
                return False
            if (old is None) != (new is None) or (old is None and len(beneath(self.tree, to)) > 1):
                return False
            del self.tree[to]
        for each in beneath(self.tree, path):
            self.tree[to + each[len(path) :]] = self.tree.pop(each)
        return True

    def copy(self, path, to):
        if path not in self.tree or not parent_is_there(self.tree, to) or to in self.tree:
            return False
        if f"{to}/".startswith(f"{path}/"):
            return False
        for each in beneath(self.tree, path):
            self.tree[to + each[len(path) :]] = self.tree[each]
        return True
