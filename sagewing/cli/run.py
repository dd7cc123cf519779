"""`sagewing run`: filters on a user's log."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from sagewing import catalogue
from sagewing.cli import console
from sagewing.cli.output import NewOutput
from sagewing.errors import InputError
from sagewing.files import write_atomically
from sagewing.logs.estimate.estimate import LogEstimates, check_outages, estimate_log
from sagewing.logs.estimate.filters import check_filters, steep
from sagewing.logs.log import Log
from sagewing.logs.readers.map import read_map
from sagewing.logs.readers.read import read_log
from sagewing.logs.timeline import Timeline, timeline
from sagewing.logs.track import Track
from sagewing.logs.tum import tum
from sagewing.policy import Noise
from sagewing.policy.filter_settings import StoredPolicy
from sagewing.problems.weights import flight_weights, learned_part, runnable
from sagewing.report import log as log_report
from sagewing.report.page.drawing import drawing_of
from sagewing.report.page.result_page import PAGE, write_page
from sagewing.report.page.scene_file import SCENE
from sagewing.report.table import terminal
from sagewing.results import RESULT, BenchResult

KNOWN = ", ".join(runnable("real", "good"))


@dataclass(frozen=True)
class Run:
    """Estimate on your own log: one trajectory a filter, errors or consistency, and a page.

    Reads PX4 ULogs, ROS 1 and 2 bags, EuRoC folders, our .npz, and tables of text with a map
    (sagewing inspect). Sensors may have different rates, start late and drop out. Writes
    DIR/FILTER.tum for every filter, DIR/result.json, DIR/report.html, and what `sagewing report`
    makes that page from again.

    Example: sagewing run flight.ulg --filter ekf-gated,ndr --outage 20:22 --out out/flight
    """

    log: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")]
    """the log: a file or a folder"""
    filter: Annotated[str, tyro.conf.arg(help=f"which filters, of {KNOWN}")] = (
        "ekf,shkf995,ekf-gated,ndr"
    )
    policy: str | None = None
    """a policy of your own for ndr: its folder, or the name of a shipped one"""
    outage: str | None = None
    """hide the pose for a while, as T0:T1 in seconds from the first pose; several with commas"""
    output: NewOutput = NewOutput(Path("out/run"))
    smooth: bool = False
    """add the estimates by the whole log, FILTER-smoothed, to the files, the table and the page"""
    map: Path | None = None
    """a TOML file that names columns or topics"""

    def __call__(self) -> None:
        """Run it."""
        filters = [name.strip() for name in self.filter.split(",")]
        check_filters(filters)
        outages = windows(self.outage)
        made = [*filters, *(map(catalogue.smoothed, filters) if self.smooth else ())]
        self.output.check((*map(_file, made), RESULT, PAGE, SCENE))
        log_map = None if self.map is None else read_map(self.map)
        learned = self._learned(filters)
        with console.err.status("reading the log"):
            log = read_log(self.log, log_map)
            line = timeline(log)
        notes = [*line.notes, *steep(filters, learned, line.pose.quaternion)]
        console.notes(notes)
        check_outages(line, outages)
        estimates = self._estimated(log, line, filters, learned, outages)
        self._write(estimates, line, filters, made, outages, notes)
        console.out.print(terminal(log_report.table(estimates.rows)))
        console.out.print(log_report.caption(estimates.rows))
        console.notes(log_report.refusals(estimates.rows))
        console.err.print(f"Written: {self.output.out}/ (trajectories, {RESULT}, {PAGE})")

    def _learned(self, filters: Sequence[str]) -> dict[str, Any]:
        if self.policy is None:
            return flight_weights(filters, "real", "good", {})
        policy, _ = learned_part(self.policy)
        if not isinstance(policy, StoredPolicy):
            what = "tuned noise" if isinstance(policy, Noise) else "a network"
            raise InputError(f"--policy takes a policy; {self.policy} holds {what}.")
        if "ndr" not in filters:
            raise InputError("--policy is for the filter ndr: add ndr to --filter.")
        others = [name for name in filters if name != "ndr"]
        return {**flight_weights(others, "real", "good", {}), "ndr": policy}

    def _estimated(
        self,
        log: Log,
        line: Timeline,
        filters: Sequence[str],
        learned: dict[str, Any],
        outages: Sequence[tuple[float, float]],
    ) -> LogEstimates:
        with console.progress() as bar:
            task = bar.add_task("estimating", total=100 * len(filters), note="compiling")
            done = dict.fromkeys(filters, 0.0)

            def report(name: str, share: float) -> None:
                done[name] = share
                bar.update(task, completed=round(100 * sum(done.values())), note=name)

            return estimate_log(
                line,
                filters,
                learned,
                outages=outages,
                position_std=log.position_std,
                attitude_std=log.attitude_std,
                smooth=self.smooth,
                report=report,
            )

    def _write(
        self,
        estimates: LogEstimates,
        line: Timeline,
        filters: Sequence[str],
        made: Sequence[str],
        outages: Sequence[tuple[float, float]],
        notes: Sequence[str],
    ) -> None:
        out = self.output.out
        out.mkdir(parents=True, exist_ok=True)
        for track in estimates.scene.tracks:
            if track.name in made:
                write_atomically(out / _file(track.name), _trajectory(track, estimates, line))
        settings = {
            "log": str(self.log),
            "filters": list(filters),
            "policy": self.policy,
            "outages": [list(window) for window in outages],
            "smooth": self.smooth,
            "map": None if self.map is None else str(self.map),
            "seconds": float(line.t[-1]),
            "steps": len(line.t),
            "notes": [*notes, *log_report.refusals(estimates.rows)],
        }
        result = BenchResult("run", settings, 0, estimates.rows)
        self.output.write(result)
        write_page(out, result, drawing_of(estimates.scene))


def windows(outage: str | None) -> list[tuple[float, float]]:
    """The windows of `--outage 10:12,30:31.5`."""
    parsed = []
    for part in (outage or "").split(",") if outage else []:
        start, _, stop = part.partition(":")
        try:
            parsed.append((float(start), float(stop)))
        except ValueError:
            raise InputError(
                f"--outage takes T0:T1 in seconds, such as 10:12; got {part!r}."
            ) from None
    return parsed


def _file(name: str) -> str:
    """The file of a filter's trajectory; `check_filters` has checked the name."""
    return f"{name}.tum"


def _trajectory(track: Track, estimates: LogEstimates, line: Timeline) -> bytes:
    return tum(line.origin + estimates.scene.t, line.in_log_axes(track.pose))
