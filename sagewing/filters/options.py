"""Options of XLA for the program of a run."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

# XLA's older way to generate code for loops: half the time to compile, and no slower code.
OPTIONS = (("xla_cpu_use_fusion_emitters", False),)


def is_traced(tree: Any) -> bool:
    """Whether this is inside of a transformation of JAX, where a program has no options."""
    return any(isinstance(leaf, Tracer) for leaf in (jnp.zeros(()), *jax.tree.leaves(tree)))


@cache
def xla_options() -> tuple[tuple[str, bool], ...] | None:
    """The options, if this XLA knows them."""
    try:
        jax.jit(lambda: 0, compiler_options=dict(OPTIONS)).lower().compile()
    except Exception:
        return None
    return OPTIONS
