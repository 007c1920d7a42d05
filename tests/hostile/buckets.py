"""Attacks by a bucket: its service tells whatever keys it likes, and what stands behind them.

Every function here runs behind the wall. Whoever may put objects into a bucket chooses their keys,
and a service that was broken into tells what no service would. What is read of it is shown at plain
names beneath its mount or not at all, and what is copied from it lands beneath where it was to.
"""

import asyncio
import contextlib
import os
import socketserver
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from xml.sax.saxutils import escape

import bailiwick
from bailiwick.errors import BailiwickError, InternalError
from tests.hostile import inside
from tests.hostile.layouts import CANARY, SECRET_TEXT, empty, snapshot

PAYLOAD = b"planted by the bucket\n"
GOOD = "good/f.txt"

KEYS = (
    "../escaped", "../../escaped", "a/../../escaped", "/escaped", "//escaped", "a//b", "a/./b",
    "./a", "a/..", "..", ".", "a/.", "/", "//", "a\\..\\..\\escaped", "..\\escaped",
    "C:\\escaped", "C:escaped", "%2e%2e/escaped", "a%2f..%2fescaped", "a\x01b", "a\nb",
    "a\x00b", "\x00", "\u202etxt.exe", "\ufeffa", "a" * 1_000, "a/" * 500 + "f",
    "d/" * 5_000 + "f", " ", " a", "a ", "a.", "con", "nul.txt", "~root", ".bailiwick-x", "-rf",
    "*", "a\u0301", "a/b/",
)  # fmt: skip
"""Each is told beside one that is as it should be."""

BOTH = ("x", "x/y", "x/y/z", "x/", "x//")
"""Files that are directories of others, all at once."""


class _Service(BaseHTTPRequestHandler):
    """An S3 service as far as a reader asks, which filters by what it was asked only if it is
    ``honest``."""

    keys: tuple[str, ...] = ()
    honest = True

    def log_message(self, *arguments: Any) -> None: ...

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        asked = dict(urllib.parse.parse_qsl(address.query))
        if "list-type" in asked:
            self._answer(self._listed(asked).encode(errors="surrogatepass"))
        else:
            self._object(PAYLOAD)

    def do_HEAD(self) -> None:
        self._object(None)

    def _object(self, body: bytes | None) -> None:
        path = urllib.parse.unquote(self.path.partition("?")[0]).removeprefix("/evil/")
        if self.honest and path.removeprefix("shelf/") not in self.keys:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._answer(body)

    def _answer(self, body: bytes | None) -> None:
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(PAYLOAD if body is None else body)))
        self.send_header("Content-Range", f"bytes 0-{len(PAYLOAD) - 1}/{len(PAYLOAD)}")
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        if body is not None:
            self.wfile.write(body)

    def _listed(self, asked: dict[str, str]) -> str:
        prefix, cut = asked.get("prefix", ""), asked.get("delimiter")
        keys = [f"shelf/{each}" for each in self.keys]
        if self.honest:
            keys = [each for each in keys if each.startswith(prefix)]
        else:
            keys += ["outside/f", "shel", "shelf", "/etc/passwd", "shelf/../../etc/passwd"]
        objects, folders = [], set()
        for key in keys:
            rest = key.removeprefix(prefix)
            if cut and cut in rest and self.honest:
                folders.add(prefix + rest.partition(cut)[0] + cut)
            else:
                objects.append(key)
        told = "".join(
            f"<Contents><Key>{_text(key)}</Key><LastModified>2024-01-01T00:00:00.000Z"
            f"</LastModified><ETag>&quot;e&quot;</ETag><Size>{len(PAYLOAD)}</Size></Contents>"
            for key in objects
        )
        told += "".join(
            f"<CommonPrefixes><Prefix>{_text(each)}</Prefix></CommonPrefixes>" for each in folders
        )
        count = len(objects) + len(folders)
        return (
            f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>evil</Name>'
            f"<Prefix></Prefix><KeyCount>{count}</KeyCount><MaxKeys>1000</MaxKeys>"
            f"<IsTruncated>false</IsTruncated>{told}</ListBucketResult>"
        )


def _text(key: str) -> str:
    return "".join(escape(each) if each >= " " else f"&#{ord(each)};" for each in key)


@contextlib.contextmanager
def _serving(keys: tuple[str, ...], honest: bool) -> Iterator[str]:
    handler = type("Service", (_Service,), {"keys": keys, "honest": honest})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            port = server.server_address[1]
            endpoint = f"endpoint=http://127.0.0.1:{port}&region=us-east-1&allow_http=true"
            yield f"s3://evil/shelf?{endpoint}"
        finally:
            server.shutdown()
            serving.join()


class _Ground:
    def __init__(self) -> None:
        self.place = f"{inside.arena()}/bucket"
        os.makedirs(self.place, exist_ok=True)
        empty(self.place)
        for folder in ("own", "outside", "state"):
            os.makedirs(f"{self.place}/{folder}")
        with open(f"{self.place}/outside/f", "w") as file:
            file.write(SECRET_TEXT)
        self.before = snapshot(f"{self.place}/outside", outside=True)

    def check(self) -> None:
        assert sorted(os.listdir(self.place)) == ["outside", "own", "state"], "it came out"
        assert snapshot(f"{self.place}/outside", outside=True) == self.before
        assert CANARY not in str(list(os.walk(f"{self.place}/own")))


async def _attempted(doing: Any, refused: list[str]) -> Any:
    try:
        return await doing
    except InternalError:
        raise
    except BailiwickError as error:
        refused.append(error.kind)
        return None


async def _looked_through(keys: tuple[str, ...], honest: bool) -> tuple[int, list[str]]:
    """Every verb that reads, and a copy of all of it to a directory. Tells how many names were
    shown, and what was refused."""
    ground, refused, shown = _Ground(), [], 0
    os.environ |= {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    with _serving(keys, honest) as address:
        mounts = {"data": address, "own": f"{ground.place}/own"}
        async with bailiwick.open(
            "mounts:", mounts=mounts, state_dir=f"{ground.place}/state", durability="rename"
        ) as fs:
            for listing in (fs.list("data"), fs.list("data/x"), fs.list("data/x/y")):
                found = await _attempted(listing, refused)
                for each in found.entries if found is not None else ():
                    shown += 1
                    assert str(each.path).startswith("data/")
                    assert each.name not in ("", ".", "..")
                    assert "/" not in each.name
                    assert "\x00" not in each.name
                    await _attempted(fs.read_bytes(each.path), refused)
            for doing in (
                fs.files("data"), fs.grep("planted", "data"), fs.find("data", "**"),
                fs.copy("data", "own/copied", recursive=True),
                *(fs.read_bytes(f"data/{key}") for key in keys[:1]),
            ):  # fmt: skip
                await _attempted(doing, refused)
            good = await _attempted(fs.read_bytes(f"data/{GOOD}"), refused)
            assert not honest or good.data == PAYLOAD
            ground.check()
    return shown, refused


def keys(honest: bool) -> dict[str, tuple[int, list[str]]]:
    """One hostile key at a time, beside one that is as it should be."""
    return {
        ascii(key)[:40]: asyncio.run(_looked_through((key, GOOD), honest)) for key in KEYS
    }  # fmt: skip


def all_at_once(honest: bool) -> tuple[int, list[str]]:
    told = tuple(each for each in KEYS if "\x00" not in each and "\x01" not in each)
    return asyncio.run(_looked_through((*told, *BOTH, GOOD), honest))


def keys_control() -> list[str]:
    """What a plain program does that writes objects to their keys: how many come out."""
    ground = _Ground()
    came_out = []
    for key in ("../escaped", "a/../../escaped", f"{ground.place}/escaped"):
        target = os.path.join(f"{ground.place}/own", key)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.makedirs(f"{ground.place}/own/a", exist_ok=True)
        with open(target, "wb") as file:
            file.write(PAYLOAD)
        if os.path.exists(f"{ground.place}/escaped"):
            came_out.append(key.removeprefix(ground.place))
            os.unlink(f"{ground.place}/escaped")
    return came_out
