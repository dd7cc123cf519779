"""The lines of the ablation's tables: runs pooled over seeds, and differences to the default."""

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


RunErrors = dict[str, dict[int, dict[str, Float[np.ndarray, "runs"]]]]  # by variant, seed, domain


def lines_of(errors: RunErrors) -> dict[str, list[AblationLine]]:
    """The tables' lines by axis; the default is in each."""
    by_variant = {name: _line(name, errors) for name in VARIANTS if errors.get(name)}
    lines = {}
    for axis, title in AXES.items():
        on_axis = [line for name, line in by_variant.items() if VARIANTS[name].axis == axis]
        if on_axis and DEFAULT in by_variant:
            on_axis.insert(0, by_variant[DEFAULT]._replace(label=title.default))
        if on_axis:
            lines[axis] = on_axis
    return lines or ({"": list(by_variant.values())} if by_variant else {})


def _line(name: str, errors: RunErrors) -> AblationLine:
    variant, default = errors[name], errors.get(DEFAULT, {})
    by_domain = {d: np.stack([arrays[d] for arrays in variant.values()]) for d in DOMAINS}
    pooled = {d: summary_of(by_domain[d].ravel()) for d in DOMAINS}
    common = [seed for seed in variant if seed in default]
    to_default = {}
    if name != DEFAULT and common:
        for d in DOMAINS:
            pair = (np.stack([a[seed][d] for seed in common]) for a in (variant, default))
            to_default[d] = differences(*pair)
    label = VARIANTS[name].label
    return AblationLine(name, label, list(variant), by_domain, pooled, to_default)
