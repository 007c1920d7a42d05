"""One process of several that serve: started by `bailiwick serve --workers`, not by people."""

from __future__ import annotations

import sys

from bailiwick.fronts.http.serve_command import work

if __name__ == "__main__":
    sys.exit(work(int(sys.argv[1]), sys.stdin.buffer))
