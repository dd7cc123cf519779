"""A user's own model as a problem."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sagewing.errors import InputError
from sagewing.models import Model
from sagewing.problems.problem import Problem


def own_problem(
    location: str, q: Sequence[float], r: Sequence[float], x0: Sequence[float], n_u: int, dt: float
) -> Problem:
    """The problem with the model at FILE.py:NAME: an instance, or a class without arguments."""
    if not q or not r:
        raise InputError("A model of your own needs --q and --r, the variances of its noise.")
    start = np.array(x0) if x0 else np.zeros(len(q))
    if len(start) != len(q):
        raise InputError(
            f"--x0 has {len(start)} numbers and --q {len(q)}: both need one for each state."
        )
    file, _, name = location.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if not Path(file).is_file() or spec is None or spec.loader is None:
        raise InputError(f"--model {location}: there is no Python file {file}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    attribute = getattr(module, name, None)
    model = attribute() if isinstance(attribute, type) else attribute
    if not isinstance(model, Model):
        raise InputError(f"--model {location}: {file} has no sw.Model named {name!r}.")
    return Problem(model, tuple(q), tuple(r), start, np.eye(len(q)), n_u, dt)
