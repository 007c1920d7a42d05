"""`python -m bench`: measure everything, print it, and write `bench/RESULTS.md` and the chart."""

import subprocess
import sys

from bench import environment
from bench.run import parse_arguments


def main() -> int:
    parse_arguments()  # a wrong argument is told before anything is installed
    python = environment.prepare() or sys.executable
    command = [str(python), "-m", "bench.run", *sys.argv[1:]]
    return subprocess.run(command, cwd=environment.ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
