"""A tree as a plain dict, to hold a store against: what each verb should give, or refuse.

Written for plainness and shares no code with any store. It knows no handles, versions, times or
limits; what it says is a result or `Refused`, which carries the error kind.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Parts = tuple[str, ...]


class ModelFile(NamedTuple):
    data: bytes
    mode: int


class ModelDirectory(NamedTuple):
    mode: int


class ModelLink(NamedTuple):
    text: str


ModelNode = ModelFile | ModelDirectory | ModelLink


class Refused(Exception):
    """What the model says must be refused; ``kind`` as in `bailiwick.errors`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class DictModel:
    """Path → file, directory or link. The root is the empty path and always there."""

    def __init__(self, *, hops_max: int = 40) -> None:
        self.nodes: dict[Parts, ModelNode] = {(): ModelDirectory(0o700)}
        self._hops_max = hops_max

    # --- finding -----------------------------------------------------------------------------

    def _follow(self, path: Parts, *, last: bool) -> Parts:
        """The place that ``path`` leads to, which must exist; ``last`` follows a final link too."""
        here: Parts = ()
        todo = list(path)
        hops = 0
        while todo:
            if not isinstance(self.nodes[here], ModelDirectory):
                raise Refused("not_a_directory")
            step = todo.pop(0)
            if step == "..":
                if not here:
                    raise Refused("symlink_escape")
                here = here[:-1]
                continue
            if step == ".":
                continue
            there = (*here, step)
            node = self.nodes.get(there)
            if node is None:
                raise Refused("path_not_found")
            if isinstance(node, ModelLink) and (todo or last):
                hops += 1
                if hops > self._hops_max:
                    raise Refused("too_many_links")
                here = () if node.text.startswith("/") else here
                # An empty last step is a trailing slash: like a dot, it demands a directory.
                todo = [part or "." for part in node.text.split("/")] + todo
                continue
            here = there
        return here

    def _entry(self, path: Parts) -> Parts:
        """Where the name ``path`` belongs: its parent must be a directory, it need not exist."""
        if not path:
            return ()
        parent = self._follow(path[:-1], last=True)
        if not isinstance(self.nodes[parent], ModelDirectory):
            raise Refused("not_a_directory")
        return (*parent, path[-1])

    def _entry_with_parents(self, path: Parts) -> tuple[Parts, list[Parts]]:
        """Where ``path`` belongs, and which of its parents are missing, from the top."""
        for depth in range(1, len(path)):
            place = self._entry(path[:depth])
            if place not in self.nodes:
                missing = [place + path[depth:end] for end in range(depth, len(path))]
                return place + path[depth:], missing
            self._follow(path[:depth], last=True)  # a link to nothing is not a missing parent
        return self._entry(path), []

    def _object(self, path: Parts) -> ModelNode:
        return self.nodes[self._follow(path, last=True)]

    def _existing(self, path: Parts) -> Parts:
        place = self._entry(path)
        if place not in self.nodes:
            raise Refused("path_not_found")
        return place

    def _both(self, path: Parts, to: Parts) -> tuple[Parts, Parts]:
        """Source and destination. Both are looked up before the source is missed."""
        source, place = self._entry(path), self._entry(to)
        if source not in self.nodes:
            raise Refused("path_not_found")
        return source, place

    def _beneath(self, place: Parts) -> list[Parts]:
        return [path for path in self.nodes if path[: len(place)] == place]

    # --- reading -----------------------------------------------------------------------------

    def read(self, path: Parts) -> bytes:
        node = self._object(path)
        if not isinstance(node, ModelFile):
            raise Refused("is_a_directory")
        return node.data

    def entries(self, path: Parts) -> list[str]:
        place = self._follow(path, last=True)
        if not isinstance(self.nodes[place], ModelDirectory):
            raise Refused("not_a_directory")
        return sorted(p[-1] for p in self.nodes if p and p[:-1] == place)

    def readlink(self, path: Parts) -> str:
        node = self.nodes[self._existing(path)]
        if not isinstance(node, ModelLink):
            raise Refused("parse_error")
        return node.text

    def lstat(self, path: Parts) -> str:
        return type_of(self.nodes[self._existing(path)])

    def stat(self, path: Parts) -> tuple[str, str]:
        """The canonical path and the type of what ``path`` leads to."""
        place = self._follow(path, last=True)
        return "/".join(place) or ".", type_of(self.nodes[place])

    # --- content -----------------------------------------------------------------------------

    def write(
        self,
        path: Parts,
        data: bytes,
        *,
        mode: Literal["create", "overwrite", "replace"] = "overwrite",
        parents: bool = False,
        file_mode: int | None = None,
    ) -> bool:
        """Returns whether the file is new."""
        place, missing = self._entry_with_parents(path) if parents else (self._entry(path), [])
        old = self.nodes.get(place)
        if old is not None and mode == "create":
            raise Refused("file_already_exists")
        if old is None and mode == "replace":
            raise Refused("path_not_found")
        if isinstance(old, ModelDirectory):
            raise Refused("is_a_directory")
        if isinstance(old, ModelLink):
            raise Refused("symlink_escape")
        if file_mode is None:
            file_mode = 0o600 if old is None else old.mode
        for parent in missing:
            self.nodes[parent] = ModelDirectory(0o700)
        self.nodes[place] = ModelFile(data, file_mode)
        return old is None

    def append(self, path: Parts, data: bytes) -> bool:
        node = self.nodes.get(self._entry(path))
        return self.write(path, (node.data if isinstance(node, ModelFile) else b"") + data)

    def truncate(self, path: Parts, size: int) -> bool:
        node = self.nodes[self._existing(path)]
        data = node.data if isinstance(node, ModelFile) else b""
        return self.write(path, data[:size] + b"\0" * (size - len(data)))

    # --- names -------------------------------------------------------------------------------

    def make_dir(self, path: Parts, *, parents: bool = False) -> bool:
        place, missing = self._entry_with_parents(path) if parents else (self._entry(path), [])
        old = self.nodes.get(place)
        if parents and isinstance(old, ModelDirectory):
            return False
        if old is not None:
            raise Refused("file_already_exists")
        for directory in (*missing, place):
            self.nodes[directory] = ModelDirectory(0o700)
        return True

    def remove(self, path: Parts, *, recursive: bool = False) -> int:
        place = self._existing(path)
        if not place:
            raise Refused("permission_denied")
        gone = self._beneath(place)
        if len(gone) > 1 and not recursive:
            raise Refused("directory_not_empty")
        for each in gone:
            del self.nodes[each]
        return len(gone)

    def move(self, path: Parts, to: Parts, *, replace: bool = False) -> bool:
        if () in (self._entry(path), self._entry(to)):
            raise Refused("permission_denied")
        source, place = self._both(path, to)
        if source == place:
            return False
        if place[: len(source)] == source:
            raise Refused("parse_error")
        if place in self.nodes:
            self._check_replaceable(source, place, replace=replace)
            del self.nodes[place]
        for each in self._beneath(source):
            self.nodes[place + each[len(source) :]] = self.nodes.pop(each)
        return True

    def _check_replaceable(self, source: Parts, place: Parts, *, replace: bool) -> None:
        if not replace:
            raise Refused("file_already_exists")
        if source[: len(place)] == place:
            raise Refused("directory_not_empty")
        from_directory = isinstance(self.nodes[source], ModelDirectory)
        onto_directory = isinstance(self.nodes[place], ModelDirectory)
        if from_directory and not onto_directory:
            raise Refused("not_a_directory")
        if onto_directory and not from_directory:
            raise Refused("is_a_directory")
        if len(self._beneath(place)) > 1:
            raise Refused("directory_not_empty")

    def copy(self, path: Parts, to: Parts, *, recursive: bool = False) -> int:
        source, place = self._both(path, to)
        if isinstance(self.nodes[source], ModelDirectory):
            if not recursive:
                raise Refused("is_a_directory")
            if len(place) > len(source) and place[: len(source)] == source:
                raise Refused("parse_error")
        if place in self.nodes:
            raise Refused("file_already_exists")
        copied = self._beneath(source)
        for each in copied:
            self.nodes[place + each[len(source) :]] = self.nodes[each]
        return len(copied)

    def symlink(self, path: Parts, text: str) -> None:
        place = self._entry(path)
        if place in self.nodes:
            raise Refused("file_already_exists")
        self.nodes[place] = ModelLink(text)

    def set_mode(self, path: Parts, file_mode: int) -> None:
        place = self._existing(path)
        node = self.nodes[place]
        if isinstance(node, ModelLink):
            raise Refused("symlink_escape")
        self.nodes[place] = node._replace(mode=file_mode)


def type_of(node: ModelNode) -> str:
    if isinstance(node, ModelFile):
        return "file"
    return "directory" if isinstance(node, ModelDirectory) else "symlink"
