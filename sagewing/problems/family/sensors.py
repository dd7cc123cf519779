"""The sensors of the training family: what of a system is measured, and how well."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from sagewing.problems.family.model import BEARING, DISTANCE, LINEAR, N_X, N_Z, Coefficients
from sagewing.problems.family.systems import FamilySystem, uniform

RADAR, AMONG_THEM = 0.2, 0.1  # shares of the systems: with one, and with one among its states
# Of a draw between 0 and 1 for each channel: a distance below, then a bearing; curved above
FAR, TURNED, CURVED = 0.15, 0.28, 0.7
LEAST_RADIAN = 0.3  # in noises: none is made coarser than that


class Looks(NamedTuple):
    """Where each channel looks: at one state, at the one beside it, or at a mixture of all."""

    one: Float[Array, "m n"]
    beside: Float[Array, "m n"]
    mixture: Float[Array, "m n"]


def seen(
    c: Coefficients,
    raw: FamilySystem,
    unit: Float[Array, "n"],
    away: Float[Array, "n"],
    k_H: PRNGKeyArray,
    k_r: PRNGKeyArray,
) -> tuple[Coefficients, Bool[Array, "m"]]:
    """The system with sensors, and which of them it has.

    Each is of one state mostly, or of a mixture; linear mostly, or curved, or seen from a place
    that is so far `away` from the middle: a distance, or the bearing of one state and the next.
    Some systems have a radar: distance and bearing of the same two states, often from among them.
    """
    states = jnp.arange(N_X) < raw.n_x
    k_n, k_which, k_mix, k_mixed, k_form, k_skew, k_wave, k_radar = jax.random.split(k_H, 8)
    k_radar, k_coarse, k_by = jax.random.split(k_radar, 3)
    drawn = jax.random.uniform(k_radar)
    radar = drawn < RADAR
    away = jnp.where(drawn < AMONG_THEM, 0.1, 1.0) * away
    n_z = jax.random.randint(k_n, (), 1, jnp.minimum(raw.n_x, N_Z) + 1)
    n_z = jnp.where((raw.n_x > 3) | radar, jnp.maximum(n_z, 2), n_z)
    channels = jnp.arange(N_Z) < n_z
    order = jnp.argsort(jnp.where(states, jax.random.uniform(k_which, (N_X,)), 2.0))
    order = jnp.where(raw.order >= 0, raw.order, order)
    looks = _looks(order, raw, unit, k_mix)
    of_radar = _of_radar(looks, order, unit / raw.size)
    looks = Looks(*(jnp.where(radar, a, b) for a, b in zip(of_radar, looks, strict=True)))
    mixed = jax.random.uniform(k_mixed, (N_Z, 1)) < 0.25
    form = jax.random.uniform(k_form, (N_Z,))
    form = jnp.where(radar & (jnp.arange(N_Z) < 2), jnp.array([0.0, 0.2, 0.0]), form)
    far, turned = form < FAR, (form > FAR) & (form < TURNED)
    bearing, shown = turned[:, None], channels[:, None]
    of_mixture = (mixed & ~bearing) | far[:, None]
    H = jnp.where(states, jnp.where(of_mixture, looks.mixture, looks.one), 0.0)
    # The nominal measurement noise, against what the process noise adds in a step
    decades = uniform(k_r, 0.0, 1.6, N_Z) + jnp.where(raw.weak, 0.5, 0.0)
    linear = H / (jnp.sqrt(jnp.sum(H**2, axis=1)) * 10.0**decades + 1e-9)[:, None]
    H = jnp.where(shown, jnp.where(bearing, H * unit / raw.size, linear), 0.0)
    reach = jnp.sqrt(jnp.sum((H * raw.size / unit) ** 2, axis=1)) + 1.0
    distance = 1.0 + jnp.linalg.norm(away / raw.size) / math.sqrt(N_X)
    radian = distance * 10.0**-decades * (looks.one @ (raw.size / unit))
    # The bearings of some are so coarse that they wrap
    coarse = jnp.maximum(10.0 ** -uniform(k_by, 0.0, 2.0) * radian, LEAST_RADIAN)
    radian = jnp.where(jax.random.uniform(k_coarse) < 0.3, coarse, radian)
    measured = c._replace(
        H=H,
        G=jnp.where(shown & bearing, looks.beside * unit / raw.size, 0.0),
        skew=jnp.where(form > CURVED, uniform(k_skew, -0.7, 0.7, N_Z), 0.0),
        wave=jnp.where(turned, radian, reach * 10.0 ** uniform(k_wave, -0.3, 0.5, N_Z)),
        form=jnp.where(far, DISTANCE, jnp.where(turned, BEARING, LINEAR)),
        centre=(raw.middle + away) / unit * states,
    )
    return measured, channels


def _looks(order: Array, raw: FamilySystem, unit: Float[Array, "n"], key: PRNGKeyArray) -> Looks:
    """Every channel at a state of its own."""
    after = jnp.where(jnp.arange(N_Z) + 1 < raw.n_x, order[1 : N_Z + 1], order[0])
    mixture = jax.random.normal(key, (N_Z, N_X)) * unit / raw.size
    return Looks(jnp.eye(N_X)[order[:N_Z]], jnp.eye(N_X)[after], mixture)


def _of_radar(looks: Looks, order: Array, scale: Float[Array, "n"]) -> Looks:
    """The first two channels at the same two states."""
    first, second = jnp.eye(N_X)[order[0]], jnp.eye(N_X)[order[1]]
    return Looks(
        looks.one.at[1].set(first),
        looks.beside.at[1].set(second),
        looks.mixture.at[0].set((first + second) * scale),
    )
