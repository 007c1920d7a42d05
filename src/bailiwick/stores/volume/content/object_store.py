"""Blobs in an object store: S3, Google Cloud Storage, Azure, or what speaks like one of them.

A blob is one object, put whole, under a key that nobody has used. Requests are made on threads of
their own, a few at a time, each with a limit in time and in tries: a store that does not answer
holds up nobody but those who wait for it. What goes wrong is an `IoError` that says what to look
at. Nothing here ever shows a secret.
"""

from __future__ import annotations

import errno as _errno
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from bailiwick.errors import IoError, ParseError, Unsupported
from bailiwick.model import MiB
from bailiwick.stores.volume.content.blobs import Blob, Blobs, FolderBlobs, check_key
from bailiwick.stores.volume.content.compression import Buffer
from bailiwick.stores.volume.threads import RestingPool

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_REQUESTS_MAX: Final = 8
"""Requests at once. With chunks of 4 MiB that fills a link of 1 Gbit/s at 250 ms each."""

_TIMEOUT_S: Final = 30.0
"""For one request: 4 MiB at 140 KB/s."""

_RETRIES: Final = 3

_CONNECT_S_MAX: Final = 5.0

_ANSWER_S: Final = 2.0
"""For the question whether it is there: who asks is to know within five seconds, and a store that
takes longer for an empty answer is of no use to anybody who waits for a file."""

_NO_BLOB: Final = "no-such-blob"
"""What is asked for then. No key of a blob looks like it."""

_LISTED_AT_ONCE: Final = 1_000
"""What the services give in one answer."""

_PART_BYTES: Final = 1 * MiB
"""What the library gathers of an answer before it is copied to where it belongs."""

_MACHINE: Final = "machine"


class _Kind(NamedTuple):
    """What is particular to one service."""

    cls: str
    place: str
    settings: Mapping[str, str]
    """Settings of the address, and what they are called there."""
    credentials: tuple[str, ...]
    """Variables of which one must be set, unless the machine itself has credentials."""


_KINDS: Final = {
    "s3": _Kind(
        "S3Store",
        "bucket",
        {
            "endpoint": "endpoint",
            "region": "region",
            "virtual_hosted_style": "virtual_hosted_style_request",
        },
        (
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_SKIP_SIGNATURE",
        ),
    ),
    "gs": _Kind(
        "GCSStore",
        "bucket",
        {"endpoint": "base_url"},
        (
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_SERVICE_ACCOUNT",
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            "GOOGLE_BEARER_TOKEN",
        ),
    ),
    "az": _Kind(
        "AzureStore",
        "container",
        {"endpoint": "endpoint", "account": "account_name"},
        (
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_KEY",
            "AZURE_STORAGE_TOKEN",
            "AZURE_STORAGE_CLIENT_SECRET",
            "AZURE_FEDERATED_TOKEN_FILE",
            "AZURE_SKIP_SIGNATURE",
        ),
    ),
}

_COMMON_SETTINGS: Final = ("allow_http", "credentials", "retries", "timeout")


def open_blobs(url: str) -> Blobs:
    """The place that ``url`` names: ``s3://bucket/prefix``, ``gs://…``, ``az://container/…``, or
    ``folder:/some/where``.

    Settings follow a question mark: ``endpoint``, ``region`` (S3), ``account`` (Azure),
    ``allow_http=true``, ``timeout`` in seconds, ``retries``. Credentials come from the variables
    that the service's own tools read, never from the address; ``credentials=machine`` asks for
    those of the machine this runs on. Nothing is sent before the place is used.

    Raises `ParseError`, and `Unsupported` without the package.
    """
    address = _address(url)
    return _open_folder(url) if address is None else ObjectBlobs(*address)


class _Address(NamedTuple):
    """How to get to a place, what it is called, and what such a place is."""

    connect: Callable[[], ObjectStore]
    description: str
    place: str


def _address(url: str) -> _Address | None:
    """What a text says; None where it is no address of a service."""
    try:
        parts = urlsplit(url)
        is_plain = parts.port is None and not parts.username and not parts.password
    except ValueError:
        raise ParseError("the address of a blob store is damaged") from None
    kind = _KINDS.get(parts.scheme)
    if kind is None:
        return None
    if not is_plain or not parts.hostname or parts.fragment:
        raise ParseError(
            f"the address of a blob store is {parts.scheme}://{kind.place}/prefix",
            hint="credentials are set in the environment, an endpoint with ?endpoint=",
        )
    prefix = unquote(parts.path).strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise ParseError("the prefix of a blob store is plain names with slashes between them")
    settings = _settings(parts.scheme, kind, parts.query)
    connect = partial(_connect, parts.scheme, kind, parts.netloc, prefix, settings)
    where = f"{parts.scheme}://{parts.netloc}/{prefix}"
    endpoint = settings.get("endpoint")
    return _Address(connect, f"{where} at {endpoint}" if endpoint else where, kind.place)


def _open_folder(url: str) -> Blobs:
    if url.startswith("folder:/"):
        return FolderBlobs(url.removeprefix("folder:"))
    raise ParseError(
        "blobs are kept in a folder or an object store",
        hint="folder:/some/where, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix",
    )


def _settings(scheme: str, kind: _Kind, query: str) -> dict[str, str]:
    known = sorted([*kind.settings, *_COMMON_SETTINGS])
    found: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ParseError("the settings of a blob store are name=value") from None
    for name, value in pairs:
        if name not in known:
            hint = f"known are {', '.join(known)}; credentials are set in the environment"
            raise ParseError(f"{scheme} blobs have no setting {name!r}", hint=hint)
        if name in found or not value:
            raise ParseError(f"the setting {name!r} is given once, with a value")
        found[name] = value
    if "endpoint" in found:
        _check_endpoint(found["endpoint"])
    return found


def _check_endpoint(endpoint: str) -> None:
    """Refuse an endpoint that holds more than where the server is: it is shown in errors."""
    try:
        parts = urlsplit(endpoint)
        is_plain = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        is_plain = is_plain and parts.scheme in ("http", "https")
    except ValueError:
        is_plain = False
    if not is_plain or any(mark in endpoint for mark in "@?#"):
        raise ParseError(
            "an endpoint is http:// or https://, a host, and where it must be a port and a path",
            hint="credentials are set in the environment",
        )


def _connect(
    scheme: str, kind: _Kind, place: str, prefix: str, settings: dict[str, str], **instead: str
) -> ObjectStore:
    settings = settings | instead
    timeout_s = _number(settings, "timeout", _TIMEOUT_S, 0.1, 600.0)
    retries = int(_number(settings, "retries", _RETRIES, 0, 10))
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=timeout_s),
        "connect_timeout": timedelta(seconds=min(timeout_s, _CONNECT_S_MAX)),
    }
    if "allow_http" in settings:
        client["allow_http"] = _truth(settings, "allow_http")
    config = {kind.settings[name]: settings[name] for name in kind.settings if name in settings}
    if "virtual_hosted_style" in settings:
        config["virtual_hosted_style_request"] = str(_truth(settings, "virtual_hosted_style"))
    _check_credentials(scheme, kind, settings.get("credentials"))
    try:
        from obstore import exceptions, store
    except ImportError:
        hint = "pip install 'bailiwick[objects]'"
        raise Unsupported(f"{scheme} blobs need one more package", hint=hint) from None
    retry = {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=timeout_s),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=2),
            "base": 2,
        },
    }
    try:
        opened: ObjectStore = getattr(store, kind.cls)(
            place, prefix=prefix or None, config=config, client_options=client, retry_config=retry
        )
    except (exceptions.BaseError, ValueError, OSError) as error:
        # The text may quote what is set in the environment, so it is not passed on.
        message = f"the settings of {scheme} blobs do not fit together"
        raise ParseError(message, hint="look at the address and the environment") from error
    return opened


def _number(
    settings: dict[str, str], name: str, default: float, least: float, most: float
) -> float:
    try:
        value = float(settings.get(name, default))
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise ParseError(f"the setting {name!r} is a number from {least:g} to {most:g}")
    return value


def _truth(settings: dict[str, str], name: str) -> bool:
    if settings[name] not in ("true", "false"):
        raise ParseError(f"the setting {name!r} is true or false")
    return settings[name] == "true"


def _check_credentials(scheme: str, kind: _Kind, source: str | None) -> None:
    """Without credentials the library would go and ask the network for some, for a long time."""
    if source == _MACHINE:
        return
    if source is not None:
        raise ParseError("credentials come from the environment, or from the machine")
    if not any(os.environ.get(name) for name in kind.credentials):
        raise ParseError(
            f"there are no credentials for {scheme} blobs",
            hint=f"set {kind.credentials[0]} and what goes with it, or say credentials=machine",
        )


class ObjectBlobs:
    """Blobs as objects of a bucket, beneath a prefix."""

    def __init__(
        self, connect: Callable[..., ObjectStore], description: str, place: str = "bucket"
    ) -> None:
        self._connect = connect
        self._description = description
        self._place = place
        self._lock = threading.Lock()
        self._threads = RestingPool(_REQUESTS_MAX, "bailiwick-objects")
        self._store: ObjectStore | None = connect()  # what does not fit together is said at once
        self._asked: ObjectStore | None = None

    @property
    def description(self) -> str:
        return self._description

    @property
    def store(self) -> ObjectStore:
        """The library's own view of the place."""
        with self._lock:
            if self._store is None:
                self._store = self._connect()
            return self._store

    @property
    def threads(self) -> Executor:
        return self._threads

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        import obstore

        check_key(key)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        try:
            with suppress(obstore.exceptions.NotSupportedError):
                obstore.put(self.store, key, data, mode="create", use_multipart=False)
                return
            # A store without conditions: the key is new all the same.
            obstore.put(self.store, key, data, use_multipart=False)
        except obstore.exceptions.AlreadyExistsError:
            # Nobody else has this key: the answer to an earlier try was lost.
            if self._size(key) != len(data):
                raise IoError("another blob has the key of this one") from None
        except failures() as error:
            raise self.explained(error) from error

    def _size(self, key: str) -> int:
        import obstore

        try:
            return obstore.head(self.store, key)["size"]
        except failures() as error:
            raise self.explained(error) from error

    def fetch(self, key: str, into: memoryview) -> int:
        import obstore

        check_key(key)
        try:
            found = obstore.get(self.store, key)
            if found.meta["size"] > len(into):
                return found.meta["size"]
            done = 0
            for part in found.stream(min_chunk_size=_PART_BYTES):
                view = memoryview(part)
                into[done : done + len(view)] = view
                done += len(view)
        except failures() as error:
            if is_missing(error):
                return 0
            raise self.explained(error) from error
        return done

    def delete(self, key: str) -> None:
        import obstore

        check_key(key)
        try:
            obstore.delete(self.store, key)
        except failures() as error:
            if not is_missing(error):
                raise self.explained(error) from error

    def all(self, prefix: str) -> Iterator[Blob]:
        import obstore

        check_key(prefix)
        try:
            for page in obstore.list(self.store, f"{prefix}/", chunk_size=_LISTED_AT_ONCE):
                for found in page:
                    mtime_ns = int(found["last_modified"].timestamp() * 1_000_000_000)
                    yield Blob(found["path"], found["size"], mtime_ns)
        except failures() as error:
            raise self.explained(error) from error

    def answer(self) -> None:
        import obstore

        with self._lock:
            if self._asked is None:
                # With connections of its own: the others may be waiting for an answer.
                self._asked = self._connect(timeout=str(_ANSWER_S), retries="0")
            asked = self._asked
        try:
            obstore.get(asked, _NO_BLOB)
        except failures() as error:
            if not is_missing(error):
                raise self.explained(error) from error

    def close(self) -> None:
        self._threads.rest()
        with self._lock:
            self._store = self._asked = None  # and with them the connections

    def explained(self, error: Exception) -> IoError:
        """What went wrong, in our words: the library's text holds addresses and whole answers."""
        from obstore import exceptions

        text, where = str(error), self._description
        status = _STATUS(text)
        refused = exceptions.PermissionDeniedError | exceptions.UnauthenticatedError
        if isinstance(error, refused) or (status and status[1] in ("401", "403")):
            return IoError(
                "the object store refused the credentials",
                errno=_errno.EACCES,
                hint=f"check those in the environment, and what they may do in {where}",
            )
        if isinstance(error, exceptions.InvalidPathError):
            return IoError(
                "what lies here cannot be listed: the key of an object is no path",
                errno=_errno.EILSEQ,
                hint="read the others by their names, or give that object another key: one without"
                f" empty names, dots and control characters, in {where}",
            )
        if _NO_PLACE(text):
            return IoError(
                f"there is no such {self._place} in the object store",
                errno=_errno.ENOENT,
                hint=f"make it first: {where}",
            )
        if "kind: Timeout" in text:
            hint = f"nothing came from {where}: try again"
            return IoError(
                "the object store gave no answer in time", errno=_errno.ETIMEDOUT, hint=hint,
                details={"retry_after_s": _BACK_SECONDS},
            )  # fmt: skip
        if "kind: Connect" in text:
            hint = f"is it running? {where}"
            return IoError(
                "the object store is not reachable", errno=_errno.ECONNREFUSED, hint=hint,
                details={"retry_after_s": _BACK_SECONDS},
            )  # fmt: skip
        if "BadScheme" in text:
            hint = "say allow_http=true for an endpoint without TLS"
            return IoError("the object store is not spoken to without TLS", hint=hint)
        answer = f" ({status[1]})" if status else ""
        return IoError(f"the object store failed{answer}", hint=f"try again: {where}")


_BACK_SECONDS: Final = 1.0
"""When to ask again for an object store that is started anew."""

_NO_PLACE: Final = re.compile(
    "NoSuchBucket|ContainerNotFound|The specified (bucket|container) does not exist"
).search
_STATUS: Final = re.compile(r"status code: (\d{3})").search


def failures() -> tuple[type[Exception], ...]:
    """What the library raises."""
    from obstore import exceptions

    return (exceptions.BaseError, OSError)


def is_missing(error: Exception) -> bool:
    """Whether there is no such object, in a place that is there."""
    from obstore import exceptions

    is_missing = isinstance(error, FileNotFoundError | exceptions.NotFoundError)
    return is_missing and not _NO_PLACE(str(error))
