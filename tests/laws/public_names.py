"""The public names of the package, one a line, as pinned in `public_names.txt`.

After a wanted change: `python -m tests.laws.public_names > tests/laws/public_names.txt`.
"""

import pathlib

import bailiwick

PINNED = pathlib.Path(__file__).with_name("public_names.txt")


def main() -> None:
    print("\n".join(sorted(bailiwick.__all__)))


if __name__ == "__main__":
    main()
