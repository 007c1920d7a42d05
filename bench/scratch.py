"""The places that are measured on, and what lies in them: the same bytes in every run."""

import dataclasses
import os
import pathlib
import random
import tempfile

KiB = 1024
MiB = 1024 * KiB

SMALL = (b"The quick brown fox jumps over the lazy dog, again and again.\n" * 17)[:1023] + b"\n"
"""One kibibyte of text."""

EDITED = "".join(f"line {n:04}: nothing to see here\n" for n in range(120)) + "alpha\n"
"""Four kilobytes of text with one word to edit at the end."""

CHUNK = random.Random(1).randbytes(256 * KiB)
"""What streams come in: the size that Bailiwick uses itself."""

FOLDER_FILES = 100
"""In each folder of a tree that is searched."""

NEEDLE = "needle_in_the_haystack"
NEEDLES = 20
TICKET = r"[A-Z]{4}-[0-9]{6}-[a-z]{3}"
"""A pattern without a literal to search for first. It fits the needles' lines only."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much there is of everything: as measured, unless it is only to be seen that it runs."""

    listed: int = 1_000
    searched_few: int = 2_000
    searched_many: int = 20_000
    large_chunks: int = 256
    """64 MiB are streamed."""
    trees: tuple[int, int] = (1_000, 100_000)
    """Files of the trees that are forked, moved, removed and compared."""
    touched: int = 2_000
    """Different files that are touched once each, in twenty directories."""
    edited: int = 500
    sources: int = 2_000
    """Files of the agent's day, in 120 directories."""
    days: int = 15
    searched_days: int = 2
    """So many times the steps of a day, on ever other files: what is left of 2,000. Searching takes
    most of a day, so few of those say as much."""

    @property
    def large(self) -> int:
        return self.large_chunks * len(CHUNK)


AS_MEASURED = Sizes()


def on_memory() -> pathlib.Path:
    """A fresh directory on tmpfs where there is one, else in the temporary directory."""
    memory = pathlib.Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else None
    return pathlib.Path(tempfile.mkdtemp(prefix="bailiwick-bench-", dir=parent))


def on_disk(checkout: pathlib.Path) -> pathlib.Path:
    """A fresh directory on a disk: in the temporary directory, else beside the checkout."""
    temporary = pathlib.Path(tempfile.gettempdir())
    parent = checkout if kind_of(temporary) == "tmpfs" else temporary
    return pathlib.Path(tempfile.mkdtemp(prefix=".bailiwick-bench-", dir=parent))


def kind_of(place: pathlib.Path) -> str:
    """The kind of filesystem that holds a place, as the kernel names it."""
    try:
        mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    lines = [line.split() for line in mounts.splitlines()]
    path = str(place.resolve())
    holding = [
        (len(point), kind)
        for _, point, kind, *_ in lines
        if path == point or path.startswith(point.rstrip("/") + "/")
    ]
    return max(holding)[1] if holding else "unknown"


def fill(place: pathlib.Path, listed: int) -> None:
    """What the small cases need: a file, and a directory of so many entries."""
    docs = place / "docs"
    docs.mkdir()
    (docs / "small.txt").write_bytes(SMALL)
    many = place / "many"
    many.mkdir()
    for n in range(listed):
        (many / f"entry-{n:04}.txt").write_bytes(b"x" * (n % 100))


def fill_large(place: pathlib.Path, chunks: int) -> None:
    with open(place / "large.bin", "wb") as file:
        file.writelines(CHUNK for _ in range(chunks))


def fill_tree(place: pathlib.Path, files: int) -> None:
    """So many files, 20,000 of which are about 227 MB: source-like text, and one binary file in a
    hundred. The needle is in 20 of them, a line each.
    """
    place.mkdir()
    rng = random.Random(2)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz_", k=k)) for k in range(3, 12)] * 40
    words += ["return", "self", "import", "(value)", "=", "==", "if", "else:", "[0]", "None", "{}"]
    # Lines are drawn from a pool: two hundred million random letters would take minutes.
    pool = ["    " * rng.randrange(4) + " ".join(rng.choices(words, k=9)) for _ in range(4000)]
    with_needle = set(rng.sample(range(files), min(NEEDLES, files)))
    for n in range(files):
        folder = place / f"package_{n // FOLDER_FILES:03}"
        if n % FOLDER_FILES == 0:
            folder.mkdir()
        if n % FOLDER_FILES == FOLDER_FILES - 1 and n not in with_needle:
            (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0" + rng.randbytes(8 * KiB))
            continue
        lines = rng.choices(pool, k=rng.randrange(72, 224))
        if n in with_needle:
            lines.insert(len(lines) // 2, f"    {NEEDLE} = 'ABCD-{n:06}-xyz'")
        (folder / f"module_{n % FOLDER_FILES:03}.py").write_text("\n".join(lines) + "\n")
