"""rosbags' readers with bounds on memory and time, which rosbags does not set itself.

A chunk may claim to unpack to terabytes, metadata may nest without end, and a database may compute
its tables. Each is checked before rosbags reads it.
"""

import bz2
import contextlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import apsw
import lz4.frame
from rosbags.rosbag1 import Reader as Rosbag1Reader
from rosbags.rosbag1.reader import Chunk, decompressors
from rosbags.rosbag2 import Reader as Rosbag2Reader
from rosbags.rosbag2 import storage_mcap
from rosbags.rosbag2.reader import DirectoryReader
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Reader
from ruamel.yaml import YAML

from sagewing.databases import has_computed_content
from sagewing.errors import InputError
from sagewing.files import read_regular
from sagewing.logs.readers.text_table import printable

METADATA = "metadata.yaml"
# A chunk has some megabytes; one that unpacks to more than this is damaged. All messages together
# are at most INFLATION times the bag, and SMALL_BYTES for a small one. A ROS 1 bag unpacks
# overlapping chunks again and again: that work has a bound of its own.
LARGEST_CHUNK, INFLATION, SMALL_BYTES = 1 << 28, 100, 1 << 26
REPEATED_CHUNKS = 10
# A YAML parser is slow for nested brackets; metadata have them two deep.
LARGEST_YAML, DEEPEST_YAML = 1 << 20, 20
# An anchor lets YAML repeat a part of itself, over and over.
ANCHOR = r"(?:^|[\s,:\[{])&\S"


def largest_total(path: Path) -> int:
    """The bytes that all messages of a bag may have."""
    files = [path] if path.is_file() else [p for p in path.iterdir() if p.is_file()]
    return max(SMALL_BYTES, INFLATION * sum(file.stat().st_size for file in files))


class Unpacker:
    """Decompresses chunks, of which each and all together have a bound."""

    def __init__(self, path: Path, allowed: int):
        self.path, self.allowed, self.left = path, allowed, allowed

    def __call__(self, make: Callable[[], Any], data: bytes, *_: Any) -> bytes:
        """The data, unpacked by a new decompressor."""
        bound = min(LARGEST_CHUNK, self.left)
        unpacked = make().decompress(data, max_length=bound + 1)
        self.left -= len(unpacked)
        if len(unpacked) > bound:
            raise InputError(
                f"{self.path}: a chunk unpacks to more than {LARGEST_CHUNK >> 20} MiB, or all "
                f"chunks to more than {self.allowed >> 20} MiB; no log of its size does: it is "
                "damaged, or made to fill the memory."
            )
        return unpacked


class BoundedRosbag1(Rosbag1Reader):
    """A ROS 1 bag whose chunks are unpacked within the bounds."""

    def __init__(self, path: Path):
        super().__init__(path)
        self._unpack = Unpacker(path, REPEATED_CHUNKS * largest_total(path))

    def read_chunk(self) -> Chunk:
        """The chunk's place, with the bounded decompressor."""
        chunk = super().read_chunk()
        if chunk.decompressor is decompressors["none"]:
            return chunk
        streams = {
            decompressors["bz2"]: bz2.BZ2Decompressor,
            decompressors["lz4"]: lz4.frame.LZ4FrameDecompressor,
        }
        bounded = partial(self._unpack, streams[chunk.decompressor])
        return chunk._replace(decompressor=bounded)


class _ChannelsWithoutQos(dict[int, storage_mcap.Channel]):
    """Channels without their quality of service: YAML that is not needed and so is not parsed."""

    def __setitem__(self, key: int, channel: storage_mcap.Channel) -> None:
        super().__setitem__(key, channel._replace(metadata=b""))


class BoundedMcap(storage_mcap.McapReader):
    """An MCAP file; its chunks are bounded by `_bounded_mcap_chunks`."""

    def __init__(self, path: Any):
        super().__init__(path)
        self.channels = _ChannelsWithoutQos()


class BoundedSqlite(Sqlite3Reader):
    """A SQLite file that is checked before it is opened."""

    def open(self) -> None:
        """Refuses computed tables and nested YAML."""
        # The name that rosbags opens: SQLite reads it as a URI, in which %2f is a slash.
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        database = apsw.Connection(f"file:{self.path}?immutable=1", flags=flags)
        with contextlib.closing(database):
            if has_computed_content(database):
                raise InputError(
                    f"{self.path} computes some of its tables, which a bag never does; "
                    "record it again."
                )
            _check_qos(database, f"{self.path}")
        super().open()


def _check_qos(database: apsw.Connection, where: str) -> None:
    """Refuses topics whose quality of service, which rosbags parses, is not flat YAML."""
    columns = [row[1] for row in database.execute("PRAGMA table_info(topics)")]
    if "offered_qos_profiles" not in columns:
        return
    size = "SELECT coalesce(sum(length(CAST(offered_qos_profiles AS BLOB))), 0) FROM topics"
    ((total,),) = database.execute(size)
    if isinstance(total, int) and total > LARGEST_YAML:
        raise InputError(f"{where} has {total} bytes of offered_qos_profiles; it is damaged.")
    for (text,) in database.execute("SELECT offered_qos_profiles FROM topics"):
        if isinstance(text, str):
            _check_yaml(text, where)


class BoundedFolder(DirectoryReader):
    """A ROS 2 bag with metadata, which are checked before rosbags parses them."""

    STORAGE_PLUGINS = {"mcap": BoundedMcap, "sqlite3": BoundedSqlite}  # noqa: RUF012

    def open(self) -> None:
        """Refuses compression of the whole bag, pipes and nested YAML."""
        _check_folder(Path(str(self.path)))
        super().open()
        # Topics of metadata and files are matched by this, too, and BoundedMcap leaves it out.
        for reader in (self, *self.storages):
            reader.connections = [
                connection._replace(ext=connection.ext._replace(offered_qos_profiles=[]))
                for connection in reader.connections
            ]


def _check_folder(path: Path) -> None:
    for entry in path.iterdir():
        if not entry.is_file() and not entry.is_dir():  # reading a pipe would not end
            raise InputError(f"{path}: {printable(entry.name)} is no file; take it out.")
    file = path / METADATA
    text = read_regular(file, LARGEST_YAML).decode("utf-8", "replace")
    _check_yaml(text, str(file))
    content = YAML(typ="safe").load(text)["rosbag2_bagfile_information"]
    mode = str(content.get("compression_mode") or "none").lower()
    if mode != "none":
        raise InputError(f"{path} is compressed by {mode}; unpack it first: ros2 bag convert.")
    for topic in content["topics_with_message_count"]:
        qos = topic["topic_metadata"].get("offered_qos_profiles")
        if isinstance(qos, str):  # YAML within YAML
            _check_yaml(qos, str(file))


def _check_yaml(text: str, where: str) -> None:
    """Refuses brackets that are nested too deep, and anchors."""
    steps = [1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text)]
    if max(accumulate(steps), default=0) > DEEPEST_YAML:
        raise InputError(f"{where} has brackets more than {DEEPEST_YAML} deep; it is damaged.")
    if re.search(ANCHOR, text):
        raise InputError(f"{where} has anchors (&), which no bag has; it is damaged.")


class BoundedRosbag2(Rosbag2Reader):
    """A ROS 2 bag, a folder or a file, within the bounds."""

    STORAGE_PLUGINS = {  # noqa: RUF012
        "dir": BoundedFolder,
        ".mcap": BoundedMcap,
        ".db3": BoundedSqlite,
    }


@contextlib.contextmanager
def _bounded_mcap_chunks(unpack: Unpacker) -> Iterator[None]:
    """While this lasts, MCAP chunks are unpacked within the bounds.

    In rosbags' own table of decompressors: its MCAP reader calls them from a plain function, which
    a subclass cannot replace.
    """
    mcap: Any = storage_mcap  # its zstd is the standard library's or a backport
    bounded = {
        "zstd": partial(unpack, mcap.zstd.ZstdDecompressor),
        "lz4": partial(unpack, lz4.frame.LZ4FrameDecompressor),
    }
    before = dict(storage_mcap.DECOMPRESSORS)
    storage_mcap.DECOMPRESSORS.update(bounded)
    try:
        yield
    finally:
        storage_mcap.DECOMPRESSORS.update(before)


@contextlib.contextmanager
def opened(path: Path, ros1: bool) -> Iterator[BoundedRosbag1 | BoundedRosbag2]:
    """rosbags' reader of a bag, open."""
    if ros1:
        with BoundedRosbag1(path) as reader:
            yield reader
        return
    unpack = Unpacker(path, largest_total(path))
    with _bounded_mcap_chunks(unpack), BoundedRosbag2(path) as reader:
        yield reader
