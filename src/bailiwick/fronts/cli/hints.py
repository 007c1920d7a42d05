"""What to do next, for every kind of error: one complete table.

An error that knows better says so itself (`BailiwickError.hint`); this is for those that do not.
"""

from __future__ import annotations

import re

from bailiwick.errors import BailiwickError

_PLACE_LIKE = re.compile(r"(?:sqlite|memory|https?|file|postgres(?:ql)?):").match

NEXT_STEPS: dict[str, str] = {
    "path_outside_workspace": "name a path inside the place, or another place with -p",
    "symlink_escape": "name the file itself instead of the link",
    "hardlink_refused": "copy the file, and use the copy",
    "too_many_links": "look at the links on the way with `bailiwick stat --no-follow`",
    "parse_error": "correct what was typed; --help shows an example",
    "not_a_regular_file": "name a regular file; `bailiwick stat` says what stands there",
    "is_a_directory": "name a file in it (`bailiwick ls` lists them), or use -r where there is one",
    "not_a_directory": "name a directory; `bailiwick stat` says what stands there",
    "path_not_found": "look what there is: `bailiwick ls`, `history`, `snapshot list`, `fork list`",
    "root_not_found": "name a place that exists with -p, or make one: `bailiwick volume create`",
    "file_already_exists": "choose another name, or remove what is there first",
    "directory_not_empty": "remove it with all that lies in it: `bailiwick rm -r`",
    "hash_mismatch": "somebody else changed it: read it again, then repeat the change",
    "lock_held": "wait until whoever holds the lock is done, then try again",
    "file_too_large": "ask for a part of it, or raise the limit of the place",
    "binary_file": "it is not text: `bailiwick cat FILE > copy` gives the bytes",
    "text_not_found": "look at the text with `bailiwick cat`; it must fit exactly",
    "ambiguous_text_match": "give more of the text around it, or replace all with --all",
    "untrusted_workspace": "trust the root first: `bailiwick root trust ROOT`",
    "missing_access": "ask for a grant that holds it: `bailiwick grant add`",
    "policy_denied": "`bailiwick policy explain` says which rule decided",
    "approval_denied": "ask the person who decides, then try again",
    "approval_timeout": "nobody answered: `bailiwick approvals list` shows what waits",
    "grant_expired": "ask for a new grant: `bailiwick grant add`",
    "grant_revoked": "ask for a new grant: `bailiwick grant add`",
    "permission_denied": "check owner and mode of the file, and as whom you run this",
    "read_only": "this place can only be read: change another one, or the newest version",
    "quota_exceeded": "remove what is not needed, or ask for a larger quota",
    "rate_limited": "wait a little, then try again",
    "busy": "try again",
    "io_error": "check disk and connection, then try again",
    "unsupported": "use a place that can do this, such as a volume: -p sqlite:agent.db",
    "closed": "it is shutting down: try again when it is up",
    "internal_error": "this is a fault of Bailiwick: please report it",
    "unauthenticated": "give a token with --token, or in $BAILIWICK_TOKEN",
    "forbidden_origin": "call the server by the address it listens on",
    "route_not_found": "check the address of the server, and its version",
    "method_not_allowed": "check the version of the server",
    "unsupported_media_type": "check the version of the server",
    "range_not_satisfiable": "ask for a part that lies in the file",
}


def next_step(error: BailiwickError) -> str:
    """What to do next: what the error itself says, or what helps with errors of its kind."""
    kind, hint, path = error.kind, error.hint, error.path
    likely = error.details.get("likely_encoding")
    if likely is not None:  # no command takes an encoding
        return f"if it is text: `bailiwick cat FILE | iconv -f {likely} -t utf-8`"
    if hint is None and kind == "path_not_found" and path is not None and _PLACE_LIKE(path):
        return "that looks like a place, not like a path in one: name it with -p"
    return hint or NEXT_STEPS[kind]
