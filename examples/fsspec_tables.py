"""Tables in a volume: pandas writes and reads them through fsspec, and an earlier one is restored.

Run it: ``python examples/fsspec_tables.py``. It works in a temporary directory.
"""

import tempfile
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]

import bailiwick
from bailiwick.fronts.fsspec import BailiwickFileSystem


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        volume = f"sqlite:{Path(place) / 'agent.db'}?volume=main"
        with bailiwick.open_sync(volume) as scope:
            fs = BailiwickFileSystem(scope)
            prices = pd.DataFrame({"item": ["tea", "salt"], "price": [3.5, 0.9]})
            prices.to_parquet("tables/prices.parquet", filesystem=fs)
            first = scope.stat("tables/prices.parquet").version

            prices["price"] *= 2
            prices.to_parquet("tables/prices.parquet", filesystem=fs)
            print(pd.read_parquet("tables/prices.parquet", filesystem=fs).to_string(index=False))

            scope.restore("tables/prices.parquet", first)
            print(pd.read_parquet("tables/prices.parquet", filesystem=fs).to_string(index=False))
            print(fs.find(""))


if __name__ == "__main__":
    main()
