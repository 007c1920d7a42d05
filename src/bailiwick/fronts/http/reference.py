"""`docs/http.md`: the reference of all routes, made from the table that routes.

`python -m bailiwick.fronts.http.reference` prints it.
"""

from __future__ import annotations

import sys
from typing import Any, get_args, get_type_hints

import msgspec

from bailiwick.fronts.http import settings
from bailiwick.fronts.http.messages.errors import OTHER_STATUSES, STATUS
from bailiwick.fronts.http.openapi import error_statuses
from bailiwick.fronts.http.routes import ROUTES, grants
from bailiwick.fronts.http.table import Route, Who
from bailiwick.limits import Limits
from bailiwick.wire.arguments import NEEDED, Argument
from bailiwick.wire.values import ALIAS

INTRODUCTION = f"""\
# HTTP

`bailiwick serve [ROOT…]` serves directories, volumes (`sqlite:FILE?volume=NAME`) or memory
(`memory:`) on `127.0.0.1:4180`, and a console for the person who watches at `/`. Without a root it
is a workspace of its own in the user's data directory. It prints the address, a token, and a link
that logs a person in once.

```console
$ bailiwick serve ./project
bailiwick serves workspace:project at http://127.0.0.1:4180
  token    bwk_…
  console  http://127.0.0.1:4180/login?link=… (once, within ten minutes)
$ curl -H "Authorization: Bearer $TOKEN" "http://127.0.0.1:4180/file?path=README.md"
```

Options: `--host`, `--port`, `--token`, `--token-file` (or `$BAILIWICK_TOKEN`), `--config`,
`--state`, `--read-only`, `--workers`, `--certfile`, `--keyfile`, `--json`. It refuses to listen
where others can reach it without a token. On SIGTERM it finishes what it has begun, ends streams,
and is gone within five seconds.

In a program: `bailiwick.fronts.http.create_app(authority)` is an ASGI application.

## Who calls

A token belongs to a subject: `Authorization: Bearer TOKEN`. What its bearer may do is what that
subject was granted, under the rules. The token that the server prints is a person's
(`user:local`) and ends with it; one given by `--token` or `--token-file` holds until a start
without it. Agents get theirs by `bailiwick grant token NAME --subject agent_run:…` or by
`[[token]]` in `bailiwick.toml`. An application without any token lets callers from the same
machine read as `user:anonymous`; once a token exists, a call without one is 401, also after the
last one has ended. A token that came by passing on a grant is for that grant alone, whatever
subject it names: it sees the records, questions, grants and locks of that grant and of what was
passed on from it.

The console's session has two halves: a cookie named after the port, and a key that the page gets
in the fragment of its address and shows as `X-Bailiwick-Session`. Only `GET /events` and
`/file/raw` take it as `session` in the query.

A token is looked at before the body is read. The `Host` must be a name of this server, an `Origin`
must be its own. JSON bodies hold at most {settings.JSON_BYTES_MAX // 2**20} MiB, headers
{settings.HEADER_BYTES_MAX // 1024} KiB; headers take at most {settings.HEADER_SECONDS_MAX:g} s,
and a client that stops sending or reading is let go after {settings.IDLE_SECONDS_MAX:g} s. There
are at most {settings.CONNECTIONS_MAX:,} connections for each worker, fewer where it may not open
twice as many descriptors; {settings.CONNECTIONS_FOR_PEOPLE} of them are kept for people, and the
requests of one agent hold at most half of the others. There are at most
{settings.EVENT_STREAMS_PER_CALLER_MAX} streams for one subject, of events and of what commands
print; a stream ends with the token or session it began with. Where others can reach the server, an
agent may read {settings.READS_PER_MINUTE:,} times and change {settings.CHANGES_PER_MINUTE:,} times
a minute; `[server] rates` sets that. A batch counts as many changes as it holds.

All of this counts for a subject, by whichever tokens it calls. What an agent has passed on, to
itself or to others, counts for that agent; what a person passes on counts for whoever got it. A
subject has at most {Limits().temp_roots_max} temporary roots at a time, and an agent at most
{grants.DELEGATED_TOKENS_MAX} tokens by which it passed something on.

## What is the same for all routes

- Routes marked *rooted* are also found under `/roots/{{kind}}/{{id}}/…`; the short form means the
  first root. They take `fork`, the name of a fork to act in, in the query.
- Parameters are strict: integers are digits, booleans `true`, `false`, `1` or `0`; what is
  repeated or unknown is `parse_error`. A body that nobody asked for is refused, and so is one that
  would have to be unpacked (`Content-Encoding`) or is a part of something (`Content-Range`).
- `X-Request-Id` (1 to 128 printable characters) names the request in results, errors, events,
  records and versions, and comes back with the answer. A request without one, or with one that
  cannot be used, gets one of the server's.
- Every answer about one file has an `ETag`: its `version`, in quotes. Where a route takes
  `expectedHash` or `expectedVersion`, it takes `If-Match` instead: an `ETag`, `"sha256:…"`, or `*`
  for whatever stands there. One that does not hold is 412 with `hash_mismatch`, also where nothing
  stands. Where it takes `mode`, `If-None-Match: *` writes only where nothing stands. On any other
  route that changes something both are refused.
- `Idempotency-Key` (1 to 255 printable characters without spaces) on a change: the same key of the
  same caller within a day is answered the same, with `Idempotency-Replayed: true`, and nothing is
  done twice, by whichever worker and across restarts. With another request it is `parse_error`.
  While the first is under way it is `busy`. Where the server ended between doing it and keeping
  the answer, a volume knows whether it was done: the answer is made again, or it is done now; for
  an archive that was done it is `internal_error` with `details.done`. A batch that is not atomic
  goes on after the last of its operations that changed something; of one before it that changed
  nothing, the error says that its answer was lost (`details.done` is false). What governs (grants,
  the end of a token, trust, answers to questions, rules, verdicts) is known again as well, and in
  every root what was decided about a working copy or an overlay. In other roots it is
  `internal_error` with `details.interrupted`: whether it was done is not known. To renew a lock or
  give it back is done again; `held` is then false where the first has given it back. Not kept, so
  that the same key may be used again, is an answer that says that nothing was done: a 202, one that
  is `retryable`, one that says that the caller may not; but `io_error` is kept where nobody can
  know. Grants and rules are asked again before an answer is given again. Keys and answers are
  bounded for each caller (`idempotency_…` of the limits), beyond that it is `quota_exceeded`.
  Refused on `PUT /file/raw`, `POST /file/upload` and `POST /exec/{{id}}/input`, whose bodies are
  streams, on what runs a command, whose answer is one, and on `POST /grants/{{id}}/delegate`, whose
  answer is a secret; nothing on what only reads.
- `Idempotency-Try` beside the key: the number of this try, from 1, of those that may have reached a
  server (one that was refused a connection, or answered 503 with `Retry-After`, does not count).
  Whoever sends it says so when it asks again, so nothing is kept of its first try but what the
  change itself keeps: no bound of keys is used up, `PUT /file/raw` takes it as well, and where it
  cannot help it is no error. With 2 or more, a volume gives the answer that was lost, or does it
  now. What governs, and a batch, is kept as under a key alone. A token (`POST /tokens`, delegating)
  is made anew, and the one whose secret nobody was told ends. In other roots it is the process that
  did it which knows, for its last 1,024 changes; else it is `internal_error` with
  `details.interrupted`, and nothing is done. The Python client does this with every change.
- `Retry-After`, and `details.retryAfterS`, say when to ask again: of a server that is closing, a
  database or object store that was lost, and whoever asks too often.
- `HEAD` is answered wherever `GET` is: the same headers, and no body.
- A call that needs a person's approval waits {settings.ASK_WAIT_SECONDS:g} s, then answers 202
  with `{{"kind": "approval_pending", "approvalId", "expiresAt", "requestId"}}`. The same request
  with `approval` set to that id goes through once it was granted. In an atomic batch only one
  operation may ask. It is the batch that names a lock (`lockToken`), not its operations.
- `GET /events` tells, each by its own name of an event, `change`, `approval` (`kind`: `asked`,
  `answered`, `expired`), `run` (`begun`, `seen`, `ended`) and `review` (`accepted`, `rejected`).
  Pass over names that you do not know. A person hears of every question, of all roots, and of the
  runs and verdicts of the root that is followed; an agent of its own only; the token of one grant
  of what came of that grant. None of them holds content: `GET /approvals/{{id}}` and
  `GET /runs/{{id}}` show more to those who may see it. Only changes have an id, so `Last-Event-ID`
  goes on with changes and leaves none out. Of the others nothing is told again, but for the
  questions that are open: each stream begins with those (`asked`). That a run goes on (`seen`) is
  told every few seconds; servers that share a state in PostgreSQL tell of no runs.
- Commands (`POST /exec`, and of a session) answer line by line (`application/x-ndjson`): first
  `{{"exec": {{"id", …}}}}`, then `{{"seq", "stream", "data"}}` for each piece of output, last
  `{{"result": {{…}}}}`, or `{{"error": {{…}}}}` with an error of the usual shape. `data` is text,
  or base64 where `"encoding": "base64"` says so: what is no UTF-8 by itself. An empty line says
  that nothing happens. A command goes on when its client has gone, and
  `GET /exec/{{id}}?since=SEQ` tells of it from any piece on, for
  {Limits().exec_kept_seconds / 60:g} minutes after its end, of the last {Limits().exec_kept_max} of
  a subject. It ends with its grant, with the token or session that began it, and with the server;
  what it changed is then kept in its working copy. There are at most
  {Limits().exec_per_subject_max} commands and sessions of an agent at a time, and
  {Limits().exec_at_once_max} in all; more is `rate_limited`. A session that nobody uses is closed
  after an hour; what was changed in it stays. Nobody but their subject, and people, sees any of it.
  With several workers there are no commands.
- Who closes their side of a connection has gone: what they asked for may be done, and is not
  answered.
- Every error has one shape: `{{"errorKind", "error", "status", "requestId", "category",
  "retryable"}}`, and where there is something to say `hint`, `path`, `decidedBy` and `details`.
- Every answer has `Cache-Control: no-store` and `X-Content-Type-Options: nosniff`. Bytes of files
  are an attachment, or, asked for with `inline`, a picture or plain text in a sandbox: never a
  page.
"""

_WHO: dict[Who, str] = {
    "anyone": "anyone",
    "reader": "anyone with a token; the anonymous reader",
    "caller": "anyone with a token",
    "person": "a person or the host",
}

_FAMILIES = {
    "files": "Files",
    "tree": "The tree",
    "search": "Searching",
    "archives": "Archives and temporary roots",
    "versions": "Versions",
    "runs": "Runs",
    "commands": "Commands",
    "events": "Events",
    "audit": "The ledger",
    "approvals": "Approvals",
    "governing": "Roots and grants",
    "system": "The server",
}


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for family, title in _FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [_route(route) for route in ROUTES if route.family == family]
    parts.append(_errors())
    return "\n".join(parts)


def _route(route: Route) -> str:
    lines = [f"### {route.method} {route.path}\n", f"{route.about}\n"]
    who: Who = "caller" if route.who == "reader" and route.changes else route.who
    facts = [f"For {_WHO[who]}."]
    if route.rooted:
        facts.append("Rooted.")
    if route.needs:
        facts.append(f"Needs {', '.join(sorted(route.needs))}.")
    lines.append(" ".join(facts) + f" Example: `{route.example}`\n")
    if route.parameters:
        lines += ["| parameter | is | |", "|---|---|---|"]
        lines += [_parameter(each) for each in route.parameters]
        lines.append("")
    if route.body is not None:
        lines.append(f"Body: {_fields(route.body)}\n")
    if route.raw_body:
        lines.append("Body: the bytes themselves.\n")
    answers = ", ".join(map(str, route.statuses)) + (", 202" if route.asks else "")
    if route.result is not None:
        lines.append(f"Answers {answers}: {_fields(route.result)}\n")
    else:
        lines.append(f"Answers {answers}.\n")
    lines.append(f"Errors: {', '.join(map(str, error_statuses(route)))}.\n")
    return "\n".join(lines)


def _parameter(parameter: Argument) -> str:
    kind: str = parameter.kind
    if parameter.choices:
        kind = " · ".join(parameter.choices)
    needed = ", required" if parameter.required else ""
    return f"| `{parameter.shown}` | {kind}{needed} | {parameter.about} |"


def _fields(shape: type[msgspec.Struct]) -> str:
    """The names of a document's fields; what may be left out is marked."""
    config = shape.__struct_config__
    named = [f'`kind: "{config.tag}"`'] if config.tag else []
    for field in msgspec.structs.fields(shape):
        known = _marks(shape, field.name)
        if ALIAS in known:
            continue
        mark = "" if field.required or NEEDED in known else "?"
        named.append(f"`{field.encode_name}{mark}`{_inner(shape, field.name)}")
    return ", ".join(named)


def _marks(shape: type[msgspec.Struct], name: str) -> set[str]:
    """What a field's schema says of it beyond its type."""
    hint: Any = get_type_hints(shape, include_extras=True)[name]
    metas = getattr(hint, "__metadata__", ())
    return {mark for meta in metas for mark in getattr(meta, "extra_json_schema", None) or ()}


def _inner(shape: type[msgspec.Struct], name: str) -> str:
    """The fields of what a list holds, where that is a document of its own."""
    hint: Any = get_type_hints(shape)[name]
    for inner in get_args(hint):
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            fields = msgspec.structs.fields(inner)
            names = (
                f"`{each.encode_name}`" for each in fields if ALIAS not in _marks(inner, each.name)
            )
            return f" ({', '.join(names)})"
    return ""


def _errors() -> str:
    lines = ["## Errors\n", "| kind | status |", "|---|---|"]
    for kind, status in STATUS.items():
        other = "".join(f", {each}" for each in sorted(OTHER_STATUSES.get(kind, ())))
        lines.append(f"| `{kind}` | {status}{other} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
