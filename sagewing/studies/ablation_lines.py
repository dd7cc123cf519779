"""The lines of the ablation's tables: runs pooled over seeds, and against the default."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sagewing.metrics.errors import ErrorSummary, summary_of
from sagewing.studies.ablation import AXES, DEFAULT, DOMAINS, VARIANTS
from sagewing.studies.differences import Errors, Interval, differences


class AblationLine(NamedTuple):
    """A variant in the tables: its seeds, and by domain its errors, summary and differences."""

    variant: str
    label: str
    seeds: list[int]
    errors: dict[str, Errors]
    pooled: dict[str, ErrorSummary]
    differences: dict[str, dict[str, Interval]]


Found = dict[str, dict[int, dict[str, Float[np.ndarray, "runs"]]]]  # by variant, seed, domain


def lines_of(found: Found) -> dict[str, list[AblationLine]]:
    """The tables' lines by axis; the default is in each."""
    made = {name: _line(name, found) for name in VARIANTS if found.get(name)}
    lines = {}
    for axis, about in AXES.items():
        of = [line for name, line in made.items() if VARIANTS[name].axis == axis]
        if of and DEFAULT in made:
            of.insert(0, made[DEFAULT]._replace(label=about.default))
        if of:
            lines[axis] = of
    return lines or ({"": list(made.values())} if made else {})


def _line(name: str, found: Found) -> AblationLine:
    of = found[name]
    errors = {d: np.stack([arrays[d] for arrays in of.values()]) for d in DOMAINS}
    pooled = {d: summary_of(errors[d].ravel()) for d in DOMAINS}
    default = found.get(DEFAULT, {})
    common = [seed for seed in of if seed in default]
    apart = {}
    if name != DEFAULT and common:
        for d in DOMAINS:
            ours, theirs = (np.stack([a[seed][d] for seed in common]) for a in (of, default))
            apart[d] = differences(ours, theirs)
    return AblationLine(name, VARIANTS[name].label, list(of), errors, pooled, apart)
