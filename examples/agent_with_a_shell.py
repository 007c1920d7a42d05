"""An agent with a shell: Anthropic's bash tool, one session, each command asked about.

Run it: ``python examples/agent_with_a_shell.py``, on Linux with bubblewrap. The client is
Anthropic's own; the service behind it follows a script, so nothing is sent anywhere.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import anthropic
import httpx2

import bailiwick
from bailiwick.fronts.tools.anthropic import BashTool, run_calls, tool_params
from bailiwick.tools import tools


def use(id: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": id, "name": "bash", "input": arguments}]


SCRIPT: list[list[dict[str, Any]]] = [
    use("t1", command="mkdir src && cd src && echo 'x = 1' > a.py"),
    use("t2", command="pwd; sed -i s/1/2/ a.py; cat a.py"),
    use("t3", command="rm -rf ."),
    [{"type": "text", "text": "Done."}],
]


def service(request: httpx2.Request) -> httpx2.Response:
    content = SCRIPT.pop(0)
    answer = {
        "id": "m", "type": "message", "role": "assistant", "model": "scripted",
        "content": content, "stop_sequence": None,
        "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return httpx2.Response(200, json=answer)


async def converse(client: anthropic.AsyncAnthropic, fs: bailiwick.Scope) -> None:
    box = tools(fs, name="code", operations=["run_command"])
    try:
        bash = BashTool(box)
    except bailiwick.MissingAccess:
        print("no commands are run here: `bailiwick doctor` says what is missing")
        return
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    while True:
        message = await client.messages.create(
            model="scripted", max_tokens=1000, messages=messages,
            tools=[*tool_params(box), bash.to_dict()],
        )  # fmt: skip
        done = await run_calls(box, message, bash=bash)
        if message.stop_reason != "tool_use":
            break
        for waiting in done.pending:
            # What a person is shown is what is run. This one wants nothing removed.
            command = waiting.pending.question.command or ""
            allowed = "rm -rf" not in command
            print(f"asked: {command}\nthe person says {'yes' if allowed else 'no'}")
            done.outputs.append(await waiting.resume(allowed=allowed))
        for output in done.outputs:
            print(output["content"])
        messages += [
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": done.outputs},
        ]
    await bash.aclose()


async def work(project: Path, state: Path) -> None:
    transport = httpx2.MockTransport(service)
    client = anthropic.AsyncAnthropic(
        api_key="none", http_client=anthropic.DefaultAsyncHttpxClient(transport=transport)
    )
    async with client, bailiwick.open(project, state_dir=str(state)) as fs:
        await converse(client, fs)
        print([str(path) for path in (await fs.files()).paths])


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        project, state = Path(directory, "project"), Path(directory, "state")
        project.mkdir()
        asyncio.run(work(project, state))


if __name__ == "__main__":
    main()
