"""What people use fsspec for: pandas, pyarrow and duckdb, reading and writing through a scope."""

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

import bailiwick
from bailiwick.fronts.fsspec import BailiwickFileSystem
from bailiwick.fronts.fsspec.places import DirectoryFileSystem

pytestmark = [
    pytest.mark.spec("FSSPEC-1"),
    pytest.mark.leaks_ok("pyarrow and fsspec keep worker threads for the whole process"),
]

TABLE = {"name": ["a", "b", "c"], "value": [1, 2, 3]}


@pytest.fixture(params=["memory", "disk", "volume"])
def fs(request, tmp_path):
    place = {"memory": "memory:", "disk": tmp_path, "volume": f"sqlite:{tmp_path}/v.db"}
    with bailiwick.open_sync(place[request.param]) as scope:
        yield BailiwickFileSystem(scope)


def test_pandas(fs):
    frame = pd.DataFrame(TABLE)
    with fs.open("d/a.csv", "w") as file:
        frame.to_csv(file, index=False)
    with fs.open("d/a.csv") as file:
        assert pd.read_csv(file).equals(frame)
    frame.to_parquet("d/a.parquet", filesystem=fs)
    assert pd.read_parquet("d/a.parquet", filesystem=fs).equals(frame)


def test_pandas_by_url(tmp_path):
    (tmp_path / "p").mkdir()
    frame = pd.DataFrame(TABLE)
    url = f"bailiwick+file://{tmp_path}/p!/d/a"
    frame.to_csv(f"{url}.csv", index=False)
    assert pd.read_csv(f"{url}.csv").equals(frame)
    frame.to_csv(f"{url}.csv.gz", index=False)
    assert pd.read_csv(f"{url}.csv.gz").equals(frame)
    frame.to_parquet(f"{url}.parquet")
    assert pd.read_parquet(f"{url}.parquet", columns=["value"])["value"].tolist() == [1, 2, 3]
    frame.to_json(f"{url}.json")
    assert pd.read_json(f"{url}.json").equals(frame)
    for each in DirectoryFileSystem._cache.values():
        each.close()
    DirectoryFileSystem.clear_instance_cache()


def test_pyarrow(fs):
    table = pa.table({**TABLE, "part": ["x", "y", "x"]})
    arrow = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(fs))
    pa.parquet.write_table(table, "d/a.parquet", filesystem=arrow)
    assert pa.parquet.read_table("d/a.parquet", filesystem=arrow).equals(table)
    pa.dataset.write_dataset(
        table, "set", filesystem=arrow, format="parquet", partitioning=["part"]
    )
    found = pa.dataset.dataset("set", filesystem=fs, format="parquet", partitioning=["part"])
    assert found.count_rows() == 3
    assert found.to_table(filter=pa.dataset.field("part") == "x").num_rows == 2
    arrow.create_dir("empty")
    arrow.move("d/a.parquet", "d/b.parquet")
    arrow.delete_dir("empty")
    assert [info.base_name for info in arrow.get_file_info(pa.fs.FileSelector("d"))] == [
        "b.parquet"
    ]
    with arrow.open_input_file("d/b.parquet") as file:
        assert file.read_at(4, 0) == b"PAR1"


def test_duckdb(fs):
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        connection.execute("create table t as select range as i, range * 2 as j from range(1000)")
        connection.execute("copy t to 'bailiwick+scope://d/a.parquet' (format parquet)")
        connection.execute("copy t to 'bailiwick+scope://d/b.csv' (header)")
        for source in ("d/a.parquet", "d/*.csv"):
            [(count, total)] = connection.execute(
                f"select count(*), sum(j) from 'bailiwick+scope://{source}'"
            ).fetchall()
            assert (count, total) == (1000, 999_000)
        connection.unregister_filesystem("bailiwick+scope")
    assert sorted(fs.ls("d", detail=False)) == ["d/a.parquet", "d/b.csv"]
