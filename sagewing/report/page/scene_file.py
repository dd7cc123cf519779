"""`scene.npz`: the drawing of a record, from which its page can be made again. No pickle."""

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.errors import InputError
from sagewing.files import write_atomically
from sagewing.logs.readers.npz_archive import load_arrays
from sagewing.report.page.drawing import SHARED_ARRAYS, TRACK_ARRAYS, Drawing

SCENE = "scene.npz"
ABOUT = "about"
MOST_TRACKS = 100


def write_scene(path: Path, drawing: Drawing) -> None:
    """Write the file: the arrays by name, and the rest as JSON in an array of bytes."""
    about = np.frombuffer(json.dumps(drawing.about).encode(), np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **{ABOUT: about}, **drawing.arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, file.getvalue())


def read_scene(path: Path) -> Drawing:
    """The drawing in a file, if its arrays are those of a page, in sizes that fit each other."""
    if not path.is_file():
        raise InputError(
            f"There is no {path}, from which the page is made: `demo`, `bench flight` and `run` "
            "write it beside result.json."
        )
    arrays = dict(load_arrays(path))
    about = _about(arrays.pop(ABOUT, None), path)
    _check(arrays, len(about["tracks"]), path)
    return Drawing(about, arrays)


def _about(packed: np.ndarray | None, path: Path) -> dict[str, Any]:
    """The JSON object, with every value of the type that the page needs."""
    try:
        about = json.loads(b"" if packed is None else packed.tobytes())
        return {
            "name": str(about["name"]),
            "tracks": [str(name) for name in about["tracks"][:MOST_TRACKS]],
            "outages": [[_finite(start), _finite(end)] for start, end in about["outages"]],
            "nis_window_s": _finite(about["nis_window_s"]),
            "imu_measured": bool(about.get("imu_measured", False)),
        }
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(
            f"{path} does not say what it shows ({type(error).__name__}): it is no scene, or it "
            "is damaged."
        ) from None


def _finite(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError(value)
    return number


def _check(arrays: Mapping[str, np.ndarray], tracks: int, path: Path) -> None:
    who = ["truth", "measured", *map(str, range(tracks))]
    known = {
        **SHARED_ARRAYS,
        **{f"{w}/{name}": shape for w in who for name, shape in TRACK_ARRAYS.items()},
    }
    needed = {*SHARED_ARRAYS, "measured/position", "measured/angles"}
    needed |= {f"{i}/{name}" for i in range(tracks) for name in ("position", "angles", "path")}
    for name in sorted(needed - arrays.keys()):
        raise InputError(f"{path} lacks the array {name!r}; write the result again.")
    points = arrays["t"].size
    for name, array in arrays.items():
        if name not in known or array.dtype != np.float32:
            raise InputError(f"{path}: {name!r} is no array of a scene.")
        rows, clock = known[name]
        lengths = (points, -(-points // 2)) if clock == "std" else (arrays[clock].size,)
        fits = array.ndim == (1 if rows == 1 else 2) and array.shape[-1] in lengths
        if (
            not fits
            or (rows is not None and array.size != rows * array.shape[-1])
            or not array.size
        ):
            raise InputError(f"{path}: {name!r} has shape {array.shape}, which does not fit.")
