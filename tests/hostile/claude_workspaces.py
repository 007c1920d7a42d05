"""What a person agreed to in a session of the Claude Agent SDK, against whoever changes the tree
between their word and the call, and against a session that makes more calls than they agreed to.

The adapter is ours, the SDK is not needed for it: it hands over values and calls functions, which a
stand-in does here. The real package is met by ``make clients``. Every function here runs behind the
wall.
"""

import asyncio
import os
import sys
import types
from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import bailiwick
from bailiwick.tools import tools
from tests.hostile import inside
from tests.hostile.layouts import CANARY, empty

SERVER = "workspace"
NAMES = (
    "ClaudeAgentOptions", "HookMatcher", "McpSdkServerConfig", "McpToolAnnotations",
    "PermissionResultAllow", "PermissionResultDeny", "ToolPermissionContext",
)  # fmt: skip


class SdkTool(NamedTuple):
    """As the SDK keeps a tool."""

    name: str
    description: str
    input_schema: Any
    handler: Any
    annotations: Any


def workspace(box: Any, **options: Any) -> Any:
    """A workspace for a session of the stand-in."""
    sdk: Any = types.ModuleType("claude_agent_sdk")
    for name in NAMES:
        setattr(sdk, name, type(name, (SimpleNamespace,), {}))
    sdk.SdkMcpTool = SdkTool
    sdk.create_sdk_mcp_server = lambda name, tools: {each.name: each for each in tools}
    sys.modules.setdefault("claude_agent_sdk", sdk)
    from bailiwick.fronts.tools.claude_agent import ClaudeWorkspace

    return ClaudeWorkspace(box, name=SERVER, **options)


async def is_allowed(session: Any, name: str, given: dict[str, Any]) -> bool:
    said = await session.can_use_tool(f"mcp__{SERVER}__{name}", given, None)
    return type(said).__name__ == "PermissionResultAllow"


async def called(session: Any, name: str, given: dict[str, Any]) -> str:
    """The answer of a tool, as the model is sent it."""
    answer = await session.server[name].handler(given)
    return str(answer["content"][0]["text"])


READ, WRITE = "workspace__w__read_file", "workspace__w__write_file"
SHOWN = "what the person saw\n"


def _ground() -> tuple[str, str]:
    place = f"{inside.arena()}/claude"
    os.makedirs(place, exist_ok=True)
    empty(place)
    root, outside = f"{place}/root", f"{place}/outside"
    os.makedirs(f"{root}/d")
    os.makedirs(outside)
    for path, text in ((f"{root}/d/.env", SHOWN), (f"{outside}/.env", CANARY)):
        with open(path, "w") as file:
            file.write(text)
    return root, outside


def _link_the_directory(root: str, outside: str) -> None:
    os.rename(f"{root}/d", f"{root}/aside")
    os.symlink(outside, f"{root}/d")


def _link_the_file(root: str, outside: str) -> None:
    os.unlink(f"{root}/d/.env")
    os.symlink(f"{outside}/.env", f"{root}/d/.env")


def _other_content(root: str, outside: str) -> None:
    with open(f"{root}/d/.env", "w") as file:
        file.write("SOMETHING ELSE that nobody was shown\n")


SWAPS = {
    "the directory is a link": _link_the_directory,
    "the file is a link": _link_the_file,
    "the file holds something else": _other_content,
}


def after_the_word(swap: str) -> dict[str, Any]:
    """A person agrees to a change; by the time of the call something else stands there."""

    async def attack() -> dict[str, Any]:
        root, outside = _ground()
        asked: list[str] = []

        async def agrees(pending: Any) -> bool:
            asked.append(pending.prompt)
            SWAPS[swap](root, outside)
            return True

        async with bailiwick.open(root) as fs:
            session = workspace(tools(fs, "w"), ask=agrees)
            given = {"path": "d/.env", "content": "KEY=changed\n"}
            allowed = await is_allowed(session, WRITE, given)
            said = await called(session, WRITE, given)
            seen = await called(session, READ, {"path": "d/.env"})
        with open(f"{outside}/.env") as file:
            kept = file.read()
        with open(f"{root}/d/.env") as file:
            control = file.read()
        return {
            "asked": len(asked), "allowed": allowed, "said": said, "seen": seen,
            "kept": kept == CANARY, "control": control, "names": os.listdir(outside),
        }  # fmt: skip

    return asyncio.run(attack())


def more_calls_than_words(calls: int, words: int) -> dict[str, Any]:
    """One call is made many times at once, and agreed to a few times."""

    async def attack() -> dict[str, Any]:
        root, _ = _ground()

        async def agrees(pending: Any) -> bool:
            await asyncio.sleep(0)
            return True

        async with bailiwick.open(root) as fs:
            session = workspace(tools(fs, "w"), ask=agrees)
            given = {"path": "d/.env"}
            allowed = await asyncio.gather(
                *(is_allowed(session, READ, given) for _ in range(words))
            )
            # Spelled otherwise, or for another file or tool, it is another call.
            others = [
                await called(session, READ, {"path": "d/../d/.env"}),
                await called(session, READ, {"path": "d/.env", "limit": 1}),
                await called(session, "workspace__w__rm", given),
            ]
            said = await asyncio.gather(*(called(session, READ, given) for _ in range(calls)))
        shown = Counter(SHOWN.strip() in each for each in said)
        return {
            "allowed": sum(allowed), "shown": shown[True], "refused": shown[False],
            "others": sum(SHOWN.strip() in each for each in others),
            "is_left": os.path.exists(f"{root}/d/.env"),
        }  # fmt: skip

    return asyncio.run(attack())
