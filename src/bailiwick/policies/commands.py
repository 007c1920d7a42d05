"""Which commands a rule is about: globs on the name of the program, and on the words.

A glob matches the name of the program, whatever comes after it (``make`` is every use of make), or
all the words as they would be typed into a shell (``git push *``). ``*`` stands for any characters,
``?`` for one, ``[ab]`` for one of these. Words with spaces or signs of a shell are quoted there as
`shlex.join` quotes them: what stands within one word is never taken for two, and text that is given
to a shell is one word of ``sh -c``.

What is in doubt is covered by a rule that refuses or asks, and not by one that allows:

- A glob without a slash in its first word means a program of the system: a bare name, or one in
  ``/usr/bin``, ``/bin`` or ``/usr/local/bin``. ``./git`` and ``/tmp/git`` may be anything that the
  caller wrote, so only a glob that says the path allows them. A rule that refuses ``git`` refuses
  those too, and names that differ in case or accents.
- A rule that allows is not about a command whose caller sets variables: with ``PATH`` or
  ``LD_PRELOAD`` the same words run something else. A rule that refuses is, with and without them.

A rule that refuses is no wall: a program may start another one under any name. What it changes is
judged by itself, whatever it is called.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from fnmatch import translate
from functools import lru_cache

from bailiwick.errors import ParseError
from bailiwick.operations import Command
from bailiwick.paths import folded

_GLOB_CHARACTERS_MAX = 1_000
"""A glob is written by hand; a longer one is a mistake."""


def matches_command(globs: tuple[str, ...], command: Command, *, allows: bool) -> bool:
    """Whether any of the globs of a rule is about a command."""
    if not allows:
        texts = tuple(_spellings(command))
        return any(_compiled(folded(glob)).match(text) for glob in globs for text in texts)
    if command.environment:
        return False
    program, globs_about = command.program, globs
    if program is None:
        program = command.argv[0]
        globs_about = tuple(each for each in globs if "/" in each.split(maxsplit=1)[0])
    # Quoted, like the words: a program whose name holds a space is not the one before it.
    texts = (shlex.quote(program), shlex.join((program, *command.argv[1:])))
    return any(_compiled(glob).match(text) for glob in globs_about for text in texts)


def _spellings(command: Command) -> Iterator[str]:
    """Everything that a glob which refuses may have been meant for."""
    argv = tuple(map(folded, command.argv))
    name = argv[0].rpartition("/")[2]
    yield name
    yield argv[0]
    for words in (argv, (name, *argv[1:])):
        yield shlex.join(words)
        yield " ".join(words)
    yield folded(command.text)


@lru_cache(maxsize=1_024)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def check_command_glob(glob: str) -> None:
    """Refuse what could match no command, or another one than it seems to."""
    if not glob or glob != glob.strip() or not glob.isprintable():
        raise ParseError(
            "a command is printable text, without space around it", hint='such as "git *"'
        )
    if len(glob) > _GLOB_CHARACTERS_MAX:
        raise ParseError(f"a glob has at most {_GLOB_CHARACTERS_MAX} characters")
