"""The sensors of the training family: what is measured, and with how much noise."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from sagewing.problems.family.model import BEARING, DISTANCE, LINEAR, N_X, N_Z, Coefficients
from sagewing.problems.family.systems import FamilySystem, uniform

# Shares of the systems: with a radar, and with a radar close to the states' middle
RADAR, NEAR_RADAR = 0.2, 0.1
# A draw between 0 and 1 chooses a channel's form: below the first limit a distance, between the
# first two a bearing, above the last a curved sum of states
DISTANCE_LIMIT, BEARING_LIMIT, CURVED_LIMIT = 0.15, 0.28, 0.7
MIN_RADIAN = 0.3  # nominal standard deviations of the coarsest bearing in a radian


class Directions(NamedTuple):
    """What each channel may measure: one state, the next one, or a mixture of all states."""

    state: Float[Array, "m n"]
    next_state: Float[Array, "m n"]
    mixture: Float[Array, "m n"]


def add_sensors(
    c: Coefficients,
    raw: FamilySystem,
    unit: Float[Array, "n"],
    offset: Float[Array, "n"],
    k_H: PRNGKeyArray,
    k_r: PRNGKeyArray,
) -> tuple[Coefficients, Bool[Array, "m"]]:
    """The coefficients with sensors added, and which channels exist.

    Most channels measure one state, the others a mixture. Most are linear, the others curved, or a
    distance or a bearing (of one state and the next) from a beacon at `offset` from the middle.
    Some systems have a radar: distance and bearing of the same two states, often from a beacon
    close to the middle.
    """
    states = jnp.arange(N_X) < raw.n_x
    k_n, k_order, k_mix, k_mixed, k_form, k_skew, k_wave, k_radar = jax.random.split(k_H, 8)
    k_radar, k_coarse, k_factor = jax.random.split(k_radar, 3)
    drawn = jax.random.uniform(k_radar)
    radar = drawn < RADAR
    offset = jnp.where(drawn < NEAR_RADAR, 0.1, 1.0) * offset
    n_z = jax.random.randint(k_n, (), 1, jnp.minimum(raw.n_x, N_Z) + 1)
    n_z = jnp.where((raw.n_x > 3) | radar, jnp.maximum(n_z, 2), n_z)
    channels = jnp.arange(N_Z) < n_z
    order = jnp.argsort(jnp.where(states, jax.random.uniform(k_order, (N_X,)), 2.0))
    order = jnp.where(raw.order >= 0, raw.order, order)
    any_states = _directions(order, raw, unit, k_mix)
    same_states = _radar_directions(any_states, order, unit / raw.size)
    pairs = zip(same_states, any_states, strict=True)
    directions = Directions(*(jnp.where(radar, a, b) for a, b in pairs))
    mixed = jax.random.uniform(k_mixed, (N_Z, 1)) < 0.25
    form = jax.random.uniform(k_form, (N_Z,))
    form = jnp.where(radar & (jnp.arange(N_Z) < 2), jnp.array([0.0, 0.2, 0.0]), form)
    is_distance = form < DISTANCE_LIMIT
    is_bearing = (form > DISTANCE_LIMIT) & (form < BEARING_LIMIT)
    bearing, exists = is_bearing[:, None], channels[:, None]
    is_mixture = (mixed & ~bearing) | is_distance[:, None]
    H = jnp.where(states, jnp.where(is_mixture, directions.mixture, directions.state), 0.0)
    # The nominal measurement noise relative to what the process noise adds in a step
    decades = uniform(k_r, 0.0, 1.6, N_Z) + jnp.where(raw.weak, 0.5, 0.0)
    linear = H / (jnp.sqrt(jnp.sum(H**2, axis=1)) * 10.0**decades + 1e-9)[:, None]
    H = jnp.where(exists, jnp.where(bearing, H * unit / raw.size, linear), 0.0)
    largest = jnp.sqrt(jnp.sum((H * raw.size / unit) ** 2, axis=1)) + 1.0
    distance = 1.0 + jnp.linalg.norm(offset / raw.size) / math.sqrt(N_X)
    radian = distance * 10.0**-decades * (directions.state @ (raw.size / unit))
    # In some systems the bearings' noise is so large that they wrap
    coarse = jnp.maximum(10.0 ** -uniform(k_factor, 0.0, 2.0) * radian, MIN_RADIAN)
    radian = jnp.where(jax.random.uniform(k_coarse) < 0.3, coarse, radian)
    measured = c._replace(
        H=H,
        G=jnp.where(exists & bearing, directions.next_state * unit / raw.size, 0.0),
        skew=jnp.where(form > CURVED_LIMIT, uniform(k_skew, -0.7, 0.7, N_Z), 0.0),
        wave=jnp.where(is_bearing, radian, largest * 10.0 ** uniform(k_wave, -0.3, 0.5, N_Z)),
        form=jnp.where(is_distance, DISTANCE, jnp.where(is_bearing, BEARING, LINEAR)),
        centre=(raw.middle + offset) / unit * states,
    )
    return measured, channels


def _directions(
    order: Array, raw: FamilySystem, unit: Float[Array, "n"], key: PRNGKeyArray
) -> Directions:
    """A different state for every channel."""
    following = jnp.where(jnp.arange(N_Z) + 1 < raw.n_x, order[1 : N_Z + 1], order[0])
    mixture = jax.random.normal(key, (N_Z, N_X)) * unit / raw.size
    return Directions(jnp.eye(N_X)[order[:N_Z]], jnp.eye(N_X)[following], mixture)


def _radar_directions(directions: Directions, order: Array, scale: Float[Array, "n"]) -> Directions:
    """The same two states for the first two channels."""
    first, second = jnp.eye(N_X)[order[0]], jnp.eye(N_X)[order[1]]
    return Directions(
        directions.state.at[1].set(first),
        directions.next_state.at[1].set(second),
        directions.mixture.at[0].set((first + second) * scale),
    )
