"""``exec`` of a ``[[root]]``: what programs that are run in it may use."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from bailiwick.config.tables import Table
from bailiwick.limits import Limits
from bailiwick.operations import Network
from bailiwick.policies.nearness import quoted
from bailiwick.sandbox import SandboxName

_NETWORKS: Final[tuple[Network, ...]] = get_args(Network)
"""Each lets the ones before it be asked for, too."""

_SANDBOXES: Final[tuple[SandboxName, ...]] = get_args(SandboxName)

_LIMITS_OF: Final = {
    "timeout": "exec_seconds_max", "memory": "exec_memory_bytes_max",
    "processes": "exec_processes_max",
}  # fmt: skip
"""The limits of a root that the keys stand for."""

_PROCESSES_MIN, _PROCESSES_MAX = 2, 30_000


def read_exec(
    table: Table, limits: Limits, given: frozenset[str]
) -> tuple[frozenset[Network], SandboxName, Limits]:
    """The networks that commands may ask for, what they are run in, and the limits with those of
    commands among them.
    ``given`` are those that the root sets by name."""
    exec_table = table.table("exec")
    if exec_table is None:
        return frozenset(_NETWORKS[:1]), _SANDBOXES[0], limits
    exec_table.only("network", "timeout", "memory", "processes", "sandbox")
    for key, limit in _LIMITS_OF.items():
        if exec_table.has(key) and limit in given:
            message = f"{quoted(key)} and the limit {quoted(limit)} say the same"
            raise exec_table.error(key, message, "keep one of them")
    sandbox = exec_table.choice("sandbox", _SANDBOXES) or _SANDBOXES[0]
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
    if network == "loopback" and sandbox != "bubblewrap":
        message = f"in the sandbox {quoted(sandbox)} a command has no loopback of its own"
        raise exec_table.error("network", message, 'use "none" or "host"')
    networks = frozenset(_NETWORKS[: _NETWORKS.index(network) + 1])
    if sandbox != "bubblewrap":
        networks -= {"loopback"}
    return networks, sandbox, msgspec.structs.replace(limits, **own)


def _timeout(table: Table) -> float | None:
    seconds = table.duration("timeout")
    if seconds == 0:
        raise table.error("timeout", "a command has more than no time", 'for example "2 min"')
    return seconds
