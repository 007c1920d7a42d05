"""What every command on an authority does: find the configuration, open, act, report, close."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from bailiwick.errors import BailiwickError, InternalError, ParseError, escape_for_display
from bailiwick.fronts.cli import EXIT_FAILED
from bailiwick.fronts.cli.output import print_error
from bailiwick.grant import Subject, User

if TYPE_CHECKING:
    # Loading it takes longer than the help of a command should.
    from bailiwick.build.governed import Authority

_log = logging.getLogger("bailiwick.cli")

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

CONFIG_NAME = "bailiwick.toml"
CONFIG_VARIABLE = "BAILIWICK_CONFIG"

Options = argparse.Namespace


Action = Callable[["Authority", Options], Awaitable[int]]


def at_terminal() -> Subject:
    """Who acts: the person who typed the command."""
    return User("local")


def find_config(given: str | None) -> str | None:
    """The configuration that is meant: the one named, the one here, or that of the environment."""
    if given is not None:
        return given
    if os.path.exists(CONFIG_NAME):
        return CONFIG_NAME
    return os.environ.get(CONFIG_VARIABLE) or None


def say_config(config: str, options: Options) -> None:
    """Say which configuration is used where nobody named it: one that lies here may be anyone's."""
    if options.config is None and not options.json:
        sys.stderr.write(f"using {escape_for_display(os.path.abspath(config))}\n")


def with_authority(options: Options, action: Action, *, looking: bool = False) -> int:
    """Open the authority that the options name, act on it, and close it: that of a configuration,
    else the one that all share who work in a place. Who is only ``looking`` leaves the grants as
    they are."""
    import asyncio

    job = partial(_act, options, action, looking)
    return guarded(lambda: asyncio.run(job()), as_json=options.json)


async def _act(options: Options, action: Action, looking: bool) -> int:
    config = _config_of(options)
    if config is None:
        opening = _authority_of_place(options)
    else:
        say_config(config, options)
        opening = open_authority(config, options.state, looking=looking)
    async with opening as authority:
        return await action(authority, options)


def _config_of(options: Options) -> str | None:
    """The configuration that is meant; of a place that is named, the one that lies there."""
    if options.place is None:
        return find_config(options.config)
    if options.config is not None:
        raise ParseError("a configuration names its places", hint="give --config or -p, not both")
    there = os.path.join(options.place, CONFIG_NAME)
    return there if os.path.isfile(there) else None


def _authority_of_place(options: Options) -> AbstractAsyncContextManager[Authority]:
    from bailiwick.build.served import named_places, open_served, state_for
    from bailiwick.fronts.cli.place import local_place

    places = named_places([local_place(options)])
    state = state_for(places) if options.state is None else options.state
    return open_served(places, None, state, history="on", surface="none", noted=False)


def open_authority(
    config: str, state: str | None, *, looking: bool
) -> AbstractAsyncContextManager[Authority]:
    from bailiwick.build.governed import Authority as Built

    return Built.from_config(config, state_dir=state, synchronise=not looking)


def note_unsynchronised(authority: object) -> None:
    """Say that the grants shown are not those of the configuration, where that is so."""
    if not getattr(authority, "synchronised", True):
        sys.stderr.write(
            "note: the configuration grants something else; that holds from when a program, or"
            " `bailiwick grant add`, opens it\n"
        )


def guarded(job: Callable[[], int], *, as_json: bool) -> int:
    """Run a job; what goes wrong is said on stderr, and is exit code 1."""
    try:
        return job()
    except BailiwickError as error:
        print_error(error, as_json=as_json)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _NO_ROOM:
            raise  # of the output: what a store writes fails with an error of its own
        _log.debug("a command failed", exc_info=error)
        why = f"{type(error).__name__}: {error}"
        print_error(InternalError(why, hint="this is a fault of Bailiwick"), as_json=as_json)
    return EXIT_FAILED
