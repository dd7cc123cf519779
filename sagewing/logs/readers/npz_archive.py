"""The arrays of an `.npz` file, read without trusting the sizes in it."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from sagewing.errors import InputError
from sagewing.logs.readers.text_table import printable

# Deflate makes a run of zeros a thousand times smaller. A file may unpack to INFLATION times its
# size, and a small one to SMALL_BYTES.
INFLATION, SMALL_BYTES = 100, 1 << 26
ZIP = b"PK\x03\x04"


def load_arrays(path: Path) -> Mapping[str, np.ndarray]:
    """All arrays by name; refuses Python objects and wrong sizes."""
    try:
        # np.load does not close a file that it cannot read.
        with path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):
                stream.seek(0)
                if stream.read(len(ZIP)) == ZIP:
                    raise InputError(f"{path} is cut off or damaged; copy it again.")
                raise InputError(
                    f"{path} is no .npz file; expected arrays of numbers written by numpy.savez."
                )
            _check_sizes(path)
            stream.seek(0)
            loaded = np.load(stream, allow_pickle=False)
            return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise InputError(f"There is no flight at {path}.") from None
    except InputError:
        raise
    # A parser of a damaged file may raise anything.
    except Exception as error:
        why = printable(str(error).rstrip(".")) or type(error).__name__
        raise InputError(f"{path} is not a readable .npz file: {why}.") from None


def _check_sizes(path: Path) -> None:
    """Refuses an array that is shorter than its header says, and arrays larger than the bound."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        # Not the size of the file alone: a sparse file takes no room on the disk.
        packed = min(path.stat().st_size, sum(member.compress_size for member in members))
        allowed = max(SMALL_BYTES, INFLATION * packed)
        if len({member.filename for member in members}) < len(members):
            raise InputError(f"{path} has two arrays of one name; write it with numpy.savez.")
        if sum(member.file_size for member in members) > allowed:
            raise InputError(
                f"{path} would unpack to more than {INFLATION} times its size; no flight does: "
                "it is damaged, or made to fill the memory."
            )
        for member in members:
            if not member.filename.endswith(".npy"):
                raise InputError(
                    f"{path} has a member {printable(member.filename)!r}, which is no array; "
                    "expected arrays of numbers written by numpy.savez."
                )
            with archive.open(member) as stream:
                version = npy.read_magic(stream)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(stream)
                if dtype.hasobject:
                    raise InputError(
                        f"{path} holds Python objects; expected arrays of numbers written by "
                        "numpy.savez."
                    )
                # In Python's integers: a product of wrong lengths overflows NumPy's.
                size = dtype.itemsize
                for length in shape:
                    size *= length
                if size > member.file_size:
                    raise InputError(
                        f"{path}: {printable(member.filename.removesuffix('.npy'))} says it has "
                        f"shape {printable(str(shape))}, and its {member.file_size} bytes hold "
                        "less; write it again with numpy.savez."
                    )
