"""The places that are measured on, and what lies in them: the same bytes in every run."""

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
LARGE_CHUNKS = 256
"""64 MiB are streamed in chunks of 256 KiB, the size that Bailiwick uses itself."""

LISTED = 1000
TREE_FILES = 20_000
TREE_FOLDERS = 200
NEEDLE = "needle_in_the_haystack"
NEEDLES = 20
TICKET = r"[A-Z]{4}-[0-9]{6}-[a-z]{3}"
"""A pattern without a literal to search for first. It fits the needles' lines only."""


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


def fill(place: pathlib.Path) -> None:
    """What the small cases need: a file, a file to edit, a directory of 1,000 entries."""
    docs = place / "docs"
    docs.mkdir()
    (docs / "small.txt").write_bytes(SMALL)
    many = place / "many"
    many.mkdir()
    for n in range(LISTED):
        (many / f"entry-{n:04}.txt").write_bytes(b"x" * (n % 100))


def fill_large(place: pathlib.Path) -> None:
    with open(place / "large.bin", "wb") as file:
        file.writelines(CHUNK for _ in range(LARGE_CHUNKS))


def fill_tree(place: pathlib.Path) -> None:
    """20,000 files, about 227 MB: source-like text, and one binary file in a hundred.

    The needle is in 20 of them, a line each.
    """
    rng = random.Random(2)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz_", k=k)) for k in range(3, 12)] * 40
    words += ["return", "self", "import", "(value)", "=", "==", "if", "else:", "[0]", "None", "{}"]
    # Lines are drawn from a pool: two hundred million random letters would take minutes.
    pool = ["    " * rng.randrange(4) + " ".join(rng.choices(words, k=9)) for _ in range(4000)]
    with_needle = set(rng.sample(range(TREE_FILES), NEEDLES))
    per_folder = TREE_FILES // TREE_FOLDERS
    for n in range(TREE_FILES):
        folder = place / f"package_{n // per_folder:03}"
        if n % per_folder == 0:
            folder.mkdir()
        if n % per_folder == per_folder - 1 and n not in with_needle:
            (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0" + rng.randbytes(8 * KiB))
            continue
        lines = rng.choices(pool, k=rng.randrange(72, 224))
        if n in with_needle:
            lines.insert(len(lines) // 2, f"    {NEEDLE} = 'ABCD-{n:06}-xyz'")
        (folder / f"module_{n % per_folder:03}.py").write_text("\n".join(lines) + "\n")
