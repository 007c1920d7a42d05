"""The environment of the peers: made once, and again only when their pinned versions change.

The product is installed in it too, so that all contenders of a case run in one process. It is never
a dependency of the product.
"""

import hashlib
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
REQUIREMENTS = ROOT / "bench" / "requirements-peers.txt"
FOLDER = ROOT / ".venv-peers"
PYTHON = FOLDER / "bin" / "python"

_PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def prepare() -> pathlib.Path | None:
    """The interpreter of the peers' environment; None where it cannot be made."""
    stamp = FOLDER / f".stamp-{_hash_of(REQUIREMENTS)}"
    if stamp.exists():
        return PYTHON
    print("making the environment of the peers, once …", flush=True)
    try:
        _run(sys.executable, "-m", "venv", "--clear", str(FOLDER))
        _run(str(PYTHON), *_PIP, "--require-hashes", "-r", str(REQUIREMENTS))
        offline = ("--no-deps", "--no-index", "--no-build-isolation")
        _run(str(PYTHON), *_PIP, *offline, "-e", str(ROOT))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the peers cannot be installed here ({error}); only what is here is measured")
        return None
    stamp.touch()
    return PYTHON


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def _hash_of(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
