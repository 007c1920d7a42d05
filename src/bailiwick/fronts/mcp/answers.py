"""A tool's answer as the protocol has it: for the model, and where it has two forms for programs.

What came out of a file stands in a block of its own, tagged and as it is: escaped into JSON it
would be longer and harder to read. Several clients hand the structured part to the model, as JSON;
so the tools that word their answers for it have no such part, unless it was asked for.
"""

from __future__ import annotations

from typing import Any

from bailiwick.toolbox import ToolAnswer, text_of


def tool_result(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of an operation. One that failed has no structured part: it would not be what the
    tool's schema promises."""
    if not isinstance(answer, ToolAnswer):
        return {"content": [_text(text_of(answer))], "isError": True}
    content = [_text(each) for each in answer.texts]
    content += [
        {"type": "image", "data": each.base64, "mimeType": each.mime_type} for each in answer.images
    ]
    result: dict[str, Any] = {"content": content, "isError": False}
    if answer.review:
        result["_meta"] = {"bailiwick/review": answer.review}
    return result if answer.is_worded else {**result, "structuredContent": dict(answer)}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
