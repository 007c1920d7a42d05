"""The conformance suite of the protocol, all of it: what passes, and why the rest does not apply.

Each scenario of the suite stands in exactly one of the lists here. One that a new version of the
suite brings is in none, and fails until somebody has looked at it.
"""

import asyncio
import contextlib
import json
import os

import pytest

from bailiwick.build.governed import Authority
from bailiwick.fronts.mcp import mounting
from bailiwick.fronts.mcp.workspaces import WantedService, open_service
from bailiwick.grant import User
from tests.fronts.mcp.clients import served
from tests.fronts.mcp.conformance import Bridge, Fixtures, plant
from tests.fronts.mcp.npm import installed

AS_SHIPPED = {
    "server-initialize", "ping", "tools-list", "resources-list", "sep-2164-resource-not-found",
    "input-required-result-unsupported-methods",
}  # fmt: skip
"""What the server of files passes as it is shipped, whoever speaks: the SDK, or this package."""

OF_HTTP = {
    "server-sse-multiple-streams", "dns-rebinding-protection", "server-session-lifecycle",
    "http-header-validation",
}  # fmt: skip
"""What the server passes as it is shipped, and is about HTTP alone."""

WITH_FIXTURES = {
    "completion-complete", "tools-call-simple-text", "tools-call-image", "tools-call-audio",
    "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error",
    "tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums", "resources-read-text", "resources-read-binary",
    "resources-templates-read", "resources-subscribe", "resources-unsubscribe",
    "input-required-result-basic-elicitation", "input-required-result-request-state",
    "input-required-result-missing-input-response", "input-required-result-result-type",
    "input-required-result-ignore-extra-params", "input-required-result-validate-input",
}  # fmt: skip
"""What calls tools and reads resources by the suite's own names: passed by the same machinery where
something has those names."""

_LOGGING = "Logging is deprecated and not used"
_PROMPTS = "there are no prompts: what a model should know stands in instructions"
_SAMPLING = "Sampling is deprecated, and files need no model"
_ROOTS = "Roots are deprecated: what is served is said by who starts the server"
_TASKS = "an extension for calls that take long; none does"
_SKILLS = "an extension for skills; files are no skills"

NOT_OFFERED = {
    "logging-set-level": _LOGGING,
    "tools-call-with-logging": _LOGGING,
    "tools-call-with-progress": "no tool takes so long: each is bounded in what it looks at",
    "tools-call-sampling": _SAMPLING,
    "server-sse-polling": "streams cannot be resumed: an answer is one piece, and is not kept",
    "prompts-list": _PROMPTS,
    "prompts-get-simple": _PROMPTS,
    "prompts-get-with-args": _PROMPTS,
    "prompts-get-embedded-resource": _PROMPTS,
    "prompts-get-with-image": _PROMPTS,
    "http-custom-header-server-validation": "no tool has its arguments copied into headers",
    "input-required-result-basic-sampling": _SAMPLING,
    "input-required-result-basic-list-roots": _ROOTS,
    "input-required-result-multiple-input-requests": f"{_SAMPLING}; {_ROOTS}",
    "input-required-result-capability-check": _SAMPLING,
    "input-required-result-multi-round": "a call asks one question",
    "input-required-result-non-tool-request": _PROMPTS,
    "input-required-result-tampered-state": "a state that is not that of the question is asked"
    " about anew, so that there is nothing to gain by it: test_asking",
    "tasks-lifecycle": _TASKS,
    "tasks-capability-negotiation": _TASKS,
    "tasks-wire-fields": _TASKS,
    "tasks-request-state-removal": _TASKS,
    "tasks-mrtr-input": _TASKS,
    "tasks-request-headers": _TASKS,
    "tasks-dispatch-and-envelope": _TASKS,
    "tasks-status-notifications": _TASKS,
    "tasks-required-task-error": _TASKS,
    "tasks-mrtr-composition": _TASKS,
    "sep-2640-skills-directory": _SKILLS,
    "sep-2640-skills-enumeration": _SKILLS,
    "sep-2640-skills-manifest": _SKILLS,
}

_TOOL = "a tool of the suite's own, for what no tool here does"
PARTLY = {
    "caching": {"sep-2549-prompts-list-caching-hints": _PROMPTS},
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": _TOOL,
        "sep-2575-missing-capability-http-400": _TOOL,
        "sep-2575-http-server-no-independent-requests-on-stream": _TOOL,
        "sep-2575-server-no-log-without-loglevel": _LOGGING,
        "sep-2575-server-sends-prompts-list-changed-on-subscription": _PROMPTS,
        "sep-2575-server-sends-tools-list-changed-on-subscription": "the tools do not change",
    },
}
"""What is passed but for these checks."""

VERSIONS = ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module")
def suite():
    modules = installed()
    if isinstance(modules, str):
        pytest.skip(modules)
    package = modules / "@modelcontextprotocol/conformance/dist"
    # It imports a function that only a newer Node has, for a command that is not used here.
    text = (package / "index.js").read_text().replace("globSync as ", "statSync as ", 1)
    # Beside the original, where its imports are found; at once, for others may be reading it.
    file = package / "for-older-node.mjs"
    written = package / f"for-older-node.{os.getpid()}.mjs"
    written.write_text(text)
    return written.replace(file)


async def _node(*arguments):
    process = await asyncio.create_subprocess_exec(
        "node", *map(str, arguments), stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    return out.decode()


async def _verdicts(suite, url, version, folder):
    """What came of each scenario: the checks that were not passed. A warning is not passed."""
    given = ("--suite", "all", "--spec-version", version, "--output-dir", folder)
    out = await _node(suite, "server", "--url", url, *given)
    verdicts = {}
    for file in folder.rglob("checks.json"):
        name = file.parent.name.removeprefix("server-").rpartition("-20")[0]
        verdicts[name] = {
            check["id"]: check.get("errorMessage")
            for check in json.loads(file.read_text())
            if check["status"] not in ("SUCCESS", "INFO", "SKIPPED")
            and check["id"] not in PARTLY.get(name, ())
        }
    assert verdicts, out
    return verdicts


@contextlib.asynccontextmanager
async def _house(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    plant(place)
    async with Authority.open(state_dir=None) as authority:
        await authority.add_root("workspace:w", str(place), trusted=True)
        yield authority


@contextlib.asynccontextmanager
async def _by_sdk(authority, service_type, monkeypatch):
    @contextlib.asynccontextmanager
    async def opened(authority, wanted):
        # The suite has no token, and who has none is not told of changes.
        async with open_service(authority, WantedService(User("local"), "s")) as service:
            yield service_type(service.boxes)

    if service_type is not None:
        monkeypatch.setattr(mounting, "open_service", opened)
    async with served(authority) as url:
        yield url


@contextlib.asynccontextmanager
async def _by_pipes(authority, service_type, monkeypatch):
    async with open_service(authority, WantedService(User("local"), "s")) as service:
        bridge = Bridge(service_type(service.boxes) if service_type else service)
        async with served(authority, mounts={"/mcp": bridge}) as url:
            yield url


@pytest.mark.slow
@pytest.mark.spec("MCP-1")
async def test_every_scenario_of_the_suite_was_looked_at(suite):
    out = await _node(suite, "list", "--server")
    known = {line.split()[1] for line in out.splitlines() if line.startswith("  - ")}
    lists = [AS_SHIPPED, OF_HTTP, WITH_FIXTURES, NOT_OFFERED.keys(), PARTLY.keys()]
    assert set().union(*lists) == known
    assert sum(map(len, lists)) == len(known), "a scenario stands in one list"


@pytest.mark.slow
@pytest.mark.spec("MCP-1", "HTTP-2")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("speaker", "service_type"), [(_by_sdk, None), (_by_sdk, Fixtures), (_by_pipes, Fixtures)]
)
async def test_what_applies_is_passed(tmp_path, monkeypatch, suite, speaker, service_type, version):
    async with (
        _house(tmp_path) as authority,
        speaker(authority, service_type, monkeypatch) as url,
    ):
        verdicts = await _verdicts(suite, f"{url}/mcp", version, tmp_path / "results")
    expected = AS_SHIPPED | ({"caching"} if speaker is _by_pipes else OF_HTTP | PARTLY.keys())
    if service_type is not None:
        expected |= WITH_FIXTURES
    expected &= verdicts.keys()
    assert {name: verdicts[name] for name in expected} == {name: {} for name in expected}
    passed = {name for name, failed in verdicts.items() if not failed}
    assert passed & NOT_OFFERED.keys() == set(), "these pass, and should be listed so"
