"""What every shipped policy estimates on short records; `python tests/behaviour.py` writes it.

A change of behaviour shows in the diff of `behaviour.json`: look whether it is meant.
"""

import json
from functools import cache
from pathlib import Path

import jax
import numpy as np

import sagewing as sw
from sagewing import catalogue
from sagewing.codegen.program import in_precision
from sagewing.policy.storage import SHIPPED
from sagewing.problems.named import problem_named
from sagewing.problems.problem import draw_record
from sagewing.problems.weights import learned_part

FILE = Path(__file__).with_name("behaviour.json")
STEPS, SHOWN, SEED = 60, (4, 19, 59), 0
DIGITS = 6  # of what is written, in double precision: the same on every machine
CLOSE = 1e-4


def names() -> list[str]:
    """The shipped policies."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if folder.is_dir())


def problems_of(policy: str) -> tuple[str, ...]:
    """The problems that a policy is tried on."""
    if policy.startswith("universal"):
        return ("lorenz", "quadrotor")
    return ("quadrotor",) if policy.startswith("flight") else ("lorenz",)


def filter_of(policy: str) -> str:
    """The catalogue's name of the filter that a shipped policy is for."""
    if policy.startswith("universal"):
        return catalogue.UNIVERSAL
    if policy.startswith("flight"):
        return policy.split("-", 3)[3]
    return policy.removeprefix("chaos-").rpartition("-")[0]


def behaviour(policy: str) -> dict[str, dict[str, list[float]]]:
    """Estimates and noise at some steps."""
    learned, provenance = learned_part(policy)
    found = {}
    for name in problems_of(policy):
        training = provenance.get("training", {})
        problem = problem_named(name, training)
        kept = {k: training[k] for k in ("vehicle", "without_pose", "attitude") if k in training}
        z, u = _record(name, json.dumps(kept))
        built = catalogue.build(filter_of(policy), problem.model, problem.q, problem.r, learned)
        with jax.enable_x64(True):
            filt = in_precision(built, np.dtype(np.float64))
            u = u if problem.n_u else None
            made = sw.run(filt, problem.x0, problem.P0, z, u, problem.dt)
        for k in SHOWN:
            rows = {"x": made.x[k], "P": np.diagonal(made.P[k]), "q": made.q[k], "r": made.r[k]}
            rows["d"] = made.d[k]
            for what, row in rows.items():
                found[f"{name}, step {k + 1}, {what}"] = [_rounded(v) for v in np.asarray(row)]
    return found


@cache
def _record(name: str, training: str) -> tuple[np.ndarray, np.ndarray]:
    """A record of a problem, which many policies share."""
    return draw_record(problem_named(name, json.loads(training)), STEPS, SEED)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def text() -> str:
    """The file."""
    return json.dumps({name: behaviour(name) for name in names()}, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
