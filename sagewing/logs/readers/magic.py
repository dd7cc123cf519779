"""The first bytes of a file, by which many formats are recognised."""

from pathlib import Path

LONGEST_MAGIC = 64


def begins_with(path: Path, *magics: bytes) -> bool:
    """Whether this is a file that begins with one of these."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(LONGEST_MAGIC).startswith(magics)
