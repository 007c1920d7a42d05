"""The verbs of a scope on a server of Bailiwick, over HTTP.

`connect` gives a `RemoteScope`: the same verbs, the same results, the same errors as a `Scope`. It
decides nothing: grants, rules and records are the server's. What it is answered it takes for what
anybody may have written: whatever is no answer of Bailiwick's is an error, and nothing is followed,
unpacked or believed beyond what was asked for.

Not imported by ``import bailiwick``.
"""

from __future__ import annotations

from bailiwick.client.connection import connect, connect_sync
from bailiwick.client.scope import RemoteScope

__all__ = ["RemoteScope", "connect", "connect_sync"]
