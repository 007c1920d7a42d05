"""Portals, and signals that raise."""

import asyncio
import signal

import pytest

from bailiwick.portal import Portal
from tests.blocking.steps import Came


@pytest.fixture
def portal():
    portal = Portal()
    portal.run(asyncio.sleep(0))  # by now it runs, and can be borrowed
    yield portal
    portal.close()


@pytest.fixture
def rings():
    """Handlers of two signals, which raise."""

    def ring(number, frame):
        raise Came(number)

    before = {each: signal.signal(each, ring) for each in (signal.SIGUSR1, signal.SIGUSR2)}
    yield ring
    for number, handler in before.items():
        signal.signal(number, handler)
