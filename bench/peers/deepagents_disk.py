"""deepagents' `FilesystemBackend`, in its confined mode, called directly and not through a tool."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bench.peers.peer import Contenders, Peer, there_and_back
from bench.peers.plain import interpreter
from bench.scratch import EDITED, NEEDLE, SMALL
from bench.timing import Contender

if TYPE_CHECKING:
    from deepagents.backends import FilesystemBackend


def _checked(result: Any) -> Any:
    if result.error is not None:
        raise ValueError(result.error)
    return result


class DeepAgents(Peer):
    name = "deepagents"
    remark = "confined by comparing paths, writes are not atomic; grep is literal only"

    async def open(self) -> None:
        from deepagents.backends import FilesystemBackend

        self._disk = FilesystemBackend(root_dir=self.places.memory, virtual_mode=True)
        self._tree = FilesystemBackend(root_dir=self.places.tree, virtual_mode=True)
        self._few = FilesystemBackend(root_dir=self.places.few, virtual_mode=True)

    def version(self) -> str:
        return version("deepagents")

    def read(self) -> Contenders:
        disk = self._disk
        yield Contender(
            "deepagents read",
            lambda: disk.read("/docs/small.txt"),
            answer=lambda got: len(_checked(got).file_data["content"].rstrip("\n")) + 1,
        )

    def write(self) -> Contenders:
        disk, text = self._disk, SMALL.decode()
        yield Contender("deepagents write", lambda: _checked(disk.write("/docs/deep.txt", text)))

    def listing(self) -> Contenders:
        disk = self._disk
        yield Contender(
            "deepagents ls", lambda: disk.ls("/many"), answer=lambda got: len(got.entries), every=5
        )

    def edit(self) -> Contenders:
        (self.places.memory / "docs" / "deep-edit.txt").write_text(EDITED)
        edit = there_and_back(
            lambda old, new: _checked(self._disk.edit("/docs/deep-edit.txt", old, new))
        )
        yield Contender("deepagents edit", edit)

    def grep_few(self) -> Contenders:
        yield self._grep(self._few)

    def grep_literal(self) -> Contenders:
        yield self._grep(self._tree)

    def _grep(self, tree: "FilesystemBackend") -> Contender:
        return Contender(
            "deepagents grep",
            lambda: tree.grep(NEEDLE, "/"),
            answer=lambda got: len(_checked(got).matches),
        )

    def startup(self) -> Contenders:
        yield Contender("import deepagents.backends", interpreter("import deepagents.backends"))
