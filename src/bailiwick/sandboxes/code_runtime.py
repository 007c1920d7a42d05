"""The program that runs code inside a sandbox, and is its `state`.

Run by an interpreter of its own, from its text, without site-packages and without the rest of the
package, which is why it imports nothing of it. Whatever it is told comes by its input, and what
code asks for goes by what was its output: four bytes that say how long a message is, then JSON.
What code prints goes where errors go. Nothing here keeps code from anything: that is for the
sandbox, and for whoever answers.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import linecache
import os
import sys
import threading
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Self

NAME = "<code>"
"""What the code is called in a traceback."""

VALUE_CHARACTERS_MAX = 10_000
"""Of the text that stands for a value which JSON has not."""


class TooLarge(ValueError):
    """More than one message may hold."""


class Channel:
    """Messages to whoever answers, one at a time."""

    def __init__(self) -> None:
        self._input = os.fdopen(os.dup(0), "rb")
        self._output = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._id = 0
        self.message_bytes_max = 0

    def receive(self) -> Any:
        length = self._input.read(4)
        text = self._input.read(int.from_bytes(length, "big")) if len(length) == 4 else b""
        if not text:
            os._exit(1)  # nobody is there any more
        return json.loads(text)

    def send(self, message: object, on_half_characters: str = "strict") -> None:
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        data = text.encode("utf-8", on_half_characters)
        if len(data) > self.message_bytes_max:
            raise TooLarge(f"{len(data)} bytes, of {self.message_bytes_max} that go at once")
        left = memoryview(len(data).to_bytes(4, "big") + data)
        while left:
            left = left[os.write(self._output, left) :]

    def call(self, on: int, verb: str, arguments: dict[str, Any]) -> Any:
        """Have a call made, and wait for what comes of it."""
        if os.getpid() != self._process:
            raise RuntimeError("state belongs to the process that the code was started in")
        sys.stdout.flush()
        with self._lock:
            message = {"id": self._id + 1, "on": on, "verb": verb, "arguments": arguments}
            try:
                self.send(message)
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"{verb}() cannot be given this: {error}") from None
            self._id += 1
            answer = self.receive()
        if "error" in answer:
            raise _error(answer["error"])
        return _decoded(answer["value"])


channel: Channel
state_class: type
error_classes: dict[str, type] = {}


# --- values --------------------------------------------------------------------------------------


class ToldValue:
    """A value that a call has returned: its fields are attributes."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)
        self.__dict__["_name"] = name

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in _fields(self).items())
        return f"{self.__dict__['_name']}({fields})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToldValue) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


def _fields(record: ToldValue) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name != "_name"}


class Edit:
    """Replace ``old`` by ``new``; everywhere with ``replace_all``, else ``old`` must be unique."""

    def __init__(self, old: str, new: str, replace_all: bool = False) -> None:
        self.old = old
        self.new = new
        self.replace_all = replace_all


def _decoded(value: Any) -> Any:
    """A value from the wire: what JSON has not is an object with one name."""
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "$json":
        return held
    if kind == "$bytes":
        return base64.b64decode(held)
    if kind == "$record":
        name, fields = held
        return ToldValue(name, {field: _decoded(each) for field, each in fields.items()})
    return _HANDLES[kind](held)


def _encoded(value: Any) -> Any:
    """An argument for the wire, as far as its kind cannot be said in JSON."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, State):
        return {"$state": value._on}
    if isinstance(value, Edit):
        return {"old": value.old, "new": value.new, "replace_all": value.replace_all}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [_encoded(each) for each in value]
    return value


def _error(told: dict[str, Any]) -> BaseException:
    found: BaseException = error_classes.get(told["kind"], error_classes["*"])(told)
    return found


class Failed(Exception):
    """A call that failed: what is known of it are attributes."""

    def __init__(self, told: dict[str, Any]) -> None:
        Exception.__init__(self, told["text"])
        self.text: str = told["text"]
        for name, value in told.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        return self.text


def make_error_classes(table: list[list[Any]]) -> None:
    """The errors of calls, each also the standard library's own for the same situation."""
    known: dict[str, type] = {}
    for name, kind, bases in table:
        found = [known[each] if each in known else _builtin(each) for each in bases]
        found = found if known else [Failed]
        known[name] = type(name, tuple(found), {"kind": kind, "__module__": "bailiwick"})
        if kind:
            error_classes[kind] = known[name]
    error_classes["*"] = known["BailiwickError"]


def _builtin(name: str) -> type:
    import builtins

    found: type = getattr(builtins, name)
    return found


# --- what stays open -----------------------------------------------------------------------------


class State:
    """The tree. Its calls are made from the table of verbs, and put here when it has come."""

    Edit = Edit

    def __init__(self, on: int = 0) -> None:
        self._on = on

    def __repr__(self) -> str:
        return "<state>"

    def _call(self, verb: str, arguments: dict[str, Any]) -> Any:
        encoded = {name: _encoded(value) for name, value in arguments.items()}
        return channel.call(self._on, verb, encoded)

    def _send(self, verb: str, arguments: dict[str, Any], chunks: Iterable[bytes]) -> Any:
        """A call that takes any amount of bytes, piece by piece."""
        sink = self._call(verb, arguments)
        try:
            for chunk in _pieces(chunks):
                channel.call(sink, "send", {"data": _encoded(chunk)})
        except BaseException:
            channel.call(sink, "close", {})
            raise
        return channel.call(sink, "finish", {})


PIECE_BYTES = 1 << 20


def _pieces(chunks: Any) -> Iterator[memoryview]:
    if isinstance(chunks, (bytes, bytearray, memoryview)):
        chunks = [chunks]
    elif hasattr(chunks, "read"):
        read = chunks.read
        chunks = iter(lambda: read(PIECE_BYTES), b"")
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]


class Scoped:
    """A state beside the first: a fork or a temporary root, to be closed."""

    def close(self: Any) -> None:
        channel.call(self._on, "close", {})

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class TransactionBlock:
    """Many changes that appear at once when the block ends, or not at all."""

    def __init__(self, on: int) -> None:
        self._on = on

    def __enter__(self) -> Any:
        return state_class(self._on)

    def __exit__(self, kind: object, *error: object) -> None:
        channel.call(self._on, "leave", {"commit": kind is None})


class ValueStream:
    """Values as they come; closed at the end of a block."""

    def __init__(self, on: int) -> None:
        self._on = on

    def __iter__(self) -> Iterator[Any]:
        while (values := channel.call(self._on, "next", {})) is not None:
            yield from values

    def close(self) -> None:
        channel.call(self._on, "close", {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class LeaseBlock:
    """A lock that is held. ``token`` goes with every change of what it covers."""

    def __init__(self, held: list[Any]) -> None:
        self._on, self.path, self.token, self.expires_ns = held

    def renew(self, ttl: float = 60.0) -> None:
        channel.call(self._on, "renew", {"ttl": ttl})

    def release(self) -> bool:
        return bool(channel.call(self._on, "release", {}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _state_beside(on: int) -> Any:
    return type("State", (Scoped, state_class), {})(on)


_HANDLES: dict[str, Callable[[Any], Any]] = {
    "$state": _state_beside,
    "$transaction": TransactionBlock,
    "$stream": ValueStream,
    "$sink": lambda on: on,
    "$lease": LeaseBlock,
}


# --- running -------------------------------------------------------------------------------------


def make_state(text: str) -> Any:
    """`state`, with its calls as they are written in the message."""
    global state_class
    held: dict[str, Any] = {"State": State}
    exec(compile(text, "<state>", "exec"), held)
    state_class = held["state_class"]
    return state_class()


def run(source: str, state: Any) -> dict[str, Any]:
    """What came of the code, as it is told."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    names = module.__dict__
    names.update(state=state, Edit=Edit, BailiwickError=error_classes["*"])
    linecache.cache[NAME] = (len(source), None, source.splitlines(keepends=True), NAME)
    try:
        tree = ast.parse(source, NAME)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, NAME, "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), NAME, "eval"), names)
        if value is None:
            value = names.get("result")
        return {"done": _told(value)}
    except BaseException as error:
        if isinstance(error, SystemExit) and not error.code:
            return {"done": _told(names.get("result"))}
        return {"raised": _raised(error)}


def _told(value: Any) -> Any:
    """A value as JSON has it; what JSON has not is told by the text that Python has for it."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_plain))
    except (TypeError, ValueError, RecursionError):
        return repr(value)[:VALUE_CHARACTERS_MAX]


def _plain(value: Any) -> Any:
    if isinstance(value, ToldValue):
        return _fields(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return repr(value)[:VALUE_CHARACTERS_MAX]


def _raised(error: BaseException) -> dict[str, Any]:
    import traceback

    told = traceback.TracebackException.from_exception(error, compact=True)
    seen: Any = told
    while seen is not None:
        _leave_out_our_own(seen)
        seen = seen.__cause__ or seen.__context__
    return {
        "type": type(error).__name__,
        "message": str(error),
        "kind": getattr(error, "kind", None) if isinstance(error, Failed) else None,
        "traceback": "".join(told.format()),
    }


def _leave_out_our_own(told: Any) -> None:
    told.stack[:] = [frame for frame in told.stack if frame.filename == NAME]


def main() -> None:
    global channel
    channel = Channel()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    told = channel.receive()
    channel.message_bytes_max = told["message_bytes_max"]
    make_error_classes(told["errors"])
    state = make_state(told["state"])
    came = run(told["source"], state)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed by the code itself
            stream.flush()
    try:
        channel.send(came, "replace")
    except TooLarge as error:
        text = f"the value of the code is too large: {error}"
        told = {"type": "ValueError", "message": text, "kind": None, "traceback": text}
        channel.send({"raised": told})
    os._exit(0)


if __name__ == "__main__":
    main()
