"""The network's input: the four representations of the paper's Table 3."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.kernels import diagonal
from sagewing.filters.step import StepInfo

Features = Float[Array, "n_y *batch"]
FeatureName = Literal["whitened", "raw", "whitened-no-log", "nis"]


def _vec(K: Float[Array, "n_x n_z *batch"]) -> Features:
    return K.reshape((-1, *K.shape[2:]))


def whitened(info: StepInfo) -> Features:
    """The whitened innovation, the logarithm of L's diagonal, the gain: the paper's choice."""
    return jnp.concatenate([info.white, jnp.log(diagonal(info.L)), _vec(info.K)])


def raw(info: StepInfo) -> Features:
    """The innovation, its predicted variances, the gain."""
    return jnp.concatenate([info.nu, diagonal(info.S), _vec(info.K)])


def whitened_no_log(info: StepInfo) -> Features:
    """The whitened innovation and the gain."""
    return jnp.concatenate([info.white, _vec(info.K)])


def nis(info: StepInfo) -> Features:
    """The normalised innovation squared and the gain."""
    return jnp.concatenate([jnp.sum(info.white**2, axis=0, keepdims=True), _vec(info.K)])


class FeatureSet(NamedTuple):
    """A representation and its length for a model of n_x states and n_z channels."""

    build: Callable[[StepInfo], Features]
    size: Callable[[int, int], int]


FEATURES: dict[str, FeatureSet] = {
    "whitened": FeatureSet(whitened, lambda n_x, n_z: 2 * n_z + n_x * n_z),
    "raw": FeatureSet(raw, lambda n_x, n_z: 2 * n_z + n_x * n_z),
    "whitened-no-log": FeatureSet(whitened_no_log, lambda n_x, n_z: n_z + n_x * n_z),
    "nis": FeatureSet(nis, lambda n_x, n_z: 1 + n_x * n_z),
}
