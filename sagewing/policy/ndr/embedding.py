"""A policy in a filter of another size: a large policy in a small filter, or the reverse.

`Embedded` and `Tiled` are policies, so a filter, a benchmark or `sw.Online` takes them, too:

    policy = Embedded(sw.Policy.load("flight"), n_x=3, n_z=2, x_off=8, z_off=2)
    filt = sw.NDRSageHusa(sw.models.Lorenz(), Q0, R0, policy)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import dynamic_slice_in_dim, dynamic_update_slice
from jaxtyping import Array, Float, Int

from sagewing.errors import InputError
from sagewing.filters.kernels import diagonal_matrix
from sagewing.filters.protocols import GainNoise
from sagewing.filters.step import Attenuation, StepInfo
from sagewing.models.quadrotor import B_A, B_G, N_X, N_Z, Q, R, V, W
from sagewing.policy.ndr.policy import Policy
from sagewing.shapes import Errors, InnovationCov, Measurements


class _Resized(eqx.Module):
    """The shared part: the policy, and the sizes and settings of the filter that uses it.

    `bounds` and `gain_noise` belong to the filter and not to the network; by default they are
    those of the policy's training in the other domain.
    """

    policy: Policy
    n_x: int = eqx.field(static=True)
    n_z: int = eqx.field(static=True)
    bounds: tuple[float, float] = eqx.field(static=True)
    gain_noise: GainNoise = eqx.field(static=True)

    @property
    def gate(self) -> None:
        """None: no gate."""
        return None

    @property
    def adapts_in(self) -> None:
        """None: every mode adapts the noise."""
        return None

    @property
    def dense(self) -> bool:
        """False: only variances are adapted."""
        return False

    @property
    def nominal(self) -> None:
        """None: the policy's own noise belongs to another domain."""
        return None

    def check_sizes(self, n_x: int, n_z: int) -> None:
        """Refuse a model of other dimensions."""
        if (n_x, n_z) != (self.n_x, self.n_z):
            raise InputError(
                f"policy was embedded for n_x = {self.n_x} states and n_z = {self.n_z} channels; "
                f"Q0 and R0 say n_x = {n_x} and n_z = {n_z}."
            )


class Embedded(_Resized):
    """A large policy for a small model: the paper's zero-fill embedding.

    State i of the model is state x_off + i of the policy, channel j is channel z_off + j. For
    the network all other channels have not arrived, with any features: with whitened features
    their innovation, their log diagonal of L and their gain are the paper's zeros.
    """

    x_off: Int[Array, ""]
    z_off: Int[Array, ""]

    def __init__(
        self,
        policy: Policy,
        n_x: int,
        n_z: int,
        x_off: int,
        z_off: int,
        bounds: tuple[float, float] | None = None,
        gain_noise: GainNoise | None = None,
    ):
        for name, first, what, size, most in (
            ("x_off", x_off, "states", n_x, policy.arch.n_x),
            ("z_off", z_off, "channels", n_z, policy.arch.n_z),
        ):
            if size > most:
                raise InputError(f"The policy has room for {most} {what}; the model has {size}.")
            if not 0 <= first <= most - size:
                raise InputError(
                    f"{name} = {first} does not fit: with {size} of the policy's {most} {what} it "
                    f"must lie in 0..{most - size}."
                )
        self.policy, self.n_x, self.n_z = policy, n_x, n_z
        self.bounds = policy.bounds if bounds is None else bounds
        self.gain_noise = gain_noise or policy.gain_noise
        # Arrays and not static fields: all offsets share one compiled program.
        self.x_off, self.z_off = jnp.asarray(x_off), jnp.asarray(z_off)

    def init(self, q: Errors, r: Measurements) -> Any:
        """The policy's memory."""
        return self.policy.init(q, r)

    def __call__(self, memory: Any, info: StepInfo) -> tuple[Attenuation, Any, Any]:
        """d_k of the active channels."""
        d, memory, trace = self.policy(memory, self.embed(info))
        active = _mapped(
            d,
            lambda a: dynamic_slice_in_dim(a, self.x_off, self.n_x),
            lambda a: dynamic_slice_in_dim(a, self.z_off, self.n_z),
        )
        return active, memory, trace

    def embed(self, info: StepInfo) -> StepInfo:
        """The input of the large policy."""
        arch, batch = self.policy.arch, info.white.shape[1:]
        zeros = jnp.zeros((arch.n_z, *batch), info.white.dtype)
        unit = diagonal_matrix(zeros + 1.0)
        zero_gain = jnp.zeros((arch.n_x, arch.n_z, *batch), info.K.dtype)
        x, z = self.x_off, self.z_off
        return StepInfo(
            nu=_placed(info.nu, zeros, z),
            white=_placed(info.white, zeros, z),
            S=_placed(info.S, unit, z, z),
            L=_placed(info.L, unit, z, z),
            K=_placed(info.K, zero_gain, x, z),
            q=_placed(info.q, zero_gain[:, 0], x),
            r=_placed(info.r, zeros, z),
            arrived=_placed(info.arrived, jnp.zeros(zeros.shape, bool), z),
        )


def _mapped(
    d: Attenuation,
    of_states: Callable[[jax.Array], jax.Array],
    of_channels: Callable[[jax.Array], jax.Array],
) -> Attenuation:
    """The decision mapped to other states and channels; None stays None."""
    q, scale_q, curvature = jax.tree.map(of_states, (d.q, d.scale_q, d.curvature))
    r, scale_r, inflate_r = jax.tree.map(of_channels, (d.r, d.scale_r, d.inflate_r))
    return Attenuation(q, r, scale_q, scale_r, inflate_r, curvature)


def _placed(small: jax.Array, large: jax.Array, *first: jax.Array) -> jax.Array:
    """`large` with `small` written at index `first` of the leading axes."""
    zero = jnp.zeros_like(first[0])
    return dynamic_update_slice(large, small, (*first, *[zero] * (large.ndim - len(first))))


class Tiling(NamedTuple):
    """The states and channels of a large model that each copy of a small policy takes."""

    n_x: int
    n_z: int
    states: tuple[tuple[int, ...], ...]
    channels: tuple[tuple[int, ...], ...]


def _of_flight() -> Tiling:
    """The tiles of the flight model, three for each axis of space: see `Tiled`."""
    states, channels = [], []
    for i in range(3):
        turning = (W.start + i, B_G.start + i)
        states.append((R.start + i, V.start + i, B_A.start + i))
        states += [(Q.start + 1 + i, *turning), (Q.start, *turning)]
        channels += [(i, 3 + i)] * 3
    return Tiling(N_X, N_Z, tuple(states), tuple(channels))


FLIGHT_TILES = _of_flight()


class Tiled(_Resized):
    """A small policy for a large model: several copies of it, each with its own memory.

    The paper has no such embedding. For the 19 states and 6 channels of a flight an axis of space
    is a small system by itself: two channels, the position along it and the angle about it (or the
    accelerometer and the gyroscope), and twice three states, those that move along it (position,
    velocity, accelerometer bias) and those that turn about it (the quaternion's component, rate,
    gyroscope bias). The quaternion's scalar part turns with every axis and has a tile with each.

    d of a state or a channel is the mean over the tiles that contain it.
    """

    tiling: Tiling = eqx.field(static=True)

    def __init__(
        self,
        policy: Policy,
        tiling: Tiling = FLIGHT_TILES,
        bounds: tuple[float, float] | None = None,
        gain_noise: GainNoise | None = None,
    ):
        for what, tiles, size in (
            ("states", tiling.states, policy.arch.n_x),
            ("channels", tiling.channels, policy.arch.n_z),
        ):
            if len(tiles[0]) != size:
                raise InputError(
                    f"A tile has {len(tiles[0])} {what}; the policy was made for {size}. Use a "
                    "policy with the sizes of a tile."
                )
        self.policy, self.tiling = policy, tiling
        self.n_x, self.n_z = tiling.n_x, tiling.n_z
        self.bounds = policy.bounds if bounds is None else bounds
        self.gain_noise = gain_noise or policy.gain_noise

    def init(self, q: Errors, r: Measurements) -> Any:
        """One memory for each tile, tiles first."""
        tiles = len(self.tiling.states)
        memory = self.policy.init(q, r)
        return jax.tree.map(lambda h: jnp.broadcast_to(h, (tiles, *h.shape)), memory)

    def __call__(self, memory: Any, info: StepInfo) -> tuple[Attenuation, Any, None]:
        """The d_k of all tiles, combined."""
        d, memory, _ = jax.vmap(self.policy)(memory, self.split(info))
        joined = _mapped(
            d,
            lambda a: _mean(a, self.tiling.states, self.n_x),
            lambda a: _mean(a, self.tiling.channels, self.n_z),
        )
        return joined, memory, None

    def split(self, info: StepInfo) -> StepInfo:
        """The input of each tile, tiles first."""
        x, z = np.array(self.tiling.states), np.array(self.tiling.channels)

        def block(A: InnovationCov) -> Float[Array, "tiles m m *batch"]:
            return A[z[:, :, None], z[:, None, :]]

        return StepInfo(
            nu=info.nu[z],
            white=info.white[z],
            S=block(info.S),
            L=block(info.L),
            K=info.K[x[:, :, None], z[:, None, :]],
            q=info.q[x],
            r=info.r[z],
            arrived=info.arrived[z],
        )


def _mean(
    d: Float[Array, "tiles n *batch"], members: tuple[tuple[int, ...], ...], size: int
) -> Float[Array, "m *batch"]:
    """The mean over the tiles that contain a state or channel; zero if none does."""
    indices = np.array(members).ravel()
    count = np.maximum(np.bincount(indices, minlength=size), 1)
    flat = d.reshape((-1, *d.shape[2:]))
    total = jnp.zeros((size, *flat.shape[1:]), d.dtype).at[indices].add(flat)
    return total / count.reshape((-1, *(1,) * (flat.ndim - 1)))
