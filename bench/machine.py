"""The machine that is measured on, in words that say nothing of whose it is."""

import os
import platform
from pathlib import Path

PROCESSORS = Path("/proc/cpuinfo")
SHA_FLAGS = {"sha_ni", "sha2"}
"""What the kernel calls instructions for SHA-256, on x86 and on ARM."""


def described() -> str:
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = f"{pages / 1024**3:.0f} GiB memory, "
    except (OSError, ValueError):
        memory = ""
    kernel = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    cores = f"{os.cpu_count()} cores of {processor()}"
    return f"{cores}, {memory}{kernel}, CPython {platform.python_version()}"


def processor(file: Path = PROCESSORS) -> str:
    """Its model, and whether it hashes by instructions of its own: streams take a multiple of the
    time where it does not."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    said: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        said.setdefault(name.strip(), value.strip())
    model = said.get("model name") or platform.machine()
    flags = (said.get("flags") or said.get("Features") or "").split()
    with_or_without = "with" if SHA_FLAGS & set(flags) else "without"
    return f"{model} ({with_or_without} instructions for SHA-256)"
