"""Systems at the end of single precision: repeated sensors, a wide P, states nobody can see."""

import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

BACKENDS = ("jax", "c")
FILTERS = {
    "ekf": sw.EKF,
    "ekf, gated": lambda model, q, r: sw.EKF(model, q, r, gate=3.0),
    "sage-husa": sw.SageHusa,
    "sage-husa posterior": lambda model, q, r: sw.SageHusa(model, q, r, gain_noise="posterior"),
    "universal": lambda model, q, r: sw.NDRSageHusa(model, q, r, sw.Policy.pretrained("universal")),
    "vbakf": sw.VBAKF,
}
# All in C; in JAX, whose programs take long to compile, those with arithmetic of their own
TRIED = [*((name, "c") for name in FILTERS), ("ekf", "jax"), ("vbakf", "jax")]


class Vehicle(sw.Model):
    """Position and velocity on a line, and `sensors` that all measure the position."""

    sensors: int

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1]])

    def observe(self, x, u):
        return jnp.full(self.sensors, 1.0) * x[0]


class RunsAway(Vehicle):
    """The vehicle, and a third state that grows, is not measured and moves nothing."""

    growth: float

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1], self.growth * x[2]])


def drive(sensors, r, steps=400, dt=0.1):
    """A vehicle at 2 m/s that starts at 100 m, and what its sensors say."""
    t = dt * np.arange(1, steps + 1)
    truth = np.stack([100.0 + 2.0 * t, np.full(steps, 2.0)], 1)
    noise = np.random.default_rng(0).normal(size=(steps, sensors)) * np.sqrt(r)
    return truth, truth[:, :1] + noise


def is_valid(P):
    """Every P is symmetric, and has no negative eigenvalue beyond its own rounding."""
    P = np.asarray(P, float)
    d = np.sqrt(np.maximum(np.einsum("...ii->...i", P), 1e-300))
    scaled = P / d[..., :, None] / d[..., None, :]
    return np.allclose(scaled, np.swapaxes(scaled, -1, -2)) and (
        np.linalg.eigvalsh(scaled).min() > -1e-5
    )


@pytest.mark.parametrize(("name", "backend"), TRIED)
def test_sensors_that_repeat_each_other_are_heard_however_wide_P_is(name, backend):
    r = 1e-6
    truth, z = drive(3, r)
    filt = FILTERS[name](Vehicle(3), [1e-9] * 2, [r] * 3)
    for P0 in (1e4, 1e8, 1e12):
        result = sw.run(filt, [0.0, 0.0], P0 * np.eye(2), z, dt=0.1, backend=backend)
        assert np.asarray(result.ok)[10:].all()
        assert np.asarray(result.restarts)[-1] == 0
        assert np.abs(np.asarray(result.x)[-100:] - truth[-100:]).max() < 0.02
        assert is_valid(result.P)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_measurement_is_judged_by_S_and_not_by_R_alone(backend):
    filt = sw.EKF(sw.models.ConstantVelocity(axes=1), [1e-4] * 2, [1e-8])
    z = np.full((50, 1), 5e5)
    result = sw.run(filt, [0.0, 0.0], 1e12 * np.eye(2), z, backend=backend)
    assert np.asarray(result.ok).all()
    np.testing.assert_allclose(np.asarray(result.x)[-1, 0], 5e5, rtol=1e-6)


@pytest.mark.parametrize(("name", "backend"), TRIED)
def test_a_state_that_runs_away_unseen_does_not_stop_the_correction_of_others(name, backend):
    truth, z = drive(1, 1e-2, steps=1000)
    for growth in (1.5, 100.0):
        filt = FILTERS[name](RunsAway(1, growth), [1e-5] * 3, [1e-2])
        result = sw.run(filt, [100.0, 2.0, 1.0], np.eye(3), z, dt=0.1, backend=backend)
        assert np.isfinite(np.asarray(result.P)).all()
        error = np.asarray(result.x)[-500:, 0] - truth[-500:, 0]
        assert np.sqrt((error**2).mean()) < 0.1, growth


@pytest.mark.parametrize("backend", BACKENDS)
def test_vbakf_keeps_its_track_and_a_valid_P_where_channels_are_partly_missing(backend):
    # As with ranges to pairs of anchors: many channels, of which some arrive
    sensors, r, runs = 8, 0.04, 16
    truth, z = drive(sensors, r, steps=600)
    z = np.repeat(z[None], runs, 0)
    mask = np.random.default_rng(1).random(z.shape) < np.linspace(0.05, 0.9, runs)[:, None, None]
    filt = sw.VBAKF(Vehicle(sensors), [1e-4] * 2, [r] * sensors)
    result = sw.run(filt, [100.0, 0.0], np.eye(2), z, dt=0.1, mask=mask, backend=backend)
    assert np.asarray(result.ok).mean() > 0.999
    assert is_valid(result.P)
    U = np.moveaxis(np.asarray(result.state.U), -1, 0)
    assert is_valid(U)
    error = np.asarray(result.x)[:, -300:, 0] - truth[-300:, 0]
    assert np.sqrt((error**2).mean(1)).max() < 0.15
