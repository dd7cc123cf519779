"""The algebra of the filters: facts that hold for any numbers."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from linear import Linear

import sagewing as sw
from sagewing.filters.named import FLOOR
from sagewing.shapes import real_dtype

# Derandomised, so that a run today and a run in CI are the same run.
some = partial(settings, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**32 - 1)

STEPS = 24
KINDS = ("ekf", "sage-husa", "learned")
BOUNDS = (0.5, 100.0)


class Turntable(sw.Model):
    """An angle in eighths of a turn and its rate: all of its arithmetic is exact in binary."""

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1]])

    def observe(self, x, u):
        return x[:1]

    def normalize(self, x):
        return jnp.stack([jnp.mod(x[0], 8.0), x[1]])


class Rewired(sw.Model):
    """Another model's sensors in another order and in other units."""

    model: sw.Model
    order: jax.Array
    unit: jax.Array

    def transition(self, x, u, dt):
        return self.model.transition(x, u, dt)

    def observe(self, x, u):
        return self.unit * self.model.observe(x, u)[self.order]


@cache
def policy(n_x, n_z, precision):
    sizes = {"encoder": (4,), "context": (4,), "head": (4,), "decoder": (4,)}
    arch = sw.Architecture(n_x, n_z, depth=2, hidden=4, **sizes)
    return sw.Policy(arch, BOUNDS, key=jax.random.key(7))


def build(kind, model, Q0, R0, gain_noise="prior"):
    if kind == "ekf":
        return sw.EKF(model, Q0, R0)
    if kind == "sage-husa":
        return sw.SageHusa(model, Q0, R0, b=0.95, bounds=BOUNDS, gain_noise=gain_noise)
    made = policy(len(Q0), len(R0), real_dtype().name)
    return sw.NDRSageHusa(model, Q0, R0, policy=made, gain_noise=gain_noise)


def rotation(rng, n):
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def variances(rng, n, condition):
    """Around 1, the largest `condition` times the smallest, in any order."""
    exponents = np.concatenate([[0.0, 1.0], rng.random(n - 2)]) - 0.5
    return rng.permutation(condition**exponents)


def covariance(rng, n, condition):
    U = rotation(rng, n)
    P = (U * variances(rng, n, condition)) @ U.T
    return 0.5 * (P + P.T)


def linear(rng, n_x, n_z):
    F, H = (
        (rotation(rng, n_x) * np.linspace(0.5, 1.1, n_x)) @ rotation(rng, n_x),
        rng.normal(size=(n_z, n_x)),
    )
    return Linear(jnp.asarray(F, real_dtype()), jnp.asarray(H, real_dtype()))


def lorenz_drift(x):
    x1, x2, x3 = np.moveaxis(x, -1, 0)
    return np.stack([10.0 * (x2 - x1), x1 * (28.0 - x3) - x2, x1 * x2 - 8.0 / 3.0 * x3], axis=-1)


def lorenz_record(rng, steps=STEPS, batch=()):
    """Measurements of a Lorenz path, some lost and some wild, and a start near its first state."""
    truth = np.array([-8.0, -6.0, 25.0]) + rng.normal(size=(*batch, 3))
    x0, states = truth + 0.3 * rng.normal(size=truth.shape), []
    for _ in range(steps):
        half = truth + 0.005 * lorenz_drift(truth)
        truth = truth + 0.01 * lorenz_drift(half)
        states.append(truth)
    z = np.stack(states, axis=-2)[..., [0, 2]] + rng.normal(size=(*batch, steps, 2))
    z[rng.random(z.shape) < 0.1] += 20.0
    z[rng.random(z.shape) < 0.2] = np.nan
    return sw.models.Lorenz(), x0, 0.1 * np.eye(3), z


def run32(filt, x0, P0, z, mask=True):
    """`sw.run`, always with a mask, so that the tests in float32 share their programs."""
    return sw.run(filt, x0, P0, z, mask=np.broadcast_to(mask, z.shape))


LORENZ_NOISE = (np.full(3, 0.01), np.array([1.0, 2.0]))
OUTPUTS = ("x", "P", "q", "r", "d", "nis", "loglik")


def same(got, expected, rtol, names=OUTPUTS):
    for name in names:
        a, b = np.asarray(getattr(got, name)), np.asarray(getattr(expected, name))
        np.testing.assert_allclose(a, b, rtol, rtol * max(1.0, np.abs(b).max()), err_msg=name)


def identical(got, expected):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def assert_covariances(P):
    P = np.asarray(P, np.float64)
    np.testing.assert_array_equal(P, np.swapaxes(P, -1, -2))
    assert np.linalg.eigvalsh(P).min() > 0.0


# One run in a thousand is hard: these seeds are such runs.
@pytest.mark.parametrize("kind", KINDS)
@some(max_examples=40)
@given(seed=seeds)
@example(seed=156)
@example(seed=458)
@example(seed=1330)
def test_P_is_symmetric_and_positive_definite_on_a_linear_system(kind, seed):
    rng = np.random.default_rng(seed)
    conditions = 10.0 ** rng.uniform(0.0, 6.0, 3) if seed % 2 else np.full(3, 1e6)
    model = linear(rng, 8, 4)
    P0 = covariance(rng, 8, conditions[0])
    noise = covariance if kind == "ekf" else variances
    filt = build(kind, model, noise(rng, 8, conditions[1]), noise(rng, 4, conditions[2]))
    z = rng.normal(size=(STEPS, 4)) * 10.0 ** rng.uniform(-2.0, 3.0)
    z[rng.random(z.shape) < 0.2] = np.nan
    result = sw.run(filt, np.zeros(8), P0, z)
    assert not bool(result.restarts.any())
    assert_covariances(result.P)


@pytest.mark.parametrize("kind", KINDS)
@some(max_examples=40)
@given(seed=seeds)
def test_P_is_symmetric_and_positive_definite_on_lorenz(kind, seed):
    rng = np.random.default_rng(seed)
    conditions = 10.0 ** rng.uniform(0.0, 6.0, 3)
    model, x0, _, z = lorenz_record(rng)
    P0 = 0.1 * covariance(rng, 3, conditions[0])
    Q0, R0 = 0.01 * variances(rng, 3, conditions[1]), variances(rng, 2, conditions[2])
    assert_covariances(run32(build(kind, model, Q0, R0), x0, P0, z).P)


@pytest.mark.parametrize("kind", KINDS)
def test_P_stays_symmetric_where_a_step_falls_back_to_its_prediction(kind):
    model, x0, P0, z = lorenz_record(np.random.default_rng(0))
    z[::3] = 1e30  # its square overflows
    result = run32(build(kind, model, *LORENZ_NOISE), x0, P0, z)
    assert not bool(result.ok[::3].any())
    assert_covariances(result.P)


@pytest.mark.parametrize(
    ("kind", "gain_noise"),
    [("sage-husa", "prior"), ("sage-husa", "posterior"), ("learned", "prior")],
)
@some(max_examples=30)
@given(seed=seeds)
def test_q_and_r_stay_within_bounds_and_above_the_floor(kind, gain_noise, seed):
    rng = np.random.default_rng(seed)
    model, x0, P0, z = lorenz_record(rng)
    # Some bases are so small that the floor decides.
    Q0 = np.float32(10.0 ** rng.uniform(-14.0, -1.0, 3))
    R0 = np.float32(10.0 ** rng.uniform(-14.0, 1.0, 2))
    z[0] = x0[[0, 2]]  # something is measured at the first step
    result = run32(build(kind, model, Q0, R0, gain_noise), x0, P0, z)
    low, high = (np.float32(b) for b in BOUNDS)
    for values, base in ((result.q, Q0), (result.r, R0)):
        assert np.all(np.asarray(values) >= np.maximum(low * base, np.float32(FLOOR)))
        assert np.all(np.asarray(values) <= np.maximum(high * base, np.float32(FLOOR)))


@pytest.mark.parametrize("kind", ["sage-husa", "learned"])
@some(max_examples=5)
@given(seed=seeds)
def test_a_batch_equals_its_records(kind, seed):
    with jax.enable_x64(True):
        model, x0, P0, z = lorenz_record(np.random.default_rng(seed), batch=(3,))
        filt = build(kind, model, *LORENZ_NOISE)
        together = sw.run(filt, x0, P0, z)
        for i in range(3):
            alone = sw.run(filt, x0[i], P0, z[i])
            same(selected(together, i), alone, 1e-10)


def selected(result, rows=...):
    """The estimates of a result, of these rows."""
    names = sw.filters.Estimate._fields
    return sw.filters.Estimate(*(np.asarray(getattr(result, name))[rows] for name in names))


def joined(*pieces):
    return sw.filters.Estimate(*map(np.concatenate, zip(*map(selected, pieces), strict=True)))


@some(max_examples=5)
@given(seed=seeds)
def test_a_record_in_pieces_equals_the_whole(seed):
    with jax.enable_x64(True):
        model, x0, P0, z = lorenz_record(np.random.default_rng(seed), steps=2 * STEPS)
        filt = build("learned", model, *LORENZ_NOISE)  # the one that remembers most
        whole = sw.run(filt, x0, P0, z)
        first = sw.run(filt, x0, P0, z[:STEPS])
        both = joined(first, sw.run_from(filt, first.state, z[STEPS:]))
        same(both, whole, 1e-10)


@pytest.mark.parametrize("kind", KINDS)
@some(max_examples=5)
@given(seed=seeds)
def test_online_step_by_step_equals_run_and_run_from(kind, seed):
    with jax.enable_x64(True):
        model, x0, P0, z = lorenz_record(np.random.default_rng(seed), steps=2 * STEPS)
        filt = build(kind, model, *LORENZ_NOISE)
        first = sw.run(filt, x0, P0, z[:STEPS])
        result = joined(first, sw.run_from(filt, first.state, z[STEPS:], dt=0.02))
        online = sw.Online(filt, x0, P0, "jax")
        for k in range(2 * STEPS):
            x, P = online.step(z[k], dt=0.01 if k < STEPS else 0.02)
            same(online.estimate, selected(result, k), 1e-9)
            identical((x, P), (online.estimate.x, online.estimate.P))


@pytest.mark.parametrize("kind", ["ekf", "sage-husa"])
@some(max_examples=5)
@given(seed=seeds)
def test_the_order_of_the_channels_does_not_matter(kind, seed):
    with jax.enable_x64(True):
        rng = np.random.default_rng(seed)
        model, x0, P0, z = lorenz_record(rng)
        Q0, R0, order = LORENZ_NOISE[0], variances(rng, 2, 100.0), np.array([1, 0])
        swapped = Rewired(model, jnp.asarray(order), jnp.ones(2))
        one = sw.run(build(kind, model, Q0, R0), x0, P0, z)
        other = sw.run(build(kind, swapped, Q0, R0[order]), x0, P0, z[:, order])
        same(other, one, 1e-10, ("x", "P", "q", "nis", "loglik"))
        np.testing.assert_allclose(other.r, one.r[:, order], 1e-10)


@pytest.mark.parametrize("kind", ["ekf", "sage-husa"])
@some(max_examples=20)
@given(seed=seeds, exponent=st.floats(-3.0, 3.0), channel=st.sampled_from([0, 1]))
def test_the_unit_of_a_sensor_does_not_matter(kind, seed, exponent, channel):
    with jax.enable_x64(True):
        model, x0, P0, z = lorenz_record(np.random.default_rng(seed))
        Q0, R0 = LORENZ_NOISE
        unit = np.ones(2)
        unit[channel] = 10.0**exponent
        rescaled = Rewired(model, jnp.arange(2), jnp.asarray(unit))
        one = sw.run(build(kind, model, Q0, R0), x0, P0, z)
        other = sw.run(build(kind, rescaled, Q0, R0 * unit**2), x0, P0, z * unit)
        same(other, one, 1e-9, ("x", "P", "q", "d", "nis"))
        np.testing.assert_allclose(other.r, one.r * unit**2, 1e-9)
        # A density is per unit, a logarithm of it shifts.
        shift = np.isfinite(z) @ np.log(unit)
        np.testing.assert_allclose(other.loglik, one.loglik - shift, 1e-9, 1e-9)


@pytest.mark.parametrize("kind", KINDS)
@some(max_examples=30)
@given(data=st.data())
def test_a_step_without_measurement_is_exactly_a_prediction(kind, data):
    # Small multiples of 1/4: float32 does not round them, so the formula's bits are the filter's.
    quarters = st.integers(-40, 40).map(lambda n: n / 4)
    x0 = np.array([data.draw(quarters), data.draw(quarters)])
    a, b, c = (data.draw(st.integers(1, 40)) / 4 for _ in range(3))
    P0 = np.array([[a + b, b], [b, b + c]])
    Q0, R0 = np.array([0.25, 0.5]), np.array([1.0])
    online = sw.Online(build(kind, Turntable(), Q0, R0), x0, P0, "jax")
    x, P = online.step(None, dt=0.5)
    F = np.array([[1.0, 0.5], [0.0, 1.0]])
    np.testing.assert_array_equal(x, [np.mod((F @ x0)[0], 8.0), x0[1]])
    np.testing.assert_array_equal(P, F @ P0 @ F.T + np.diag(Q0))
    np.testing.assert_array_equal(online.estimate.q, Q0)
    np.testing.assert_array_equal(online.estimate.r, R0)
    assert float(online.estimate.nis) == 0.0
    assert float(online.estimate.loglik) == 0.0


@pytest.mark.parametrize("kind", KINDS)
@some(max_examples=20)
@given(seed=seeds)
def test_q_and_r_rest_while_nothing_is_measured(kind, seed):
    rng = np.random.default_rng(seed)
    model, x0, P0, z = lorenz_record(rng)
    silent = rng.random(STEPS) < 0.5
    result = run32(build(kind, model, *LORENZ_NOISE), x0, P0, z, ~silent[:, None])
    for values, base in zip((result.q, result.r), LORENZ_NOISE, strict=True):
        before = np.vstack([np.float32(base), np.asarray(values)[:-1]])
        np.testing.assert_array_equal(np.asarray(values)[silent], before[silent])


@pytest.mark.parametrize("kind", KINDS)
@some(max_examples=20)
@given(seed=seeds)
def test_nan_in_z_means_the_same_as_false_in_mask(kind, seed):
    rng = np.random.default_rng(seed)
    model, x0, P0, z = lorenz_record(rng)
    z = np.where(np.isnan(z), 5.0, z)
    mask = rng.random(z.shape) < 0.7
    mask[rng.random(STEPS) < 0.3] = False  # whole steps, too
    filt = build(kind, model, *LORENZ_NOISE)
    masked = run32(filt, x0, P0, z, mask)
    for absent in (np.nan, np.inf, -np.inf):
        identical(run32(filt, x0, P0, np.where(mask, z, absent)), masked)
    # What a masked channel holds is never looked at.
    identical(run32(filt, x0, P0, np.where(mask, z, 1e30), mask), masked)


@pytest.mark.parametrize("kind", KINDS)
def test_one_mask_entry_a_step_stands_for_all_its_channels(kind):
    rng = np.random.default_rng(3)
    model, x0, P0, z = lorenz_record(rng)
    mask = rng.random(STEPS) < 0.6
    filt = build(kind, model, *LORENZ_NOISE)
    identical(sw.run(filt, x0, P0, z, mask=mask), run32(filt, x0, P0, z, mask[:, None]))
