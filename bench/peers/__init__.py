"""Everyone who is measured. An adapter says how each operation is done with one library.

An adapter yields no contender for what its library cannot do. Where a library offers several ways
the quickest is taken. Adapters import their library when they are opened, so that one which is not
installed is left out, and said to be.
"""

from bench.peers.agentfs import AgentFs
from bench.peers.bailiwick_disk import BailiwickDisk
from bench.peers.bailiwick_memory import BailiwickMemory
from bench.peers.bailiwick_volume import BailiwickVolume
from bench.peers.deepagents_disk import DeepAgents
from bench.peers.fsspec_local import FsspecLocal
from bench.peers.peer import Peer
from bench.peers.plain import Plain
from bench.peers.pyfilesystem import PyFilesystem
from bench.peers.sqlite_reference import SqliteReference

PEERS: tuple[type[Peer], ...] = (
    Plain,
    BailiwickDisk,
    BailiwickMemory,
    SqliteReference,
    BailiwickVolume,
    FsspecLocal,
    PyFilesystem,
    DeepAgents,
    AgentFs,
)
"""In the order in which they take turns; plain calls are the baseline."""

__all__ = ["PEERS", "Peer"]
