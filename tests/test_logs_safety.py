"""Damaged, lying and hostile files: each is read as far as it can be, or refused in a sentence."""

import bz2
import contextlib
import io
import os
import shutil
import sqlite3
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from bounds import bounded
from log_files import (
    flown,
    pose_topics,
    write_bag1,
    write_bag2,
)

import sagewing as sw
from sagewing.cli import main as cli
from sagewing.files import read_regular
from sagewing.logs.readers import rosbag_bounded
from sagewing.logs.readers.map import read_map
from sagewing.logs.readers.read import read_log
from sagewing.logs.repair import unit_quaternions
from sagewing.logs.signal import Signal

FLIGHT = flown(seconds=1.3, imu_hz=50.0, pose_hz=20.0)
LARGEST_BYTES = 200 << 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A good bag of each ROS."""
    root = tmp_path_factory.mktemp("logs")
    write_bag1(root / "flight.bag", FLIGHT)
    write_bag2(root / "db3", FLIGHT)
    return {"bag1": root / "flight.bag", "db3": root / "db3"}


def refused_without_memory(path, why):
    """Refused with this, and before much was allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(sw.InputError, match=why):
            read_log(path)
        assert tracemalloc.get_traced_memory()[1] < LARGEST_BYTES
    finally:
        tracemalloc.stop()


def npz_with(path, header, body, size=None):
    """An archive whose `acc` has this header and body."""
    text = f"{header!r}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("acc.npy", member)
    return path


def test_an_array_that_claims_more_than_its_file_is_not_allocated(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 3)}
    path = npz_with(tmp_path / "lies.npz", header, bytes(240))
    refused_without_memory(path, r"lies.npz: acc says it has shape \(1000000000000, 3\)")


def test_an_archive_that_unpacks_without_end_is_not_unpacked(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 24,)}
    path = npz_with(tmp_path / "bomb.npz", header, bytes(1 << 27))
    refused_without_memory(path, "unpack to more than 100 times its size")


def test_a_hole_in_an_archive_makes_no_room_for_what_unpacks_without_end(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 24,)}
    bomb = npz_with(tmp_path / "bomb.npz", header, bytes(1 << 27)).read_bytes()
    path = tmp_path / "hole.npz"
    with path.open("wb") as file:
        file.write(bomb[:30])  # the beginning of a zip file
        file.seek(1 << 31)
        file.write(bomb)
    refused_without_memory(path, "unpack to more than 100 times its size")


def test_an_array_is_not_unpacked_once_for_every_entry_of_its_name(tmp_path):
    path = tmp_path / "twice.npz"
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("acc.npy", b"")
    refused_without_memory(path, "two arrays of one name")


def test_python_objects_in_an_archive_are_not_unpacked(tmp_path):
    class Bad:
        def __reduce__(self):
            return (exit, (3,))

    path = tmp_path / "pickle.npz"
    np.savez(path, acc=np.array([Bad()], object))
    refused_without_memory(path, "holds Python objects")


def ulog_message(kind, body):
    return struct.pack("<HB", len(body), ord(kind)) + body


@pytest.mark.parametrize(
    ("formats", "why"),
    [
        (["a:b[60000] x;", "b:c[60000] x;", "c:float[60000] x;"], "more than a message can have"),
        (["a:a x;"], "holds itself"),
        (["a:b x;", "b:a x;"], "holds itself"),
    ],
)
def test_a_format_that_claims_terabytes_is_not_laid_out(tmp_path, formats, why):
    path = tmp_path / "lies.ulg"
    head = b"ULog\x01\x12\x35\x01" + bytes(8)
    defined = b"".join(ulog_message("F", f.encode()) for f in formats)
    path.write_bytes(head + defined + ulog_message("A", struct.pack("<BH", 0, 0) + b"a"))
    refused_without_memory(path, why)


def test_a_chunk_of_a_bag_that_unpacks_without_end_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(rosbag_bounded, "LARGEST_CHUNK", 1 << 16)
    path = tmp_path / "bomb.bag"
    from rosbags.rosbag1 import Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC)
    packed = Writer(path)
    packed.set_compression(Writer.CompressionFormat.BZ2)
    with packed as writer:
        for topic, kind, messages in pose_topics(FLIGHT, store):
            connection = writer.add_connection(topic, kind, typestore=store)
            for t, message in messages * 10:
                writer.write(connection, round(1e9 * t), store.serialize_ros1(message, kind))
    refused_without_memory(path, "a chunk unpacks to more than")


def test_rosbags_itself_is_as_before_after_reading(files):
    from rosbags.rosbag1.reader import decompressors
    from rosbags.rosbag2 import storage_mcap

    before = dict(storage_mcap.DECOMPRESSORS)
    read_log(files["bag1"])
    read_log(files["db3"])
    assert decompressors["bz2"] is bz2.decompress
    assert before == storage_mcap.DECOMPRESSORS


def test_an_mcap_chunk_that_unpacks_without_end_is_not_unpacked(tmp_path, monkeypatch):
    from rosbags.rosbag2 import storage_mcap

    write_bag2(tmp_path / "bag", FLIGHT, storage="mcap")
    (path,) = (tmp_path / "bag").glob("*.mcap")
    monkeypatch.setattr(rosbag_bounded, "LARGEST_CHUNK", 1 << 10)
    packed = storage_mcap.zstd.compress(bytes(1 << 28))

    def zeros(data, compression, size, crc):
        return storage_mcap.DECOMPRESSORS["zstd"](packed, size)

    monkeypatch.setattr(storage_mcap, "decompress", zeros)
    refused_without_memory(path, "a chunk unpacks to more than")


def test_quality_of_service_in_metadata_is_checked_before_it_is_parsed(tmp_path, files):
    nested = '"' + 1500 * r"\x5b" + '"'  # brackets, but for the text of the metadata itself
    folder = changed(files, tmp_path, "profiles: []", f"profiles: {nested}")
    refused_without_memory(folder, "brackets more than")


def changed(files, place, old, new):
    """A copy of the good ROS 2 bag, with other metadata."""
    folder = place / "changed"
    shutil.copytree(files["db3"], folder)
    said = (folder / "metadata.yaml").read_text()
    assert old in said
    (folder / "metadata.yaml").write_text(said.replace(old, new))
    return folder


@pytest.mark.parametrize("mode", ["file", "message"])
@pytest.mark.parametrize(
    "key",
    [
        "compression_mode: ",
        '"compression_mode": ',
        "# compression_mode: none\n  compression_mode: ",
    ],
)
def test_a_bag_compressed_as_a_whole_is_not_unpacked(tmp_path, files, key, mode):
    unpacked = "compression_format: ''\n  compression_mode: ''"
    said = f"compression_format: zstd\n  {key}{mode.upper()}"
    folder = changed(files, tmp_path, unpacked, said)
    refused_without_memory(folder, f"compressed by {mode}; unpack it first")


def test_metadata_that_merge_with_themselves_are_not_parsed(tmp_path, files):
    """Ten of ten of ten: a parser would copy what each level names."""
    levels = ["a0: &a0 {k: 1}"]
    levels += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    folder = changed(files, tmp_path, "rosbag2_", "\n".join([*levels, "rosbag2_"]))
    with bounded():
        refused_without_memory(folder, r"metadata.yaml has anchors")


def test_a_database_outside_of_the_bag_is_not_computed_either(tmp_path, files):
    """SQLite takes a name as an address, in which %2f is a slash."""
    (database,) = files["db3"].glob("*.db3")
    outside = tmp_path / "outside.db3"
    shutil.copyfile(database, outside)
    with contextlib.closing(sqlite3.connect(outside)) as connection:
        forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        connection.execute("DROP TABLE schema")
        connection.execute(
            f"CREATE VIEW schema AS {forever} SELECT max(i) AS schema_version FROM n"
        )
    folder = changed(files, tmp_path, f"- {database.name}", "- x%2f..%2f..%2foutside.db3")
    (folder / "x").mkdir()
    (folder / "x%2f..%2f..%2foutside.db3").write_bytes(b"x")
    with bounded():
        refused_without_memory(folder, "computes some of its tables")


def test_definitions_in_a_bag_are_not_run(tmp_path, monkeypatch):
    """rosbags makes Python from them where its types are used; we do not use its types."""
    import rosbags.typesys.store

    path = tmp_path / "plain.bag"
    write_bag1(path, FLIGHT)

    def never(*args, **kwargs):
        raise AssertionError("a definition was compiled")

    monkeypatch.setattr(rosbags.typesys.store.Typestore, "register", never)
    assert len(read_log(path).acc.t) == len(FLIGHT.imu_t)


def test_names_in_a_log_do_not_become_files_or_markup(tmp_path, capsys):
    """A topic's name reaches the terminal as text, and no file is called by it."""
    path, out = tmp_path / "[red]odd.bag", tmp_path / "out"
    name = "/../../[/bold]escape"

    def topics(flight, store):
        (_, imu_kind, imu), (_, kind, poses) = pose_topics(flight, store)
        return [("/imu", imu_kind, imu), (name, kind, poses)]

    write_bag1(path, FLIGHT, topics)
    cli.main(["inspect", str(path)])
    assert "[/bold]escape" in capsys.readouterr().out.replace("\n", "")
    with pytest.raises(SystemExit) as refused:
        cli.main(["run", str(path), "--out", str(out), "--outage", "50:60"])
    assert refused.value.code == 2
    assert {p.name for p in tmp_path.iterdir()} == {path.name}


def test_an_empty_and_an_unreadable_file_are_named(tmp_path):
    empty = tmp_path / "empty.ulg"
    empty.write_bytes(b"")
    with pytest.raises(sw.InputError, match=r"empty.ulg is empty"):
        read_log(empty)
    line = tmp_path / "line.csv"
    line.write_bytes(b"1," * (1 << 16))
    with pytest.raises(sw.InputError, match="no log that we know"):
        read_log(line)


def test_a_zip_that_is_no_npz_is_refused(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../outside.npy", b"nothing")
    path = tmp_path / "odd.npz"
    path.write_bytes(packed.getvalue())
    with pytest.raises(sw.InputError, match="not a readable"):
        read_log(path)
    assert {p.name for p in tmp_path.iterdir()} == {"odd.npz"}


def test_a_cut_off_archive_and_a_pipe_are_refused_at_once(tmp_path):
    np.savez(tmp_path / "whole.npz", imu_t=np.arange(100.0))
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    os.mkfifo(tmp_path / "pipe.csv")
    for name, why in (("cut.npz", "cut off or damaged"), ("pipe.csv", "neither a file nor")):
        with pytest.raises(sw.InputError, match=why):
            read_log(tmp_path / name)


def test_a_manifest_with_a_hole_of_gigabytes_is_not_read_into_memory(tmp_path):
    np.savez(tmp_path / "flight.npz", imu_t=np.arange(100.0))
    manifest = tmp_path / "manifest.csv"
    manifest.write_text("flight,tau_ms\nother,0\n")
    os.truncate(manifest, 2 << 30)
    with bounded():
        refused_without_memory(tmp_path / "flight.npz", r"manifest.csv has more than \d+ bytes")


def test_a_line_of_a_map_ends_where_TOML_ends_it(tmp_path):
    """A parser's time grows with the square of a key's length, and this line is no comment."""
    path = tmp_path / "map.toml"
    path.write_text('"\u2028#"' + ".a" * 100_000 + " = 1\n", encoding="utf-8")
    with bounded(), pytest.raises(sw.InputError, match="is no map"):
        read_map(path)


def test_a_file_that_says_it_is_empty_is_not_read_without_end():
    """Those of /proc say so, and a file may grow while it is read."""
    path = Path("/proc/self/status")
    if not path.exists():
        pytest.skip("there is no /proc")
    assert path.stat().st_size == 0
    with pytest.raises(sw.InputError, match="has more than 100 bytes"):
        read_regular(path, 100)
    assert len(read_regular(path, 1 << 20)) > 100


def test_a_single_quaternion_beside_zeros_is_refused():
    attitude = Signal("attitude", np.arange(5.0), np.eye(5, 4))
    attitude.value[1:] = 0.0
    with pytest.raises(sw.InputError, match="all quaternions of attitude but one are zero"):
        unit_quaternions(attitude, "log", [])
