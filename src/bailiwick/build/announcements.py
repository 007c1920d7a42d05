"""Who else is told of questions that are put from this process, as the configuration says."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import Final

from bailiwick.approvals import Approval
from bailiwick.build.configured import ConfigSource, below
from bailiwick.config.values import NotifyConfig
from bailiwick.finishing import in_thread
from bailiwick.notifiers.desktop import Desktop, lies_in
from bailiwick.notifiers.outbox import Outbox
from bailiwick.notifiers.webhook import Webhook, read_address, read_secret
from bailiwick.state.approvals.desk import ApprovalDesk

_log = logging.getLogger("bailiwick.notifiers")


WAITING_MAX: Final = 100
"""Questions that wait to be told elsewhere: as many as one subject may have open."""


class Announcements:
    """All ways in which people elsewhere are told. Each has a queue of its own: one that stalls
    holds up no other."""

    def __init__(self, outboxes: Iterable[Outbox]) -> None:
        self._outboxes = tuple(outboxes)

    def announce(self, approval: Approval) -> None:
        for each in self._outboxes:
            each.put(approval)

    async def aclose(self) -> None:
        for each in self._outboxes:
            await each.aclose()


async def open_announcements(
    source: ConfigSource,
    desk: ApprovalDesk,
    *,
    directories: list[str],
    time_ns: Callable[[], int],
) -> Announcements:
    """Have the desk announce what is put from here. ``directories`` are those of roots, now and
    later. Raises `ParseError`, `IoError` and `PermissionDenied` for a webhook that cannot be."""
    notify, most = source.config.notify, WAITING_MAX
    outboxes: list[Outbox] = []
    if notify.url is not None and notify.secret_file is not None:
        address, file = read_address(notify.url), below(source.base, notify.secret_file)
        secret = await in_thread(_secret_blocking, file, directories)
        webhook = Webhook(address, secret, time_ns=time_ns)
        outboxes.append(Outbox(webhook, name="webhook", most=most))
    # Where a front asks its own person there and nowhere else, that person is there.
    if desk.interactive("") if notify.desktop is None else notify.desktop:
        outboxes.append(Outbox(Desktop(directories), name="desktop", most=most))
    announcements = Announcements(outboxes)
    desk.announce = announcements.announce
    return announcements


def check_webhook_blocking(notify: NotifyConfig, base: str) -> None:
    """Whether a process that begins with this could tell a webhook. Raises what it would raise."""
    if notify.url is not None and notify.secret_file is not None:
        read_address(notify.url)
        read_secret(below(base, notify.secret_file))


def _secret_blocking(file: str, directories: list[str]) -> bytes:
    secret, real = read_secret(file), os.path.realpath(file)
    if any(lies_in(real, os.path.realpath(each)) for each in directories):
        _log.warning("the secret of the webhook lies in a root, where agents may read it")
    return secret
