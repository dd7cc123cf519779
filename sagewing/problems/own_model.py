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
    start = np.array(x0) if x0 else _origin(location, model, len(q))
    n_x = (model.n_x or len(q) + len(model.own_variances)) - len(model.own_variances)
    if len(start) != n_x:
        raise InputError(
            f"--x0 has {len(start)} numbers and the state has {n_x}; --q has {len(q)}, one for "
            "each error of the state."
        )
    return Problem(model, tuple(q), tuple(r), start, np.eye(len(q)), n_u, dt)


def _origin(location: str, model: Model, n: int) -> np.ndarray:
    """Where a record starts by default: zeros, or the model's origin."""
    if model.origin is None and model.n_x:
        raise InputError(f"--model {location} has states on a manifold: give a start by --x0.")
    return np.zeros(n) if model.origin is None else np.asarray(model.origin)
