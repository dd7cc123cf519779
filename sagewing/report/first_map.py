"""The text of a first map of a log, which its user checks and completes."""

from collections.abc import Sequence
from dataclasses import replace

from sagewing.logs.readers.map import Map
from sagewing.logs.survey import ColumnSummary, Survey
from sagewing.report.log import SHORTEST_DELAY_S, range_of, step_of

NEEDS_NO_MAP = (
    "# This format needs no map. One may name a topic ([imu] topic, [pose] topic), and set\n"
    "# delay_ms, position_std and attitude_std of [pose].\n"
)
# The lines of a map for which no column was recognised.
TO_COMPLETE = {
    "imu": """\
[imu]
time = "?"
time_unit = "s"        # s, ms, us, ns
acc = ["?", "?", "?"]
acc_unit = "m/s^2"     # or g
gyro = ["?", "?", "?"]
gyro_unit = "rad/s"    # or deg/s
""",
    "pose": """\
[pose]
time = "?"
time_unit = "s"
position = ["?", "?", "?"]
position_unit = "m"    # m, cm, mm
# quaternion = ["w", "x", "y", "z"], or euler = ["roll", "pitch", "yaw"] and euler_unit = "deg"
# gps = ["latitude", "longitude", "altitude"] in place of position
""",
}


def map_of_columns(found: Map, columns: Sequence[ColumnSummary], missing: Sequence[str]) -> str:
    """The map of a text table: what is missing, the columns to choose from, and lines to fill."""
    lines = [f"# Missing: {what}" for what in missing]
    lines += ["#", "# Columns: name, range in the first rows, step between rows"]
    lines += [f"#   {c.file}: {c.name}, {range_of(c)}, {step_of(c)}" for c in columns]
    parts = [TO_COMPLETE["imu"]] if not found.imu.acc else []
    parts += [TO_COMPLETE["pose"]] if not (found.pose.position or found.pose.gps) else []
    if len({column.file for column in columns}) > 1:
        parts = [part.replace("]\n", ']\nfile = "?"\n', 1) for part in parts]
    return "\n".join(["\n".join(lines), found.toml(), *parts])


def map_of_survey(found: Map, survey: Survey, needs_map: bool) -> str:
    """The map of a log that can be read: with the measured delay, and the noise as a comment."""
    text = _with_delay(found, survey).toml()
    if not needs_map:
        text = text.replace('frame = "enu"\n', NEEDS_NO_MAP)
    noise = survey.position_noise_m
    if noise is None:
        return text
    return f"# [pose] position_std = {noise:.2g}  # its white noise alone\n{text}"


def _with_delay(found: Map, survey: Survey) -> Map:
    """The map with the offset of the clocks added to its delay, if it is known and not small."""
    offset = survey.offset
    if offset is None or not offset.credible or abs(offset.late_s) < SHORTEST_DELAY_S:
        return found
    late_ms = round(found.pose.delay_ms + 1e3 * offset.late_s, 1)
    return replace(found, pose=replace(found.pose, delay_ms=late_ms))
