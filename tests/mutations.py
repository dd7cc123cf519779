"""What may happen to a file: bytes and blocks, and values that its format allows and no one needs.

Each takes `draw`, which chooses from a strategy of hypothesis, and the whole file.
"""

import copy
import io
import json
import re
import sqlite3
import warnings
import zipfile

from hypothesis import strategies as st

ODD_INTEGERS = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0xFFFFFFFF,
    2**63 - 1,
    2**64 - 1,
)
ODD_NUMBERS = (
    *("nan", "-nan", "inf", "-inf", "1e400", "-1e308", "1e-320", "9" * 400, "-0", "0", "1e9", "-1"),
    *("1_0", "+3", "0x10", "1.2.3", ".", "", " ", "\u0663", "true", "None", "1,5", "a", '"', "#"),
    *("\0", "\ufeff", "[/b]", ":x:", "\x1b[2J", "1;2", "\t", "=", "e5", "1e", "--1", "\u2028"),
)
ODD_TOML = (
    *('["g"]', "{}", "[]", "[[]]", "true", "nan", "-inf", "1e400", "1" * 400, "-1", "0", '""'),
    *('"g"', '"deg/s"', '"\\u0000"', "1979-05-27", "07:32:00", '["a","b","c"]', "[1,2,3]", "'''"),
    *("[" * 500, "{a=" * 200, "0x7f", '"../x"', '"time"', "[0,0,0]", "[0,0,0,0]", '"ned"', "="),
)
ODD_JSON = (
    *(None, True, False, 0, -1, 1, 10**400, -(10**30), 1e308, -1e-320, float("nan"), float("inf")),
    *("", "a", "\ud800", "\0", "<script>", "../../x", [], {}, [[]], [None], {"a": {}}, "[/b]:x:"),
    *(["a"] * 50, [0.0] * 300, "x" * 2000, json.loads("[" * 400 + "]" * 400), 2**63, 1e5),
)
KINDS = (*["flip"] * 4, *["size"] * 2, "put", "take", "repeat", "cut")
place = st.floats(0.0, 1.0) | st.floats(0.0, 0.05) | st.floats(0.95, 1.0)
length = st.integers(1, 8) | st.integers(1, 400)


def damaged(draw, whole):
    """Bytes changed, put in and taken out, blocks repeated, sizes that are odd, the end cut off."""
    made = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        if not made:
            break
        at = int(draw(place) * (len(made) - 1))
        kind = draw(st.sampled_from(KINDS))
        if kind == "flip":
            made[at] = draw(st.integers(0, 255))
        elif kind == "put":
            made[at:at] = draw(st.binary(min_size=1, max_size=16))
        elif kind == "take":
            del made[at : at + draw(length)]
        elif kind == "repeat":
            made[at:at] = made[at : at + draw(length)] * draw(st.integers(1, 30))
        elif kind == "size":
            wide = draw(st.sampled_from((1, 2, 4, 8)))
            value = draw(st.sampled_from(ODD_INTEGERS)) % 256**wide
            made[at : at + wide] = value.to_bytes(wide, "little")
        else:
            del made[at:]
    return bytes(made)


def table(draw, whole):
    """Cells of text replaced by odd ones."""
    parts = re.split(r"([,;\t\n ])", whole.decode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(parts) - 1) | st.integers(0, min(40, len(parts) - 1)))
        parts[at] = draw(st.sampled_from(ODD_NUMBERS) | st.text(max_size=5))
    return "".join(parts).encode("utf-8", "replace")


def toml(draw, whole):
    """Settings with odd values, under odd names, twice."""
    lines = whole.decode().splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        key, _, _ = lines[at].partition("=")
        kind = draw(st.sampled_from(("value", "value", "value", "key", "twice", "gone")))
        if kind == "value":
            lines[at] = f"{key}= {draw(st.sampled_from(ODD_TOML))}"
        elif kind == "key":
            lines[at] = f"{draw(st.sampled_from(ODD_TOML))}{lines[at][len(key) :]}"
        elif kind == "twice":
            lines.insert(at, lines[at])
        elif len(lines) > 1:
            del lines[at]
    return "\n".join(lines).encode()


def json_file(draw, whole):
    """Values of an object replaced by odd ones, keys taken out."""
    value = json.loads(whole)
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(_places(value)))
        if isinstance(holder, dict) and draw(st.integers(0, 4)) == 0:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(draw(st.sampled_from(ODD_JSON)))
        if not _places(value):
            break
    return json.dumps(value).encode()


def _places(value):
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], dict | list) and len(value[key]) < 40:
            found += _places(value[key])
    return found


def archive(draw, whole):
    """Members damaged inside, so that the archive itself is sound."""
    packed, made = zipfile.ZipFile(io.BytesIO(whole)), io.BytesIO()
    names = packed.namelist()
    chosen = draw(st.sampled_from(names))
    with zipfile.ZipFile(made, "w") as out, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # two members of a name
        for name in names:
            content = packed.read(name)
            if name == chosen:
                content = _member(draw, content)
                name = draw(st.sampled_from((name, name, name, "x", "../x.npy", names[0])))
            out.writestr(name, content)
    return made.getvalue()


ODD_HEADERS = (
    ("'<f8'", "'<f4'"),
    ("'<f8'", "'<c16'"),
    ("'<f8'", "'|O'"),
    ("'<f8'", "'<U2'"),
    ("'<f8'", "'<m8[s]'"),
    ("'<f4'", "'<f2'"),
    ("'<f8'", "[('a','<f8')]"),
    ("'<f8'", "[" * 60),
    ("(", "(0,"),
    ("(", "(-1,"),
    ("(", "(1,"),
    ("(", "(999999999999999999999,"),
    ("False", "True"),
    ("False", "0"),
)


def _member(draw, content):
    if content[:6] != b"\x93NUMPY" or draw(st.booleans()):
        return damaged(draw, content)
    end = content.index(b"\n")
    text = content[10:end].decode("latin1").rstrip()
    text = text.replace(*draw(st.sampled_from(ODD_HEADERS)))
    text = text.ljust(end - 10) + "\n"
    return (
        content[:8] + len(text).to_bytes(2, "little") + text.encode("latin1") + content[end + 1 :]
    )


ODD_FIELDS = (
    *("float[300]", "float[+3]", "float[3][1]", "b[65535]", "sensor_combined", "float[0]"),
    *("float[3_0]", "char[4000000000]", "uint64_t", "bool", "", "float ", "double[8191]", "_"),
)


def ulog(draw, whole):
    """The formats' types replaced by odd ones, and the sizes of messages."""
    made = whole
    for _ in range(draw(st.integers(1, 3))):
        found = list(re.finditer(rb"(uint64_t|float)(\[\d\])? ?\w*", made))
        if found and draw(st.integers(0, 3)):
            spot = draw(st.sampled_from(found))
            odd = draw(st.sampled_from(ODD_FIELDS)).encode()
            made = _resized(made, spot.start(), spot.start() + len(spot[1] + (spot[2] or b"")), odd)
        else:
            made = damaged(draw, made)
    return made


def _resized(whole, start, stop, text):
    """The format that has this field, with its new size."""
    head = whole.rfind(b"F", 0, whole.rfind(b":", 0, start) + 1)
    made = bytearray(whole[:start] + text + whole[stop:])
    if head >= 2:
        size = int.from_bytes(whole[head - 2 : head], "little") + len(text) - (stop - start)
        made[head - 2 : head] = (size % 65536).to_bytes(2, "little")
    return bytes(made)


ODD_SQL = (
    "UPDATE topics SET name = {value}",
    "UPDATE topics SET type = {value} WHERE id = 1",
    "UPDATE topics SET serialization_format = {value}",
    "UPDATE topics SET offered_qos_profiles = {value}",
    "UPDATE messages SET topic_id = {value} WHERE id % 3 = 0",
    "UPDATE messages SET timestamp = {value} WHERE id % 2 = 0",
    "UPDATE messages SET data = {value} WHERE id = 5",
    "UPDATE messages SET data = zeroblob(40)",
    "UPDATE message_definitions SET encoded_message_definition = {value}",
    "UPDATE schema SET schema_version = {value}",
    "DELETE FROM topics",
    "DELETE FROM messages",
    "DROP TABLE schema",
    "DROP TABLE message_definitions",
    "ALTER TABLE messages RENAME COLUMN data TO other",
    "ALTER TABLE messages RENAME TO other",
    "ALTER TABLE messages ADD COLUMN more AS (zeroblob(1000000000))",
    "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n",
)
ODD_VALUES = ("NULL", "''", "0", "-1", "1e308", "9223372036854775807", "'/imu'", "x'00'", "'[a'")


def database(draw, path):
    """Rows of a database, in place."""
    with sqlite3.connect(path) as connection:
        for _ in range(draw(st.integers(1, 3))):
            made = draw(st.sampled_from(ODD_SQL)).format(value=draw(st.sampled_from(ODD_VALUES)))
            try:
                connection.execute(made)
            except sqlite3.Error:
                break
    connection.close()
