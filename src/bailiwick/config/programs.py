"""``exec`` of a ``[[root]]``: what programs that are run in it may use."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from bailiwick.config.tables import Table
from bailiwick.errors import Unsupported
from bailiwick.model import Limits
from bailiwick.operations import Network
from bailiwick.policies.nearness import quoted

_NETWORKS: Final[tuple[Network, ...]] = get_args(Network)
"""Each lets the ones before it be asked for, too."""

_LIMITS_OF: Final = {
    "timeout": "exec_seconds_max", "memory": "exec_memory_bytes_max",
    "processes": "exec_processes_max",
}  # fmt: skip
"""The limits of a root that the keys stand for."""

_PROCESSES_MIN, _PROCESSES_MAX = 2, 30_000


def read_exec(
    table: Table, limits: Limits, given: frozenset[str]
) -> tuple[frozenset[Network], Limits]:
    """The networks that commands may ask for, and the limits with those of commands among them.
    ``given`` are those that the root sets by name."""
    exec_table = table.table("exec")
    if exec_table is None:
        return frozenset(_NETWORKS[:1]), limits
    exec_table.only("network", "timeout", "memory", "processes", "sandbox")
    for key, limit in _LIMITS_OF.items():
        if exec_table.has(key) and limit in given:
            message = f"{quoted(key)} and the limit {quoted(limit)} say the same"
            raise exec_table.error(key, message, "keep one of them")
    _check_sandbox(exec_table)
    network = exec_table.choice("network", _NETWORKS) or _NETWORKS[0]
    own: dict[str, Any] = {
        "exec_seconds_max": _timeout(exec_table),
        "exec_memory_bytes_max": exec_table.size("memory"),
        "exec_processes_max": exec_table.integer("processes", _PROCESSES_MIN, _PROCESSES_MAX),
    }
    own = {key: value for key, value in own.items() if value is not None}
    if "exec_seconds_max" in own and "session_seconds_max" not in given:
        # Nobody gets round it by a session.
        own["session_seconds_max"] = own["exec_seconds_max"]
    networks = frozenset(_NETWORKS[: _NETWORKS.index(network) + 1])
    return networks, msgspec.structs.replace(limits, **own)


def _timeout(table: Table) -> float | None:
    seconds = table.duration("timeout")
    if seconds == 0:
        raise table.error("timeout", "a command has more than no time", 'for example "2 min"')
    return seconds


def _check_sandbox(table: Table) -> None:
    sandbox = table.choice("sandbox", ("bubblewrap", "landlock", "none"))
    if sandbox not in (None, "bubblewrap"):

        def refuse() -> None:
            raise Unsupported(
                f"commands are not run in the sandbox {quoted(sandbox)}: what they change could not"
                " be kept apart",
                hint='use "bubblewrap", which mounts what is changed over the tree',
            )

        table.checked("sandbox", refuse)
