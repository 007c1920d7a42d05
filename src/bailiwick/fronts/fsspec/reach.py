"""Which places URLs may name, and to whom a token is shown.

A URL names the place it wants, as a ``file://`` URL does, and programs take URLs and storage
options from where they find them: a catalog, a column of a table, a model. Whoever runs the program
can say which places there are, once (`places.restrict`); no URL and no storage option gets beyond
that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bailiwick.errors import MissingAccess

TOKEN_VARIABLE = "BAILIWICK_TOKEN"
PLACE_VARIABLE = "BAILIWICK_PLACE"

DEFAULT_SERVER = "http://127.0.0.1:4180"
"""Where a server listens unless it is told otherwise."""


class Named(NamedTuple):
    """A place that a URL names, as it really is: two spellings of one place are the same."""

    protocol: str
    where: str
    more: tuple[str | None, ...] = ()


class Reach:
    """The places that there are for URLs; all, until someone has said otherwise."""

    def __init__(self) -> None:
        self._options: dict[Named, Mapping[str, Any]] | None = None

    def restrict(self, places: Mapping[Named, Mapping[str, Any]]) -> None:
        self._options = dict(places)

    def options_for(self, named: Named, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """How a place is to be opened for a caller who gave these options. Raises `MissingAccess`
        for a place that is not among those there are, and for options that it does not have."""
        if self._options is None:
            return given
        fixed = self._options.get(named)
        if fixed is None:
            raise MissingAccess(
                "this place is not among those that URLs may name here",
                hint="whoever runs this program says which: bailiwick.fronts.fsspec.restrict",
            )
        if any(name not in fixed or fixed[name] != value for name, value in given.items()):
            raise MissingAccess(
                "how this place is opened is not for its caller to say",
                hint="leave the storage options out",
            )
        return fixed


REACH = Reach()
"""Of this process. A URL is looked up by fsspec's own registry, which is of the process too."""


def token_for(address: str) -> str | None:
    """The token of the environment, for the one server that it is for: that of $BAILIWICK_PLACE, or
    the default one. Whoever can make a program open a URL could else have it sent anywhere."""
    token, origin = os.environ.get(TOKEN_VARIABLE), _origin(address)
    return token if token and origin and origin == _origin(tokens_server()) else None


def tokens_server() -> str:
    """The server that the token of the environment is for."""
    place = os.environ.get(PLACE_VARIABLE, "")
    return place if place.startswith(("http://", "https://")) else DEFAULT_SERVER


def _origin(address: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port. A token that goes over TLS is not shown to the same host without."""
    try:
        parts = urlsplit(address)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname, port
