"""The table goes on: what is asked of a command, a session or a working copy that a scope gave,
and of the one that an overlay is.

Rows as those of `bailiwick.wire.verbs`, for what has an id of its own, or needs none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from bailiwick.sandbox import WindowSize
from bailiwick.wire import values
from bailiwick.wire.arguments import (
    APPROVAL,
    COMMAND,
    INTEGER_MAX,
    PATH,
    TERMINAL,
    TOLD,
    Argument,
    Natural,
    PathField,
    a_document,
    a_flag,
    a_number,
    a_text,
)
from bailiwick.wire.verbs import Verb

SIGNALS = (
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM",
    "SIGTERM", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGWINCH",
)  # fmt: skip
"""Signals that a command can be sent, by their names: those that people send to programs."""

_SINCE = a_number("since", "The first piece that is told, by its number: 0 unless told.")
_PATHS = a_document(
    "paths", Annotated[list[PathField], msgspec.Meta(min_length=1, max_length=10_000)] | None
)
_HUNKS = a_document(
    "hunks",
    Annotated[
        dict[str, Annotated[list[Natural], msgspec.Meta(min_length=1, max_length=10_000)]],
        msgspec.Meta(
            min_length=1, max_length=10_000,
            description="Hunks of single files, by their numbers in the difference, from one on.",
        ),
    ]
    | None,
)  # fmt: skip
_SEEN = a_text(
    "seen", "The `version` of the changes that somebody looked at: nothing else is done."
)
_MERGE = a_flag("merge", "Whether what others changed meanwhile is joined line by line.")
_PUBLISH = Argument(name="publish", choices=("atomic", "partial"), default="atomic")

# --- commands ----------------------------------------------------------------------------------

EXECUTIONS: Verb[Any] = Verb(
    "executions", "commands", "GET", "/exec", "executions", values.ExecutionList,
    about="The commands of this subject that run, and those that ended not long ago.",
    example="/exec",
)  # fmt: skip
OUTPUT: Verb[Any] = Verb(
    "output", "commands", "GET", "/exec/{id}", "execOutput", values.ExecLine, (_SINCE,),
    about="What a command has printed from a piece on, what it goes on to print, and its result: "
    "line by line, as often as anybody asks.",
    example="/exec/4f1c?since=12",
)  # fmt: skip
INPUT: Verb[Any] = Verb(
    "write", "commands", "POST", "/exec/{id}/input", "execInput", values.InputTaken,
    (a_flag("end", "Whether nothing more will come."),),
    about="Hand bytes to a command that was begun with stdinPipe.",
    example="/exec/4f1c/input?end=true",
)  # fmt: skip
SIGNAL: Verb[Any] = Verb(
    "send_signal", "commands", "POST", "/exec/{id}/signal", "execSignal", values.WireExecution,
    (a_document("signal", Literal[SIGNALS], required=True),),
    about="Send a signal to a command and what it has started, and to nothing else.",
    example='/exec/4f1c/signal {"signal": "SIGTERM"}', short="signal",
)  # fmt: skip
RESIZE: Verb[Any] = Verb(
    "resize", "commands", "POST", "/exec/{id}/resize", "execResize", values.WireExecution,
    tuple(
        a_document(each.name, each.type, required=True)
        for each in msgspec.structs.fields(WindowSize)
    ),
    about="Its terminal has another size.", example='/exec/4f1c/resize {"rows": 24, "columns": 80}',
    short="resize",
)  # fmt: skip
CLOSE: Verb[Any] = Verb(
    "close", "commands", "DELETE", "/exec/{id}", "execClose", values.ExecutionClosed,
    about="End a command with all it started, bring nothing back, and forget what it printed.",
    example="/exec/4f1c",
)  # fmt: skip

# --- sessions ----------------------------------------------------------------------------------

SESSIONS: Verb[Any] = Verb(
    "sessions", "commands", "GET", "/sessions", "sessions", values.SessionList,
    about="The sessions of this subject that are open.", example="/sessions",
)  # fmt: skip
SESSION_SHOWN: Verb[Any] = Verb(
    "show", "commands", "GET", "/sessions/{id}", "session", values.WireSession,
    about="A session that is open.", example="/sessions/w1f0c2d3e4b",
)  # fmt: skip
SESSION_SET: Verb[Any] = Verb(
    "set", "commands", "POST", "/sessions/{id}", "setSession", values.WireSession,
    (a_document("cwd", PathField | None), a_document("env", dict[str, str] | None)),
    about="Where the commands that come are run, and with which variables.",
    example='/sessions/w1f0c2d3e4b {"cwd": "src"}', short="setSession",
)  # fmt: skip
SESSION_EXEC: Verb[Any] = Verb(
    "exec", "commands", "POST", "/sessions/{id}/exec", "sessionExec", values.ExecLine,
    (APPROVAL, *COMMAND, a_document("cwd", PathField | None), TERMINAL, *TOLD),
    about="Run a program in the working copy of a session. Answers as POST /exec does.",
    example='/sessions/w1f0c2d3e4b/exec {"argv": ["make"]}', short="sessionExec",
)  # fmt: skip
SESSION_CHANGES = Verb(
    "changes", "commands", "GET", "/sessions/{id}/changes", "sessionChanges", values.WORK_CHANGES,
    (APPROVAL,), about="What publishing a session would do to the tree as it stands now.",
    example="/sessions/w1f0c2d3e4b/changes",
)  # fmt: skip
SESSION_DIFF = Verb(
    "difference", "commands", "GET", "/sessions/{id}/diff", "sessionDiff", values.WORK_DIFF,
    (PATH, APPROVAL), about="From what stands in the tree to what stands in a session.",
    example="/sessions/w1f0c2d3e4b/diff?path=a.txt", raises=(409, 413, 422),
)  # fmt: skip
SESSION_PUBLISH = Verb(
    "publish", "commands", "POST", "/sessions/{id}/publish", "publishSession", values.PUBLISHED,
    (APPROVAL, _PUBLISH, _PATHS, _MERGE),
    about="Bring what was changed in a session back into the tree, as one change.",
    example='/sessions/w1f0c2d3e4b/publish {"publish": "partial"}', short="publishSession",
    raises=(422,),
)  # fmt: skip
SESSION_DISCARD: Verb[Any] = Verb(
    "discard", "commands", "POST", "/sessions/{id}/discard", "discardSession",
    values.WorkDiscarded, (APPROVAL, _PATHS),
    about="Give up what was changed in a session, all of it or some paths.",
    example='/sessions/w1f0c2d3e4b/discard {"paths": ["a.txt"]}', short="discardSession",
)  # fmt: skip
SESSION_CLOSE: Verb[Any] = Verb(
    "close", "commands", "DELETE", "/sessions/{id}", "closeSession", values.SessionClosed,
    about="End every command of a session, and keep what was not published.",
    example="/sessions/w1f0c2d3e4b",
)  # fmt: skip

# --- working copies ----------------------------------------------------------------------------

WORK_DIFF = Verb(
    "difference", "commands", "GET", "/work/{id}/diff", "diffWork", values.WORK_DIFF,
    (PATH, APPROVAL), about="From what stands in the tree to what stands in a working copy.",
    example="/work/w1f0c2d3e4b/diff?path=a.txt", raises=(409, 413, 422),
)  # fmt: skip
WORK_APPLY = Verb(
    "publish", "commands", "POST", "/work/{id}/apply", "applyWork", values.PUBLISHED,
    (APPROVAL, _PUBLISH, _PATHS, _MERGE, _HUNKS, _SEEN),
    about="Bring a working copy back into the tree, all of it, some paths or single hunks, as one "
    "change.",
    example='/work/w1f0c2d3e4b/apply {"paths": ["src"]}', short="applyWork", raises=(422,),
)  # fmt: skip
WORK_DISCARD: Verb[Any] = Verb(
    "discard", "commands", "POST", "/work/{id}/discard", "discardWork", values.WorkDiscarded,
    (APPROVAL, _PATHS, _HUNKS, _SEEN),
    about="Give up a working copy, all of it, some paths or single hunks.",
    example="/work/w1f0c2d3e4b/discard {}", short="discardWork",
)  # fmt: skip

# --- overlays ----------------------------------------------------------------------------------

OVERLAY_CHANGES = Verb(
    "changes", "commands", "GET", "/overlay", "overlay", values.WORK_CHANGES, (APPROVAL,),
    about="What was changed in a root that is an overlay, and is not in the tree that it lies "
    "over. GET /diff with a path alone shows one of them.",
    example="/overlay",
)  # fmt: skip
OVERLAY_APPLY = Verb(
    "publish", "commands", "POST", "/overlay/apply", "applyOverlay", values.PUBLISHED,
    (APPROVAL, _PUBLISH, _PATHS, _MERGE.but(default=True), _HUNKS, _SEEN),
    about="Bring what was changed in an overlay into the tree that it lies over: all of it, some "
    "paths or single hunks, as one change. For people.",
    example='/overlay/apply {"paths": ["src"]}', short="applyOverlay", raises=(422,),
)  # fmt: skip
OVERLAY_DISCARD: Verb[Any] = Verb(
    "discard", "commands", "POST", "/overlay/discard", "discardOverlay", values.OverlayDiscarded,
    (APPROVAL, _PATHS, _HUNKS, _SEEN),
    about="Give up what was changed in an overlay, all of it, some paths or single hunks. For "
    "people.",
    example="/overlay/discard {}", short="discardOverlay",
)  # fmt: skip

WITHOUT_END = INTEGER_MAX
"""A piece that no command prints: who asks since it is told the result alone."""
