"""A flipped bit in a checkpoint or in a sweep's store is found; it never becomes a result."""

import contextlib
import re
import sqlite3

import jax.numpy as jnp
import numpy as np
import pytest
from bounds import bounded

import sagewing as sw
from sagewing import files, tensors
from sagewing.jobs.store import Finished, Outcome, _with_digest, open_store
from sagewing.train import checkpoint

KEYS = [f"{i:064d}" for i in range(6)]
FLIPS = 100


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(content)
    damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


@pytest.fixture
def training(tmp_path):
    """A checkpoint, and what is in it."""
    state = {"epoch": jnp.asarray(3), "weights": jnp.linspace(-1.0, 1.0, 200)}
    checkpoint.start(tmp_path / "t", {"epochs": 5}, resume=False)
    checkpoint.save(tmp_path / "t", state)
    return tmp_path / "t", state


def test_a_checkpoint_comes_back(training):
    folder, state = training
    found = checkpoint.load(folder, state)
    np.testing.assert_array_equal(found["weights"], state["weights"])
    assert int(found["epoch"]) == 3


def test_one_flipped_bit_anywhere_in_a_checkpoint_is_refused(training):
    folder, state = training
    path, rng = folder / checkpoint.STATE, np.random.default_rng(0)
    content = path.read_bytes()
    for _ in range(FLIPS):
        path.write_bytes(flipped(content, rng))
        with pytest.raises(sw.InputError, match=re.escape(str(path))):
            checkpoint.load(folder, state)


def test_a_checkpoint_without_a_digest_is_refused(training):
    folder, state = training
    (folder / checkpoint.STATE).write_bytes(tensors.to_bytes(state))
    with pytest.raises(sw.InputError, match="earlier version"):
        checkpoint.load(folder, state)


def row(key: str) -> Finished:
    numbers = np.random.default_rng(int(key)).normal(size=50).astype(np.float32)
    outcome = Outcome({"rmse": float(numbers.mean())}, {"errors": numbers})
    return Finished(key, "toy", "a", int(key), {"seed": int(key)}, outcome, 1.5, {"commit": "x"})


def plain(done: Finished) -> tuple:
    arrays = {name: a.tobytes() for name, a in done.outcome.arrays.items()}
    return (*done[:5], done.outcome.numbers, arrays, *done[6:])


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.sqlite"
    with open_store(path) as opened:
        opened.add(map(row, KEYS))
    return path


def test_one_flipped_bit_anywhere_in_a_store_never_changes_a_row(store):
    rng, content = np.random.default_rng(0), store.read_bytes()
    truth, refused = {key: plain(row(key)) for key in KEYS}, 0
    for _ in range(FLIPS):
        store.write_bytes(flipped(content, rng))
        try:
            with open_store(store) as opened:
                opened.seconds("toy")
                for done in opened.get(KEYS):
                    assert plain(done) == truth[done.key]
        except sw.InputError as error:
            refused += str(store) in str(error)
    assert refused > FLIPS // 4


def test_a_damaged_row_is_found_before_a_sweep_begins_and_can_be_deleted(store):
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE results SET numbers = '{}' WHERE key = ?", KEYS[2:3])
    connection.close()
    with open_store(store) as opened, pytest.raises(sw.InputError, match="DELETE") as error:
        opened.seconds("toy")
    command = re.search(r'"(DELETE .*)"', str(error.value))
    assert command is not None
    with sqlite3.connect(store) as connection:
        connection.execute(command[1])
    connection.close()
    with open_store(store) as opened:
        assert opened.seconds("toy").keys() == {*KEYS} - {KEYS[2]}


def test_a_store_of_the_layout_before_keeps_its_rows(store):
    with sqlite3.connect(store) as connection:
        connection.execute("ALTER TABLE results DROP COLUMN sha256")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    for _ in range(2):
        with open_store(store) as opened:
            assert [plain(done) for done in opened.get(KEYS)] == [plain(row(key)) for key in KEYS]


def test_a_row_is_read_whatever_kind_of_number_was_written(tmp_path):
    with open_store(tmp_path / "s.sqlite") as opened:
        opened.add(
            [row(KEYS[1])._replace(seconds=np.float64(2.0)), row(KEYS[2])._replace(seconds=3)]
        )
        assert opened.seconds("toy") == {KEYS[1]: 2.0, KEYS[2]: 3.0}


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE results ADD COLUMN more AS (zeroblob(999999999))",
        "CREATE TRIGGER more AFTER INSERT ON results BEGIN DELETE FROM results; END",
        "DROP TABLE results; CREATE VIEW results AS WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS key, 'toy' AS study FROM n",
    ],
    ids=["column", "trigger", "view"],
)
def test_a_store_that_computes_is_refused(store, change):
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.executescript(change)
    with bounded(), pytest.raises(sw.InputError, match="not a store"), open_store(store):
        pass


def test_a_row_with_a_right_digest_is_refused_if_it_is_no_result(store):
    values = list(_with_digest(KEYS[0], "toy", "a", 0, "{}", "{}", "[" * 5000, b"", 1.0, "{}"))
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM results")
        connection.execute(f"INSERT INTO results VALUES ({','.join('?' * 11)})", values)
    with open_store(store) as opened, pytest.raises(sw.InputError, match="is no result"):
        opened.seconds("toy")


def test_a_written_file_and_its_name_are_put_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files.os, "fsync", lambda descriptor: synced.append(descriptor))
    files.write_atomically(tmp_path / "file", b"content")
    assert len(synced) == 2  # the file, then its folder


def test_writing_over_a_link_does_not_write_through_it(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    files.write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "link").is_symlink()
