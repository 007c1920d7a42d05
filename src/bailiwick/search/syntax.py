"""The syntax of RE2, as far as a pattern has to be looked into before it is used.

Only patterns that RE2 has accepted are cut into tokens here, so that nothing malformed is met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import punctuation

_TOKEN = re.compile(
    r"""
      \\Q (?:(?!\\E).)* (?:\\E)?                               # quoted text, to its end or \E
    | \\ (?: x\{[0-9A-Fa-f]+\} | x[0-9A-Fa-f]{2} | [pP]\{[^}]*\} | [pP]. | [0-7]{1,3} | . )
    | \[ \^? \]? (?: \\. | \[:\^?\w*:\] | [^\\\]] )* \]        # a class; a first ] is a member
    | \(\? (?: P?<\w+> | [imsU-]* : | [imsU-]+ \) )            # a named or marked group, or marks
    | \{ [0-9]+ (?: , [0-9]* )? \} \??                         # a counted repetition
    | [*+?] \??
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(pattern: str) -> Iterator[str]:
    """Cut a pattern that RE2 accepts into its smallest meaningful pieces, in order."""
    return (found.group() for found in _TOKEN.finditer(pattern))


def is_class(token: str) -> bool:
    return token[0] == "[" and len(token) > 1


def is_quotation(token: str) -> bool:
    return token.startswith("\\Q")


def quoted_text(token: str) -> str:
    """What a ``\\Q…\\E`` token stands for."""
    return token[2:].removesuffix("\\E")


def marks_switched_off(token: str) -> str:
    """The marks that a ``(?i-m)`` or ``(?i-m:`` token switches off; empty for other tokens."""
    return token[2:-1].partition("-")[2] if token.startswith("(?") and "<" not in token else ""


def marks_switched_on(token: str) -> str:
    """The marks that such a token switches on."""
    return token[2:-1].partition("-")[0] if token.startswith("(?") and "<" not in token else ""


def required_text(pattern: str) -> str:
    """Text that stands in everything the pattern matches: the longest that is plain to see in it,
    and often none. Where it is missing nothing can match, which is quicker to find out.

    What lies in groups is not looked into. Case must count.
    """
    runs, depth = [""], 0
    for token in tokens(pattern):
        if token == "|" and not depth:
            return ""
        if token.startswith("(?") and token.endswith(")"):
            return ""  # marks for all that follows: case may not count any more
        if token[0] == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        elif not depth and is_repetition(token):
            runs[-1] = runs[-1][:-1]  # what it repeats may be missing
        elif not depth and (text := _text_of(token)) is not None:
            runs[-1] += text
            continue
        runs.append("")
    return max(runs, key=len)


def is_repetition(token: str) -> bool:
    return token[0] in "*+?" or (token[0] == "{" and len(token) > 1)


def _text_of(token: str) -> str | None:
    """The text that a token matches, and nothing else; None where it is not so simple."""
    if is_quotation(token):
        return quoted_text(token)
    if token[0] == "\\":
        return token[1] if token[1] in punctuation else None
    return token if len(token) == 1 and token not in ".^$" else None
