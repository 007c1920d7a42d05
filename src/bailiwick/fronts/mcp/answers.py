"""A tool's answer as the protocol has it: once for programs, once for the model.

What came out of a file stands in a block of its own, tagged and as it is: escaped into JSON it
would be longer and harder to read. All the rest is JSON beside it.
"""

from __future__ import annotations

from typing import Any

import msgspec

_TEXTS = {
    "read_file": "text", "edit_file": "diff", "diff": "diff", "run_command": "output",
    "run_code": "output",
}  # fmt: skip
"""The field of an answer that is content."""

_encode = msgspec.json.Encoder().encode


def tool_result(operation: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of an operation. One that failed has no structured part: it would not be what the
    tool's schema promises."""
    if answer.get("ok") is False and "errorKind" in answer:
        return {"content": [_text(_encode(answer).decode())], "isError": True}
    field = _TEXTS.get(operation)
    if field is None:
        content = [_text(_encode(answer).decode())]
    else:
        content = [_text(answer[field])]
        rest = {key: value for key, value in answer.items() if key != field}
        if rest:
            content.append(_text(_encode(rest).decode()))
    return {"content": content, "structuredContent": answer, "isError": False}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
