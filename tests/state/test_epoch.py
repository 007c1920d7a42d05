"""The epoch: another process notices a change of the control plane without asking the database."""

import subprocess
import sys
import threading

import pytest

from bailiwick.state.database import DatabasePart
from bailiwick.state.epoch import Epoch
from tests.state.ledgers import state_at

NUMBERS = DatabasePart("numbers", ("CREATE TABLE numbers (n INTEGER) STRICT",))


def add(connection):
    connection.execute("INSERT INTO numbers VALUES (1)")


def number(seen):
    return int.from_bytes(seen, "little")


@pytest.mark.parametrize("kept", ["in a directory", "in memory"])
async def test_only_a_change_of_the_control_plane_moves_it(kept, tmp_path):
    with state_at(tmp_path if kept == "in a directory" else None, NUMBERS) as database:
        before = database.epoch.current()
        assert Epoch.is_steady(before)
        await database.write(add)
        assert database.epoch.current() == before
        await database.write_control(add)
        assert number(database.epoch.current()) == number(before) + 2
        database.write_blocking(add, control=True)
        assert number(database.epoch.current()) == number(before) + 4


async def test_job_that_raises_does_not_move_it():
    def fails(connection):
        raise LookupError

    with state_at(None, NUMBERS) as database:
        before = database.epoch.current()
        with pytest.raises(LookupError):
            await database.write_control(fails)
        assert database.epoch.current() == before


async def test_others_see_it_move_and_odd_until_the_commit_is_done(tmp_path):
    seen = []
    with state_at(tmp_path, NUMBERS) as here, state_at(tmp_path, NUMBERS) as there:
        before = there.epoch.current()
        # Runs while the commit is under way, as another process would look.
        here._connection.set_commit_hook(lambda: seen.append(there.epoch.current()) or False)
        await here.write_control(add)
        here._connection.set_commit_hook(None)
        assert [number(each) for each in seen] == [number(before) + 1]
        assert not Epoch.is_steady(seen[0])
        assert there.epoch.current() == here.epoch.current() != before
        assert Epoch.is_steady(there.epoch.current())


async def test_failed_commit_moves_it_on_all_the_same(tmp_path):
    with state_at(tmp_path, NUMBERS) as database:
        before = database.epoch.current()
        database._connection.set_commit_hook(lambda: True)  # turns the commit into a rollback
        with pytest.raises(Exception, match="state database"):
            await database.write_control(add)
        database._connection.set_commit_hook(None)
        after = database.epoch.current()
        assert after != before
        assert Epoch.is_steady(after)


DIES = """if True:
    import os, signal, sys
    from bailiwick.state.database import Database, DatabasePart
    database = Database.open(sys.argv[1], [DatabasePart("numbers", (
        "CREATE TABLE numbers (n INTEGER) STRICT",))])
    database._connection.set_commit_hook(lambda: os.kill(os.getpid(), signal.SIGKILL))
    database.write_blocking(lambda c: c.execute("INSERT INTO numbers VALUES (1)"), control=True)
    """


def test_process_that_dies_in_between_makes_others_slow_not_wrong(tmp_path):
    with state_at(tmp_path, NUMBERS) as database:
        before = database.epoch.current()
        subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], timeout=120, check=False)
        left = database.epoch.current()
        assert left != before
        assert not Epoch.is_steady(left)
        database.write_blocking(add, control=True)  # the next change mends it
        mended = database.epoch.current()
        assert Epoch.is_steady(mended)
        assert mended not in (before, left)


def test_opening_mends_what_the_dead_left(tmp_path):
    with state_at(tmp_path, NUMBERS):
        pass
    subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], timeout=120, check=False)
    left = (tmp_path / "epoch").read_bytes()
    assert not Epoch.is_steady(left)
    with state_at(tmp_path, NUMBERS) as database:
        assert number(database.epoch.current()) == number(left) + 1


def test_one_change_at_a_time_over_all_processes(tmp_path):
    """Else the first to be done would say steady while the second is still committing."""
    with state_at(tmp_path, NUMBERS) as here, state_at(tmp_path, NUMBERS) as there:
        begun, entered = threading.Event(), threading.Event()

        def change():
            begun.set()
            with there.epoch.changing():
                entered.set()

        other = threading.Thread(target=change)
        with here.epoch.changing():
            other.start()
            assert begun.wait(120)
            assert not entered.wait(0.05)
        other.join()
        assert entered.is_set()
        assert number(here.epoch.current()) == 4


def test_two_writers_never_bring_back_a_number_under_which_something_was_loaded(tmp_path):
    """What is loaded under a steady number is right for as long as the number stands."""
    with state_at(tmp_path, NUMBERS) as here, state_at(tmp_path, NUMBERS) as there:
        stop, wrong, loaded = threading.Event(), [], {}

        def look(database):
            while not stop.is_set():
                seen = database.epoch.current()
                found = database.read("SELECT count(*) FROM numbers")
                right = Epoch.is_steady(seen) and database.epoch.current() == seen
                if right and loaded.setdefault(seen, found) != found:
                    wrong.append((seen, loaded[seen], found))

        def change(database):
            for _ in range(100):
                database.write_blocking(add, control=True)

        lookers = [threading.Thread(target=look, args=(each,)) for each in (here, there)]
        writers = [threading.Thread(target=change, args=(each,)) for each in (here, there)]
        for thread in (*lookers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        stop.set()
        for thread in lookers:
            thread.join()
        assert wrong == []
        assert len(loaded) > 1
        assert number(here.epoch.current()) == 400
        assert here.read("SELECT count(*) FROM numbers") == [(200,)]
