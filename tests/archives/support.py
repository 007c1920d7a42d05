"""Archives to read: driven as a verb drives them, and made by other programs than ours."""

import io
import tarfile
import zipfile

import pytest

from bailiwick.archives.bounds import Bounds
from bailiwick.archives.entries import ArchiveEntry, Need
from bailiwick.archives.reader import read_archive
from bailiwick.archives.writer import new_writer
from bailiwick.limits import Limits

PACKINGS = {"tar": "", "tar.gz": "gz", "tar.bz2": "bz2", "tar.xz": "xz"}
"""The formats that Python's own library writes."""

ALL_FORMATS = ("tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst", "zip")
FORMATS_OF_ANY_TREE = [
    pytest.param(known, marks=[] if known in ("tar.gz", "zip") else [pytest.mark.slow])
    for known in ALL_FORMATS
]
"""For `parametrize` of a property: how a tar is packed further is no other tree."""


def bounds(limits=None, *, links=True, names="posix", **changes):
    return Bounds.of(limits or Limits(**changes), None, links=links, names=names)


class Drive:
    """A reader driven to its end, with what it asked for on the way."""

    def __init__(self, data, within=None):
        self.events = []
        self.needs = []
        self.largest = 0
        steps = read_archive(len(data), within or bounds())
        given = None
        try:
            while True:
                event = next(steps) if given is None else steps.send(given)
                given = b""
                if isinstance(event, Need):
                    self.needs.append(event)
                    given = data[event.offset : event.offset + event.length]
                elif event:
                    self.events.append(event)
                    if isinstance(event, bytes):
                        self.largest = max(self.largest, len(event))
        except StopIteration as end:
            self.skipped = end.value

    @property
    def tree(self):
        """``{path: (kind, content or target)}``"""
        found, last = {}, None
        for event in self.events:
            if isinstance(event, ArchiveEntry):
                last = event.path
                found[last] = (event.kind, event.target.encode())
            else:
                kind, content = found[last]
                found[last] = (kind, content + event)
        return found

    @property
    def entries(self):
        return {event.path: event for event in self.events if isinstance(event, ArchiveEntry)}


def read(data, within=None):
    return Drive(data, within).tree


def pack(known, entries):
    """An archive by our own writer, of ``(entry, content)``."""
    writer = new_writer(known)
    pieces = []
    for entry, content in entries:
        pieces.append(writer.entry(entry))
        if content:
            pieces.append(writer.content(content))
    pieces.append(writer.finish())
    return b"".join(pieces)


def file(path, content=b"", mode=0o644, mtime_ns=10**18):
    return ArchiveEntry(path, "file", len(content), mode, mtime_ns), content


def directory(path, mode=0o755, mtime_ns=10**18):
    return ArchiveEntry(path, "directory", 0, mode, mtime_ns), b""


def link(path, target):
    return ArchiveEntry(path, "symlink", 0, 0o777, 10**18, target), b""


def member(name, content=b"", **fields):
    """A member for `tar_of`."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar_of(*members, packing="", format=tarfile.PAX_FORMAT, **options):
    """A tar by Python's own library, which writes whatever it is told."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=f"w:{packing}", format=format, **options) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def zip_of(*members, compression=zipfile.ZIP_DEFLATED, **options):
    """A zip by Python's own library, of ``(name or ZipInfo, content)``."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression, **options) as archive:
        for info, content in members:
            archive.writestr(info, content)
    return made.getvalue()


def zip_info(name, mode=0o100644, **fields):
    info = zipfile.ZipInfo("x")
    info.filename = name
    info.create_system = 3
    info.external_attr = mode << 16
    for field, value in fields.items():
        setattr(info, field, value)
    return info
