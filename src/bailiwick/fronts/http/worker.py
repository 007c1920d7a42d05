"""One process of several that serve: started by `bailiwick serve --workers`, not by people."""

from __future__ import annotations

import atexit
import gc
import sys

from bailiwick.fronts.http.serve_command import work

if __name__ == "__main__":
    # What is left in the end goes with the process: to look for garbage in it takes a tenth of a
    # second, and several workers end at once.
    atexit.register(gc.freeze)
    sys.exit(work(int(sys.argv[1]), sys.stdin.buffer))
