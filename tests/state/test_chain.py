"""The chain: whatever is done to the ledger without its key shows, and where it begins is named."""

import asyncio
import hmac
import shutil
from contextlib import contextmanager

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.errors import IoError, ParseError, PermissionDenied
from bailiwick.state.database import FILE, Database
from bailiwick.state.ledger import verification
from bailiwick.state.ledger.chain import LEDGER, parse_head
from bailiwick.state.ledger.durable import DurableLedger, ledger_key
from bailiwick.state.ledger.key import FILE as KEY_FILE
from bailiwick.state.ledger.key import KeyedHash, Keys, load_key
from bailiwick.state.ledger.verification import verify
from tests.state.ledgers import keep, ledger_at, record, state_at

RECORDS = 200

pytestmark = pytest.mark.spec("AUDIT-3")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A ledger of 200 records, its head, and its rows. Not to be changed: work on a copy."""
    directory = tmp_path_factory.mktemp("written") / "state"

    async def write():
        async with ledger_at(directory) as ledger:
            await keep(ledger, RECORDS)
            return ledger.head()

    head = asyncio.run(write())
    with state_at(directory) as database:
        rows = database.read("SELECT seq, time_ns, body, mac FROM ledger ORDER BY seq")
    assert len(rows) == RECORDS
    return directory, head, rows


class Tampered:
    """The rows of a ledger in a database of their own, to be changed at will."""

    def __init__(self, written):
        directory, self.head, self.rows = written
        self.keys = Keys(load_key(str(directory)))
        self._database = apsw.Connection(":memory:")
        for script in LEDGER.versions:
            self._database.execute(script)
        self.insert(self.rows)

    def run(self, sql, bindings=()):
        self._database.execute(sql, bindings)

    def insert(self, rows):
        self._database.executemany("INSERT INTO ledger VALUES (?, ?, ?, ?)", rows)

    def verify(self, head=None):
        return verify(self.read, self.keys, None if head is None else parse_head(head))

    def read(self, sql, bindings):
        return self._database.execute(sql, bindings).fetchall()

    def close(self):
        self._database.close()


@contextmanager
def tampered(written):
    ledger = Tampered(written)
    try:
        yield ledger
    finally:
        ledger.close()


def first_bad(ledger, head=None):
    found = ledger.verify(head)
    assert not found.ok
    assert not found.tail_proved
    assert str(found.first_bad.seq) in found.words
    return found.first_bad.seq


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


SEQ = st.integers(1, RECORDS)


def test_untouched_ledger_is_as_it_was_written(written):
    with tampered(written) as ledger:
        plain = ledger.verify()
        assert (plain.ok, plain.records, plain.first_bad) == (True, RECORDS, None)
        assert not plain.tail_proved
        assert "only be shown against a head that was kept elsewhere" in plain.words
        proved = ledger.verify(ledger.head)
        assert (proved.ok, proved.tail_proved, proved.head) == (True, True, ledger.head)


@settings(max_examples=300)
@given(st.data())
def test_any_bit_of_any_column_that_is_changed_is_found(written, data):
    with tampered(written) as ledger:
        seq = data.draw(SEQ)
        column = data.draw(st.sampled_from(["time_ns", "body", "mac"]))
        value = ledger.rows[seq - 1][("seq", "time_ns", "body", "mac").index(column)]
        if column == "time_ns":
            value ^= 1 << data.draw(st.integers(0, 62))
        else:
            value = flipped(value, data.draw(st.integers(0, len(value) * 8 - 1)))
        ledger.run(f"UPDATE ledger SET {column} = ? WHERE seq = ?", (value, seq))
        assert first_bad(ledger) == seq


@settings(max_examples=100)
@given(st.data())
def test_number_that_is_changed_is_found(written, data):
    with tampered(written) as ledger:
        seq = data.draw(SEQ)
        other = data.draw(st.integers(-(2**63), 2**63 - 1).filter(lambda n: not 1 <= n <= RECORDS))
        ledger.run("UPDATE ledger SET seq = ? WHERE seq = ?", (other, seq))
        # Moved to before the beginning it is the first that is wrong; to the end, its old place.
        if seq == RECORDS and other > RECORDS:
            assert first_bad(ledger) == RECORDS
        else:
            assert first_bad(ledger) == (other if other < 1 else seq)


@settings(max_examples=100)
@given(st.sets(SEQ, min_size=1, max_size=5))
def test_removal_is_found(written, gone):
    with tampered(written) as ledger:
        for seq in gone:
            ledger.run("DELETE FROM ledger WHERE seq = ?", (seq,))
        kept = set(range(1, RECORDS + 1)) - gone
        if min(gone) > max(kept):  # a cut tail: shown only by the head
            assert ledger.verify().ok
        else:
            assert first_bad(ledger) == min(gone)
        assert first_bad(ledger, ledger.head) == min(gone)


@settings(max_examples=50)
@given(SEQ)
def test_removal_is_found_also_where_the_rest_moves_up(written, gone):
    with tampered(written) as ledger:
        ledger.run("DELETE FROM ledger WHERE seq = ?", (gone,))
        for seq in range(gone + 1, RECORDS + 1):
            ledger.run("UPDATE ledger SET seq = ? WHERE seq = ?", (seq - 1, seq))
        if gone < RECORDS:
            assert first_bad(ledger) == gone
        assert first_bad(ledger, ledger.head) == gone


@settings(max_examples=50)
@given(SEQ, SEQ)
def test_insertion_is_found(written, at, like):
    """A copy of a genuine record, put anywhere with the others moved down."""
    with tampered(written) as ledger:
        rows = [row[1:] for row in ledger.rows]
        rows.insert(at - 1, rows[like - 1])
        ledger.run("DELETE FROM ledger")
        ledger.insert([(seq, *row) for seq, row in enumerate(rows, 1)])
        expected = at
        while expected <= RECORDS and rows[expected - 1] == ledger.rows[expected - 1][1:]:
            expected += 1  # a copy beside its original: only the second of them is out of place
        assert first_bad(ledger) == expected


@settings(max_examples=50)
@given(SEQ, SEQ)
def test_reordering_is_found(written, one, other):
    with tampered(written) as ledger:
        if one == other:
            return
        ledger.run("DELETE FROM ledger WHERE seq IN (?, ?)", (one, other))
        ledger.insert([(one, *ledger.rows[other - 1][1:]), (other, *ledger.rows[one - 1][1:])])
        assert first_bad(ledger) == min(one, other)


@settings(max_examples=30)
@given(st.integers(0, RECORDS - 1))
def test_cut_tail_is_found_against_a_kept_head(written, left):
    with tampered(written) as ledger:
        ledger.run("DELETE FROM ledger WHERE seq > ?", (left,))
        alone = ledger.verify()
        assert (alone.ok, alone.records, alone.tail_proved) == (True, left, False)
        assert first_bad(ledger, ledger.head) == left + 1
        assert "cut off" in ledger.verify(ledger.head).words


def test_older_head_is_proved_while_the_ledger_grows(written):
    with tampered(written) as ledger:
        for seq in (1, 57, RECORDS):
            head = f"{seq}:{ledger.rows[seq - 1][3].hex()}"
            assert ledger.verify(head).tail_proved
        other = f"57:{ledger.rows[57][3].hex()}"
        assert first_bad(ledger, other) == 57


def test_record_made_without_the_key_is_found(written):
    with tampered(written) as ledger:
        ledger.insert([(RECORDS + 1, 1, b"\x90", bytes(32))])
        assert first_bad(ledger) == RECORDS + 1
        ledger.run("DELETE FROM ledger WHERE seq > ?", (RECORDS,))
        ledger.insert([(0, 1, b"\x90", bytes(32))])
        assert first_bad(ledger) == 0


async def test_genuine_record_of_another_history_does_not_fit(written, tmp_path):
    """A state that was copied and went on in two ways: same key, same numbers, other records."""
    histories = []
    for name in ("one", "other"):
        shutil.copytree(written[0], tmp_path / name)
        async with ledger_at(tmp_path / name) as ledger:
            for number in range(3):
                ledger.note(record(number, request_id=f"{name}-{number}"))
            await ledger.flush()
            sql = "SELECT seq, time_ns, body, mac FROM ledger WHERE seq > ? ORDER BY seq"
            histories.append(ledger._database.read(sql, (RECORDS,)))
    with tampered(written) as ledger:
        ledger.insert(histories[0])
        assert ledger.verify().ok
        middle = histories[1][1]
        ledger.run("UPDATE ledger SET body = ?, mac = ? WHERE seq = ?", (*middle[2:], middle[0]))
        assert first_bad(ledger) == middle[0]


def test_column_of_another_type_is_found(written):
    with tampered(written) as ledger:
        ledger.run("CREATE TABLE loose AS SELECT * FROM ledger")
        ledger.run("DROP TABLE ledger")
        ledger.run("ALTER TABLE loose RENAME TO ledger")
        assert ledger.verify().ok
        for column, value in (("body", None), ("mac", "text"), ("time_ns", 1.5), ("body", 3)):
            ledger.run("SAVEPOINT before")
            ledger.run(f"UPDATE ledger SET {column} = ? WHERE seq = 9", (value,))
            assert first_bad(ledger) == 9
            ledger.run("ROLLBACK TO before")


def test_verification_holds_one_batch_in_memory(written, monkeypatch):
    monkeypatch.setattr(verification, "_BATCH_RECORDS", 7)
    with tampered(written) as ledger:
        sizes = []

        def read(sql, bindings):
            rows = ledger.read(sql, bindings)
            sizes.append(len(rows))
            return rows

        assert verify(read, ledger.keys).records == RECORDS
        assert max(sizes) == 7


@pytest.mark.parametrize("text", ["", "12", "x:00", "5:zz", f"-1:{'0' * 64}", "5:00"])
def test_head_that_is_none_is_refused(text):
    with pytest.raises(ParseError, match="audit head"):
        parse_head(text)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_keyed_hash_is_hmac(key, message):
    assert KeyedHash(key)(message) == hmac.digest(key, message, "sha256")


# --- the key ---------------------------------------------------------------------------------


def copied(written, tmp_path):
    shutil.copytree(written[0], tmp_path / "state")
    return tmp_path / "state"


def test_key_is_private_and_made_once(tmp_path):
    with state_at(tmp_path) as one, state_at(tmp_path) as other:
        assert ledger_key(one) == ledger_key(other)
        assert len(ledger_key(one)) == 32
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_missing_key_is_an_error_and_no_new_one_is_made(written, tmp_path):
    directory = copied(written, tmp_path)
    (directory / KEY_FILE).unlink()
    with (
        state_at(directory) as database,
        pytest.raises(IoError, match="key of the ledger is missing"),
    ):
        ledger_key(database)
    assert not (directory / KEY_FILE).exists()


def test_wrong_key_is_an_error_not_a_changed_ledger(written, tmp_path):
    directory = copied(written, tmp_path)
    (directory / KEY_FILE).write_bytes(bytes(32))
    with state_at(directory) as database:
        with pytest.raises(IoError, match="not the key"):
            DurableLedger.open(database, ledger_key(database))
        with pytest.raises(IoError, match="not the key"):
            verify(database.read, Keys(bytes(32)))


def test_key_that_is_none_or_that_others_may_read_is_refused(written, tmp_path):
    directory = copied(written, tmp_path)
    (directory / KEY_FILE).write_bytes(bytes(31))
    with pytest.raises(IoError, match="not a ledger key"):
        load_key(str(directory))
    (directory / KEY_FILE).write_bytes(bytes(32))
    (directory / KEY_FILE).chmod(0o640)
    with pytest.raises(PermissionDenied, match="others may read"):
        load_key(str(directory))


def test_damaged_file_is_named_by_record_or_is_an_error(written, tmp_path):
    """Bytes of the file itself, beneath SQLite: never passed over, whatever they hit."""
    directory = copied(written, tmp_path)
    plain = (directory / FILE).read_bytes()
    key = load_key(str(directory))
    sample = written[2][100][2][:24]  # some bytes of a body, as they stand in the file
    at = plain.index(sample)
    (directory / FILE).write_bytes(plain[:at] + flipped(plain[at : at + 1], 3) + plain[at + 1 :])
    database = Database.open(str(directory), [LEDGER])
    try:
        found = verify(database.read, Keys(key))
        assert (found.ok, found.first_bad.seq) == (False, 101)
    finally:
        database.close()
    page = plain.index(sample) // 4096 * 4096
    (directory / FILE).write_bytes(plain[:page] + b"\xff" * 4096 + plain[page + 4096 :])
    database = Database.open(str(directory), [LEDGER])
    try:
        found = verify(database.read, Keys(key))
        assert not found.ok
        assert "cannot be read" in found.words
    finally:
        database.close()
