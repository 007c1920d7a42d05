"""What bounds a server and everyone who calls it, with the reason for each number."""

from __future__ import annotations

import secrets

import msgspec

from bailiwick.model import KiB, MiB

JSON_BYTES_MAX = 10 * MiB
"""A JSON body: twice what a text write takes, for the escapes in it. More goes by PUT."""

UPLOAD_BYTES_MAX = 50 * MiB
"""What `POST /file/upload` takes, as its clients expect."""

HEADER_BYTES_MAX = 32 * KiB
"""All headers of a request: four times what browsers send at most."""

HEADER_SECONDS_MAX = 10.0
"""From the first byte of a request, or the opening of the connection, to the end of its headers."""

IDLE_SECONDS_MAX = 30.0
"""How long a client may keep a request or an answer waiting without a byte."""

BODY_BYTES_PER_SECOND_MIN = 1 * KiB
"""How fast a body must come on average, after `IDLE_SECONDS_MAX`: slower is a client that only
holds a connection."""

KEEP_ALIVE_SECONDS = 30
"""How long a connection without a request stays open."""

CONNECTIONS_MAX = 1_024
"""Open connections of one process: each costs a descriptor and some buffers. There are fewer where
the process may not have as many descriptors."""

CONNECTIONS_FOR_PEOPLE = 32
"""How many of them are kept for people: whoever looks at the console gets in, and can take back
what an agent was granted, while agents hold all the others."""

REQUESTS_SHARE = 0.5
"""The part of the connections for all that requests of one agent may hold at a time, its streams
and uploads among them: then there is room for another."""

TRIAL_SECONDS_MAX = 2.0
"""From the opening of a connection that is kept for people to the end of its first headers, by
which it is known who comes."""

DESCRIPTORS_OWN = 128
"""Descriptors for what a process has open for itself: the state, roots, listening sockets."""

DESCRIPTORS_SPARE_MIN = 32
"""With fewer left a server is not ready: a single walk of a tree may hold as many."""

DESCRIPTORS_MAX = 65_536
"""How far a server raises its own limit: far above what its connections can use."""

PIPELINED_MAX = 100
"""Requests that wait on a connection for the answer to the one before them, at some 2 KiB each.
Who sends more at once is answered these, and then the connection ends."""

LINGER_SECONDS_MAX = 2.0
LINGER_BYTES_MAX = 4 * MiB
"""What is read and thrown away of a body nobody wants, so that the answer reaches the client
before the connection ends."""

SHUTDOWN_SECONDS_MAX = 3
"""How long work under way is waited for after SIGTERM; closing what is left, and letting go of what
workers had together, takes up to two seconds more."""

SHUTDOWN_STALL_SECONDS_MAX = 0.5
"""After SIGTERM, how long a client may send or take nothing while it is waited for."""

ASK_WAIT_SECONDS = 30.0
"""How long a call waits for a person before it is told to come back (202)."""

EVENT_BEAT_SECONDS = 15.0
"""How often a stream of events says something where nothing happens: proxies end silent ones after
a minute or less."""

EVENT_LOOK_SECONDS = 2.0
"""How often a stream of events looks whether its caller still holds, where nothing happens."""

EVENT_BYTES_TOGETHER = 64 * KiB
"""Events that wait for their stream's turn, and are then sent at once. What is more waits in the
feed."""

EVENTS_RENDERED = 64
"""How many of the newest events are kept as text: streams that keep up are a few behind each other.
One event is a few hundred bytes, or as much as a directory told whole has names."""

EVENT_STREAMS_PER_CALLER_MAX = 32
"""Streams of one subject, of events and of what commands print, by whichever tokens and sessions: a
page has one in every tab, an agent a few. Every worker counts for itself, so each has its part."""

EVENT_STREAMS_MAX = 768
"""All streams of agents together: a quarter of the connections is left for what ends by itself,
and for people, however many agents there are."""

EXECUTIONS_KEPT_MAX = 256
"""Commands of all subjects together that have ended and whose output is kept, the newest: each
holds up to a megabyte of memory, and a descriptor where it printed more."""

SESSION_IDLE_SECONDS_MAX = 3_600.0
"""How long a session stays open in which nothing runs and of which nothing is asked: it holds a
process. What was changed in it stays, and it can be opened again."""

EXEC_INPUT_SECONDS_MAX = 20.0
"""How long a command may take to read what it is handed, before the caller is told how much it has
taken: less than clients and proxies wait for an answer."""

BUDGETS_KEPT = 10_000
"""Subjects whose calls are counted at a time; beyond, those who called nothing in the last minute
are forgotten."""

RAW_READ_BYTES = 256 * KiB
"""Up to this much is read at once and answered whole; more is streamed."""

BATCH_OPERATIONS_MAX = 1_000
"""Operations of one batch: they are one transaction."""

READS_PER_MINUTE = 60_000
CHANGES_PER_MINUTE = 6_000
"""What an agent may do over a network unless told otherwise."""


WHOLE = "bailiwick.whole"
"""Where an application finds, in the scope of a request, the quick way to answer with a result that
is whole: a function of its bytes that says whether it has sent them."""

FOR_PEOPLE = "bailiwick.for_people"
"""Where it finds whether the connection is one of those that are kept for people."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one application is served."""

    root: str | None = None
    allowed_hosts: frozenset[str] | None = None
    read_only: bool = False
    loopback: bool = True
    workers: int = 1
    shared: bool = False
    """Whether other servers answer for the same state: any of them may get the next request."""
    reads_per_minute: int | None = None
    changes_per_minute: int | None = None
    ask_wait_s: float = ASK_WAIT_SECONDS
    secure: bool = False
    """Whether cookies are for TLS only."""

    @property
    def several(self) -> bool:
        """Whether another process may get the next request of a caller."""
        return self.workers > 1 or self.shared

    lock_key: bytes = msgspec.field(default_factory=lambda: secrets.token_bytes(32))
    """What the names of locks, and of grants that workers share, are sealed with: the same for all
    processes of a server."""
