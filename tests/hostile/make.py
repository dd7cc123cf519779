"""Writes the corpus beside it: small files that lie, each named after what is wrong with it.

    python tests/hostile/make.py

The files are committed; this says how they came to be. Logs are in `logs`, maps of columns in
`maps`, policy folders in `policies`, results with their scenes in `results`, stores in `stores`.
"""

import bz2
import io
import json
import pickle
import shutil
import sqlite3
import struct
import sys
import warnings
import zipfile
from pathlib import Path

import jax
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import log_files  # noqa: E402
from scenes import ROWS, circle  # noqa: E402

import sagewing as sw  # noqa: E402
from sagewing.report.page.drawing import drawing_of  # noqa: E402
from sagewing.report.page.scene_file import write_scene  # noqa: E402
from sagewing.results import BenchResult  # noqa: E402

LOGS, MAPS, POLICIES, RESULTS, STORES = (
    HERE / name for name in ("logs", "maps", "policies", "results", "stores")
)
FLIGHT = log_files.flown(seconds=0.3, imu_hz=20.0, pose_hz=10.0)
HEADER = "timestamp,gyro_x,gyro_y,gyro_z,acc_x,acc_y,acc_z,x,y,z"


class Trap:
    """Unpickled, it makes a file called "executed"."""

    def __reduce__(self):
        return (open, ("executed", "w"))


# PX4


def message(kind, body):
    return struct.pack("<HB", len(body), ord(kind)) + body


def ulog(name, formats, subscribed=1, before=b"", after=b""):
    head = b"ULog\x01\x12\x35\x01" + bytes(8) + before
    defined = b"".join(message("F", text.encode()) for text in formats)
    added = (
        message("A", struct.pack("<BH", i % 256, i) + b"sensor_combined") for i in range(subscribed)
    )
    data = message("D", bytes(2 + 8))
    (LOGS / f"{name}.ulg").write_bytes(head + defined + after + b"".join(added) + data)


def ulogs():
    one = "sensor_combined:b{} x;"
    nested = ["b:c[300] x;", "c:d[300] x;", "d:float[300] x;"]
    for name, count in (
        ("count_with_a_plus", "[+300]"),
        ("count_with_an_underscore", "[3_0_0]"),
        ("count_of_ten_digits", "[0000000300]"),
        ("count_with_a_space", "[ 300]"),
        ("count_in_two_brackets", "[300][1]"),
        ("count_of_zero", "[0]"),
        ("count_without_end", "[300"),
    ):
        odd = [text.replace("[300]", count) for text in nested]
        ulog(f"field_{name}", [one.format(count), *odd])
    two_names = [text.replace(" x;", " x y;") for text in nested]
    ulog("field_of_two_names", ["sensor_combined:b[300] x y;", *two_names])
    ulog("format_of_terabytes", [one.format("[300]"), *nested])
    ulog("format_that_holds_itself", ["sensor_combined:sensor_combined x;"])
    chain = [f"a{i}:a{i + 1} x;" for i in range(2000)]
    ulog("formats_2000_deep", ["sensor_combined:a0 x;", *chain, "a2000:float x;"])
    ulog(
        "formats_2000_deep_the_inner_first",
        ["a2000:float x;", *reversed(chain), "sensor_combined:a0 x;"],
    )
    hollow = [f"e{i}:e{i + 1}[60000] x;" for i in range(4)]
    ulog("formats_without_fields_60000_times", ["sensor_combined:e0 x;", *hollow, "e4:"])
    ulog(
        "names_of_60000_letters",
        [f"sensor_combined:b[60000] {'x' * 60000};", "b:uint8_t x;"],
    )
    ulog("format_with_two_colons", ["sensor_combined:float x;:b[300] x;", *nested])
    ulog("subscribed_2000_times", ["sensor_combined:uint8_t[60000] x;"], subscribed=2000)
    hidden = b"".join(message("F", t.encode()) for t in [one.format("[300]"), *nested])
    ulog("format_after_data", [], after=message("D", bytes(10)) + hidden)
    unknown = struct.pack("<HB", 20000, ord("z")) + hidden
    ulog("format_within_an_unknown_message", [], after=unknown + bytes(20000 - len(hidden)))
    (LOGS / "definitions_that_lead_back.ulg").write_bytes(
        b"ULog\x01\x12\x35\x01" + bytes(8) + message("I", bytes(900)) + struct.pack("<HB", 500, 0)
    )
    (LOGS / "header_alone.ulg").write_bytes(b"ULog\x01\x12\x35\x01" + bytes(8))
    whole = log_files.ulog_bytes(log_files.px4(FLIGHT))
    (LOGS / "cut_in_its_definitions.ulg").write_bytes(whole[:90])
    flags = bytearray(whole)
    flags[19 + 8], flags[19 + 16 : 19 + 40] = 1, struct.pack("<QQQ", 20, 2**63 - 1, 17)
    (LOGS / "appended_data_at_odd_places.ulg").write_bytes(flags)
    timeless = log_files.ulog_bytes(log_files.px4(FLIGHT)).replace(b"timestamp", b"timestamq")
    (LOGS / "topics_without_time.ulg").write_bytes(timeless)


# NumPy


def member(header, body=b"", version=1):
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(text)) + text + body


def npz(name, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(LOGS / f"{name}.npz", "w", compression) as archive:
        for inside, content in members:
            # Of a fixed date, so that the file is the same whenever it is made
            archive.writestr(zipfile.ZipInfo(inside), content, compression)


def described(shape, kind="'<f8'"):
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}"


def arrays(**changed):
    made = {
        "imu_t": FLIGHT.imu_t,
        "acc": FLIGHT.acc,
        "gyro": FLIGHT.gyro,
        "pose_t": FLIGHT.pose_t,
        "pos": FLIGHT.position,
        "quat_wxyz": FLIGHT.quaternion,
    }
    return made | changed


def npzs():
    good = member(described((1,)), bytes(8))
    npz("member_without_npy", [("acc", member(described((10**12,))))])
    npz("member_that_is_text", [("acc", b"hello"), ("README.txt", b"hello")])
    npz("member_outside_of_the_folder", [("../../outside.npy", b"nothing")])
    npz("header_of_3000_brackets", [("acc.npy", member("[" * 3000))])
    npz("header_of_3000_closed_brackets", [("acc.npy", member("[" * 3000 + "]" * 3000))])
    npz("header_of_9000_signs", [("acc.npy", member("-" * 9000 + "1"))])
    npz("header_that_computes", [("acc.npy", member("__import__('os').system('touch executed')"))])
    npz("header_of_version_9", [("acc.npy", member(described((1,)), bytes(8), version=9))])
    npz("header_cut_off", [("acc.npy", good[:9])])
    npz("shape_of_terabytes", [("acc.npy", member(described((10**12, 3)), bytes(24)))])
    npz("shape_below_zero", [("acc.npy", member(described((-1, 3)), bytes(24)))])
    npz("shape_of_4000_axes", [("acc.npy", member(described((1,) * 4000)[:9900], bytes(8)))])
    npz("shape_that_is_text", [("acc.npy", member(described("'a'")))])
    npz("type_of_a_gigabyte", [("acc.npy", member(described((1,), "'<U268435456'"), bytes(8)))])
    npz("type_without_bytes", [("acc.npy", member(described((10**15,), "'|V0'")))])
    npz("gigabyte_of_zeros", [("acc.npy", bytes(1 << 30))], zipfile.ZIP_BZIP2)
    np.savez(LOGS / "pickled_object.npz", **arrays(acc=np.array([Trap()], object)))
    packed = pickle.dumps(Trap())
    npz("pickle_in_place_of_an_array", [("acc.npy", packed), ("acc", packed)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        npz("member_twice", [("acc.npy", good), ("acc.npy", member(described((10**12,))))])
    np.savez(LOGS / "complex_numbers.npz", **arrays(acc=FLIGHT.acc.astype(complex)))
    np.savez(LOGS / "text_in_place_of_numbers.npz", **arrays(acc=np.array(["a", "b"])))
    np.savez(LOGS / "times_with_two_axes.npz", **arrays(imu_t=FLIGHT.acc))
    np.savez(LOGS / "no_rows.npz", **{name: a[:0] for name, a in arrays().items()})
    np.savez(LOGS / "only_nan.npz", **{name: np.nan * a for name, a in arrays().items()})
    huge = {name: np.full_like(a, 1e308) for name, a in arrays().items()}
    np.savez(LOGS / "numbers_of_1e308.npz", **huge)
    whole = io.BytesIO()
    np.savez(whole, **arrays())
    (LOGS / "cut_off.npz").write_bytes(whole.getvalue()[:700])
    locked = bytearray(whole.getvalue())
    for at in (locked.find(b"PK\x03\x04") + 6, locked.find(b"PK\x01\x02") + 8):
        locked[at] |= 1
    (LOGS / "member_with_a_password.npz").write_bytes(locked)


# Text


def tables():
    row = "1,0,0,0,0,0,9.8,0,0,0"
    for name, text in {
        "header_alone": HEADER,
        "line_of_40000_letters": f"{HEADER}\n{row}\n" + "1" * 40000,
        "columns_5000": "\n".join([",".join(f"c{i}" for i in range(5000)), "," * 4999, "," * 4999]),
        "cells_all_empty": f"{HEADER}\n" + ",,,,,,,,,\n" * 50,
        "cell_of_5000_digits": f"{HEADER}\n{row}\n" + "9" * 5000 + ",0,0,0,0,0,9.8,0,0,0\n",
        "rows_of_different_lengths": f"{HEADER}\n{row}\n1,2\n{row},4,5\n",
        "time_that_stands_still": f"{HEADER}\n" + f"{row}\n" * 50,
        "time_of_1e308": f"{HEADER}\n" + f"1e308{row[1:]}\n" * 20,
        "names_like_markup": "[/bold],:warning:,\x1b[2J,<script>\n" + "1,2,3,4\n" * 5,
        "names_all_the_same": ",".join(["acc_x"] * 10) + "\n" + f"{row}\n" * 5,
        "numbers_of_other_scripts": f"{HEADER}\n" + "\u0661,\u0662,3,4,5,6,7,8,9,0\n" * 5,
        "quotes_without_end": f'{HEADER}\n"1,2,3,4,5,6,7,8,9,0\n',
        "comments_alone": "# 1,2,3\n" * 30,
        "delimiters_alone": ",\n" * 30,
    }.items():
        (LOGS / f"{name}.csv").write_text(text)
    (LOGS / "nul_bytes.csv").write_bytes(f"{HEADER}\n{row}\n".encode() + bytes(500))
    (LOGS / "not_utf8.csv").write_bytes(f"{HEADER}\n{row}\n".encode() + b"\xff\xfe1,2\n")
    (LOGS / "empty.csv").write_bytes(b"")
    for name, data, mount in (
        ("euroc_columns_missing", "#t\n1,2\n3,4\n", ""),
        ("euroc_mount_of_nan", None, "T_BS:\n  data: [" + ", ".join(["nan"] * 16) + "]\n"),
        ("euroc_mount_of_1e300", None, "T_BS:\n  data: [" + ", ".join(["1e300"] * 16) + "]\n"),
        ("euroc_mount_of_three", None, "T_BS:\n  data: [1, 2, 3]\n"),
        ("euroc_long_line", "1" * 40000, ""),
    ):
        folder = log_files.write_euroc(LOGS / name, FLIGHT, "vicon0", np.eye(4)) / "mav0"
        if data is not None:
            (folder / "imu0" / "data.csv").write_text(data)
        if mount:
            (folder / "vicon0" / "sensor.yaml").write_text(mount)


# ROS


def bag_record(fields, data):
    packed = b"".join(
        struct.pack("<I", len(k) + 1 + len(v)) + k + b"=" + v for k, v in fields.items()
    )
    return struct.pack("<I", len(packed)) + packed + struct.pack("<I", len(data)) + data


def bags():
    log_files.write_bag1(LOGS / "whole.bag", FLIGHT)
    whole = (LOGS / "whole.bag").read_bytes()
    (LOGS / "whole.bag").unlink()
    start = len(b"#ROSBAG V2.0\n")
    count = whole.index(b"conn_count=") + len(b"conn_count=")
    for name, made in {
        "cut_off": whole[: len(whole) // 2],
        "header_of_4_gigabytes": whole[:start] + b"\xff\xff\xff\xff" + whole[start + 4 :],
        "connections_4_billion": whole[:count] + b"\xff\xff\xff\xff" + whole[count + 4 :],
        "index_beyond_the_end": whole.replace(
            whole[(at := whole.index(b"index_pos=") + 10) : at + 8], struct.pack("<Q", 2**62), 1
        ),
        "chunk_that_unpacks_to_a_gigabyte": unpacking(whole),
        "chunk_of_unknown_compression": whole.replace(b"compression=none", b"compression=nope"),
        "message_of_other_type": whole.replace(b"PoseStamped", b"Imu\0\0\0\0\0\0\0\0"),
        "version_9": whole.replace(b"V2.0", b"V9.0", 1),
        "magic_alone": whole[:start],
    }.items():
        (LOGS / f"{name}.bag").write_bytes(made)
    for storage in ("mcap", "db3"):
        folder = LOGS / f"ros2_{storage}"
        log_files.write_bag2(folder, FLIGHT, storage=storage)
        (file,) = folder.glob(f"*.{storage}")
        whole, said = file.read_bytes(), (folder / "metadata.yaml").read_text()
        shutil.rmtree(folder)
        MAKE[storage](whole, said)


def unpacking(whole):
    """The first chunk in place of its own data has a gigabyte of zeros, packed."""
    bomb = bz2.compress(bytes(1 << 30))
    fields = {b"compression": b"bz2", b"op": b"\x05", b"size": struct.pack("<I", 1 << 30)}
    chunk = bag_record(fields, bomb)
    start = 4 + struct.unpack_from("<I", whole, 13)[0] + 13
    start += 4 + struct.unpack_from("<I", whole, start)[0]
    length = 4 + struct.unpack_from("<I", whole, start)[0]
    length += 4 + struct.unpack_from("<I", whole, start + length)[0]
    # The index keeps its place: what follows the chunk is moved to where it was.
    return whole[:start] + chunk + bytes(max(0, length - len(chunk))) + whole[start + length :]


def mcaps(whole, said):
    for name, made in {
        "cut_off": whole[: len(whole) // 2],
        "record_of_2_to_the_63": whole[:9] + struct.pack("<Q", 2**63 - 1) + whole[17:],
        "summary_at_its_start": whole[:-28] + struct.pack("<Q", 8) + whole[-20:],
        "without_records": whole[:8] + whole[-37:],
        "messages_of_zeros": whole.replace(b"ros2msg", b"ros9msg"),
    }.items():
        (LOGS / f"mcap_{name}.mcap").write_bytes(made)
    for name, text in {
        "metadata_of_brackets": "[" * 1500,
        "metadata_of_brackets_60_times": f"- {'[' * 300}{']' * 300}\n" * 60,
        "metadata_that_runs_code": "!!python/object/apply:os.system ['touch executed']\n",
        "metadata_that_names_a_file_outside": said.replace(
            "relative_file_paths:", "relative_file_paths: [/etc/passwd]\n  other:"
        ),
        "metadata_of_files_packed": said.replace("compression_mode: ''", "compression_mode: file"),
        "metadata_alone": said,
        "metadata_of_aliases": "a: &a [x, x]\n"
        + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(24)
        ),
    }.items():
        (LOGS / name).mkdir()
        (LOGS / name / "metadata.yaml").write_text(text)


def databases(whole, said):
    forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    for name, changes in {
        "table_without_end": [
            "DROP TABLE schema",
            f"CREATE VIEW schema AS {forever} SELECT max(i) AS schema_version FROM n",
        ],
        "column_that_is_computed": [
            "ALTER TABLE messages RENAME COLUMN data TO other",
            "ALTER TABLE messages ADD COLUMN data AS (zeroblob(999999999))",
        ],
        "table_missing": ["DROP TABLE messages"],
        "messages_too_short": ["UPDATE messages SET data = x'0001'"],
        "messages_of_no_type": ["UPDATE topics SET type = 7"],
        "qos_of_brackets": [f"UPDATE topics SET offered_qos_profiles = '{'[' * 1500}'"],
    }.items():
        path = LOGS / f"db3_{name}.db3"
        path.write_bytes(whole)
        with sqlite3.connect(path) as connection:
            for change in changes:
                connection.execute(change)
        connection.execute("VACUUM")
        connection.close()
    (LOGS / "db3_cut_off.db3").write_bytes(whole[:5000])
    (LOGS / "db3_page_size_of_zero.db3").write_bytes(whole[:16] + bytes(2) + whole[18:])


MAKE = {"mcap": mcaps, "db3": databases}


# Maps, policies, results, stores


def maps():
    for name, text in {
        "unit_in_a_list": '[imu]\nacc_unit = ["g"]\n',
        "unit_in_a_table": "[imu]\ntime_unit = {a = 1}\n",
        "delay_of_400_digits": f"[pose]\ndelay_ms = {'1' * 400}\n",
        "delay_of_5000_digits": f"[pose]\ndelay_ms = {'1' * 5000}\n",
        "delay_of_nan": "[pose]\ndelay_ms = nan\n",
        "key_of_20000_dots": "a" + ".a" * 20000 + " = 1\n",
        "table_of_20000_dots": "[a" + ".a" * 20000 + "]\n",
        "keys_of_400_dots_75_times": "".join(f"k{i}{'.a' * 400} = 1\n" for i in range(75)),
        "brackets_5000": "frame = " + "[\n" * 5000,
        "std_of_1e300": "[pose]\nposition_std = 1e300\n",
        "std_of_1e_minus_300": "[pose]\nattitude_std = 1e-300\n",
        "frame_that_is_a_list": 'frame = ["enu"]\n',
        "columns_of_tables": "[imu]\nacc = [{}, {}, {}]\n",
        "file_outside_of_the_folder": '[imu]\nfile = "../../etc/passwd"\n',
        "section_that_is_a_list": "imu = [[]]\n",
        "name_like_markup": '"[/bold]:warning:" = 1\n',
        "not_toml": "{{{{\n",
    }.items():
        (MAPS / f"{name}.toml").write_text(text)
    (MAPS / "not_utf8.toml").write_bytes(b'frame = "\xff"\n')


def policies():
    good = POLICIES / "good"
    sw.Policy(sw.Architecture(1, 1), key=jax.random.key(0)).save(good)
    card, weights = json.loads((good / "policy.json").read_text()), good / "weights.safetensors"
    # Of the version without digests, so that more than these is looked at
    del card["sha256"]
    card["version"] = 1

    def policy(name, text=None, numbers=None):
        (POLICIES / name).mkdir()
        said = json.dumps(card) if text is None else text
        (POLICIES / name / "policy.json").write_text(said)
        if numbers is not None:
            (POLICIES / name / "weights.safetensors").write_bytes(numbers)

    header = struct.pack("<Q", 2**63 - 1) + b"{}"
    lie = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    policy("weights_missing")
    policy("weights_that_are_a_pickle", numbers=pickle.dumps(Trap()))
    policy("weights_with_a_header_of_2_to_the_63", numbers=header)
    policy("weights_of_terabytes", numbers=struct.pack("<Q", len(lie)) + lie)
    policy("weights_cut_off", numbers=weights.read_bytes()[:500])
    policy("weights_empty", numbers=b"")
    numbers = weights.read_bytes()
    policy("weights_of_3e38", numbers=numbers[:-400] + struct.pack("<f", 3e38) * 100)
    policy("card_of_brackets", "[" * 3000)
    policy("card_that_is_a_pickle", pickle.dumps(Trap(), 0).decode())
    policy("card_that_is_a_list", "[]")
    policy("card_of_another_format", json.dumps(card | {"format": "other"}))
    policy("version_that_is_a_list", json.dumps(card | {"version": [1]}))
    policy("version_of_400_digits", json.dumps(card | {"version": 10**400}))
    policy("kind_unknown", json.dumps(card | {"kind": "[/bold]:x:"}))
    policy("kind_that_is_a_list", json.dumps(card | {"kind": []}))
    policy("provenance_that_is_null", json.dumps(card | {"provenance": None}))
    policy("architecture_that_is_a_list", json.dumps(card | {"architecture": []}))
    policy(
        "architecture_missing", json.dumps({k: v for k, v in card.items() if k != "architecture"})
    )
    for key, value in (
        ("n_x", 10**400),
        ("n_x", -1),
        ("hidden", "a"),
        ("encoder", [[]]),
        ("head", [1] * 10_000),
    ):
        odd = card["architecture"] | {key: value}
        what = "of_400_digits" if value == 10**400 else type(value).__name__
        what = "of_10000_layers" if key == "head" else what
        policy(f"architecture_with_{key}_{what}", json.dumps(card | {"architecture": odd}))
    shutil.rmtree(good)


def results():
    made = BenchResult("run", {"log": "a.ulg", "notes": ["one"]}, 0, ROWS)
    content = made.content() | {"commit": None}
    drawing = drawing_of(circle(seconds=1.0, rate=10.0))

    def result(name, text, scene=None):
        folder = RESULTS / name
        folder.mkdir()
        (folder / "result.json").write_text(text)
        if scene is None:
            write_scene(folder / "scene.npz", drawing)
        else:
            (folder / "scene.npz").write_bytes(scene)

    def rows(**changed):
        return json.dumps(content | {"rows": [{**ROWS[0], **changed}]})

    result("number_of_400_digits", rows(pos_rmse_m=10**400))
    result(
        "number_of_1e308",
        json.dumps(content | {"rows": [{**r, "pos_rmse_m": 1e308} for r in ROWS]}),
    )
    result("number_that_is_nan", rows(pos_rmse_m=float("nan")))
    result("number_that_is_text", rows(nis_mean="1"))
    result("expectation_of_400_digits", rows(nis_mean=1.0, nis_expected=10**400))
    result("filter_with_a_lone_surrogate", rows(filter="\ud800"))
    result("scenario_that_is_a_list", rows(scenario=[]))
    result("row_that_is_a_list", json.dumps(content | {"rows": [[]]}))
    surrogate = {"log": "\udcff.ulg", "notes": ["\ud800"]}
    result("note_with_a_lone_surrogate", json.dumps(content | {"settings": surrogate}))
    deep = "[" * 900 + "]" * 900
    result("note_900_deep", json.dumps(content).replace('["one"]', f"[{deep}]"))
    result("log_900_deep", json.dumps(content).replace('"a.ulg"', deep))
    result(
        "versions_900_deep",
        json.dumps(content | {"versions": {"a": 0}}).replace(": 0}", f": {deep}}}"),
    )
    result("brackets_5000", "[" * 5000)
    result("seed_of_5000_digits", json.dumps(content).replace('"seed": 0', '"seed": ' + "1" * 5000))
    result("command_like_markup", json.dumps(content | {"command": "</title><script>[/b]:x:"}))
    result("schema_that_is_a_table", json.dumps(content | {"schema": {}}))
    result("not_json", "{")
    result("empty", "")
    text = json.dumps(content)
    packed = io.BytesIO()
    np.savez(packed, about=np.array([Trap()], object))
    result("scene_that_is_a_pickle", text, packed.getvalue())
    result("scene_that_is_text", text, b"hello")
    for name, about in (
        ("scene_about_nothing", {}),
        ("scene_of_400_digits", drawing.about | {"nis_window_s": 10**400}),
        (
            "scene_with_a_lone_surrogate",
            drawing.about | {"name": "\ud800", "tracks": ["\ud800"] * 3},
        ),
        ("scene_of_outages_without_end", drawing.about | {"outages": [[0, 1e400]]}),
    ):
        packed, said = io.BytesIO(), np.frombuffer(json.dumps(about).encode(), np.uint8)
        np.savez_compressed(packed, about=said, **drawing.arrays)
        result(name, text, packed.getvalue())


def stores():
    (STORES / "text.sqlite").write_bytes(b"hello\n" * 100)
    (STORES / "header_alone.sqlite").write_bytes(b"SQLite format 3\0")
    path = STORES / "database_of_another_program.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (a)")
    connection.close()
    whole = path.read_bytes()
    (STORES / "page_size_of_zero.sqlite").write_bytes(whole[:16] + bytes(2) + whole[18:])
    (STORES / "cut_off.sqlite").write_bytes(whole[:1000])


if __name__ == "__main__":
    for folder in (LOGS, MAPS, POLICIES, RESULTS, STORES):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    for make in (ulogs, npzs, tables, bags, maps, policies, results, stores):
        make()
