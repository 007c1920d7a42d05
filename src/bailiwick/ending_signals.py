"""The signals by which a process that works for others is told to end in order."""

from __future__ import annotations

import signal


def ending_signals() -> tuple[signal.Signals, ...]:
    """Ctrl-C, SIGTERM, and that the terminal is gone, unless whoever started the process has it
    outlive its terminal, as `nohup` does."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGINT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
