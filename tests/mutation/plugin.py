"""A plugin of pytest that tries mutants in the place of its tests; nothing on disk is changed.

Tests are collected once. Then each mutant has a process of its own, forked from there, in which
the functions that differ are given the code of the mutant, and in which tests are run that reach
the changed line, until one fails: where many do, the quickest of each file. What is only computed
while a module is loaded is as the module has it: a change there is not noticed by this.
"""

import gc
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import types
from collections import defaultdict
from pathlib import Path

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.mutants import mutated

VARIABLE = "BAILIWICK_MUTANTS"
"""Names the file with what is to be tried, ``[[module, number, line], …]``, and where what became
of each is written, in that order: ``{"module:number": fate}``."""

UNTIL = "BAILIWICK_MUTANTS_UNTIL"
"""When to stop, in seconds since the epoch: those that were not tried by then have no fate."""

KILLED, SURVIVED, NEVER_RUN, BROKEN = "killed", "survived", "never run", "broken"
TESTS_MAX = 300
"""For one mutant. More of them find little more, and those that survive meet them all."""

PATIENCE = 40
"""How many times what it takes a test may take with a mutant, by the clock, which also counts what
others compute: one that hangs was noticed."""


def pytest_collection_finish():
    """All of `make test` that is quick is tried, with fewer examples of each property."""
    few = hypothesis.settings(hypothesis.settings.get_profile("house"), max_examples=12)
    hypothesis.settings.register_profile("mutation", few)
    hypothesis.settings.load_profile("mutation")


def pytest_runtestloop(session):
    place = Path(os.environ[VARIABLE])
    wanted = json.loads(place.read_text())
    files = {module: sys.modules[module].__file__ for module in {each[0] for each in wanted}}
    reached = told_by_child(_reached, session.items, set(files.values()))
    if not isinstance(reached, dict):
        raise pytest.UsageError(f"the tests fail as they are: {reached}")
    fates = {}
    place.write_text(json.dumps(fates))
    for module, number, line in wanted:
        if time.time() > float(os.environ[UNTIL]):
            break
        numbers = the_quickest(
            session.items, reached["lines"].get(f"{files[module]}:{line}", ()), reached["seconds"]
        )
        chosen = {session.items[each]: reached["seconds"][each] for each in numbers}
        fate = told_by_child(_tried, chosen, module, number) if chosen else NEVER_RUN
        fates[f"{module}:{number}"] = fate or KILLED
        place.write_text(json.dumps(fates))
    return True


def the_quickest(items, numbers, seconds):
    """Some of these tests, the quickest first, those of each file in turns."""
    by_file = defaultdict(list)
    for number in sorted(numbers, key=seconds.__getitem__):
        by_file[items[number].path].append(number)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_file.values()))
    return list(itertools.islice((each for each in turns if each is not None), TESTS_MAX))


def told_by_child(work, *arguments):
    """What ``work`` returns in a process forked from this one; None where that was ended."""
    place = tempfile.mkdtemp(prefix="mutant-")
    told = Path(place) / "told"
    child = os.fork()
    if child == 0:
        try:
            os.environ["TMPDIR"] = tempfile.tempdir = place
            told.write_text(json.dumps(work(*arguments)))
        except Exception as error:
            told.write_text(json.dumps(f"{BROKEN}: {error!r}"))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found = json.loads(told.read_text()) if told.exists() else None
    shutil.rmtree(place, ignore_errors=True)
    return found


def _passes(item, following):
    return not any(each.failed for each in runtestprotocol(item, log=False, nextitem=following))


def _reached(items, files):
    """Which tests reach a line, by ``file:line``; or the name of one that fails as it is."""
    lines, seconds = defaultdict(dict), []

    def entered(frame, event, argument):
        return each_line if frame.f_code.co_filename in files else None

    def each_line(frame, event, argument):
        lines[f"{frame.f_code.co_filename}:{frame.f_lineno}"][now] = None
        return each_line

    threading.settrace(entered)
    for now, item in enumerate(items):
        began = time.process_time()
        sys.settrace(entered)
        passed = _passes(item, items[now + 1] if now + 1 < len(items) else None)
        sys.settrace(None)
        seconds.append(time.process_time() - began)
        if not passed:
            return item.nodeid
    return {"lines": {line: list(tests) for line, tests in lines.items()}, "seconds": seconds}


def _tried(seconds, module, number):
    """Whether one of these tests fails. One that stands still ends the process."""
    put_in_place(module, number)
    items = list(seconds)
    for now, item in enumerate(items):
        signal.alarm(10 + int(PATIENCE * seconds[item]))
        if not _passes(item, items[now + 1] if now + 1 < len(items) else None):
            return KILLED
    return SURVIVED


def put_in_place(module, number):
    """Give each function of a module the code that it has in a mutant."""
    file = sys.modules[module].__file__
    tree = mutated(Path(file).read_text(encoding="utf-8"), number)
    codes = {(each.co_qualname, each.co_firstlineno): each for each in _codes(tree, file)}
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and function.__code__.co_filename == file:
            code = function.__code__
            other = codes.get((code.co_qualname, code.co_firstlineno))
            if other is not None and other != code:
                function.__code__ = other


def _codes(tree, file):
    waiting = [compile(tree, file, "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
