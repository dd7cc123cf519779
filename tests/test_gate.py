"""The gate in front of any attenuation rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.policy import Architecture

MODEL = sw.models.Lorenz()
X0, P0, Q0, R0 = np.array([1.0, 2.0, 20.0]), np.eye(3), [1e-3] * 3, [1.0, 1.0]
POLICY = sw.Policy(Architecture(n_x=3, n_z=2), key=jax.random.key(0))

FILTERS = {
    "ekf": lambda gate: sw.EKF(MODEL, Q0, R0, gate=gate),
    "sage-husa": lambda gate: sw.SageHusa(MODEL, Q0, R0, b=0.95, gate=gate),
    "posterior": lambda gate: sw.SageHusa(MODEL, Q0, R0, gain_noise="posterior", gate=gate),
    "ndr": lambda gate: sw.NDRSageHusa(MODEL, Q0, R0, POLICY, gate=gate),
}
EVERY = pytest.mark.parametrize("make", FILTERS.values(), ids=FILTERS.keys())


def measured(steps: int) -> np.ndarray:
    """What the model itself would show, without noise."""
    x, z = jnp.asarray(X0), []
    for _ in range(steps):
        x = MODEL.transition(x, None, 0.01)
        z.append(np.asarray(MODEL.observe(x, None)))
    return np.array(z)


@EVERY
def test_what_is_far_off_is_not_heard(make):
    z = measured(5)
    gone = z.copy()
    z[4, 0] += 20.0
    gone[4, 0] = np.nan
    gated, without = (sw.run(make(3.0), X0, P0, given, dt=0.01) for given in (z, gone))
    plain = sw.run(make(None), X0, P0, z, dt=0.01)
    np.testing.assert_allclose(gated.x[4], without.x[4], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(gated.P[4], without.P[4], rtol=1e-3, atol=1e-5)
    assert np.max(np.abs(plain.x[4] - without.x[4])) > 0.05


@pytest.mark.parametrize("name", ["sage-husa", "posterior", "ndr"])
def test_what_is_far_off_is_not_remembered(name):
    z = measured(5)
    z[4, 0] += 20.0
    gated, plain = (sw.run(FILTERS[name](gate), X0, P0, z, dt=0.01) for gate in (3.0, None))
    assert gated.r[4, 0] == gated.r[3, 0]
    assert plain.r[4, 0] > 2.0 * plain.r[3, 0]


@EVERY
def test_what_stays_far_off_is_heard_in_the_end(make):
    z = measured(60)
    z[5:, 0] += 8.0
    made = sw.run(make(3.0), X0, P0, z, dt=0.01)
    truth = measured(60)
    seen = np.array([np.asarray(MODEL.observe(x, None)) for x in jnp.asarray(made.x)])
    assert abs(seen[9, 0] - truth[9, 0]) < 0.5
    assert np.max(np.abs(seen[10:, 0] - truth[10:, 0])) > 0.9


@EVERY
@pytest.mark.parametrize("gate", [-1.0, 0.0, np.inf])
def test_a_gate_has_a_width(make, gate):
    with pytest.raises(sw.InputError, match="standard deviations"):
        make(gate)


def test_the_universal_policys_r_does_not_hear_what_the_gate_shuts_out():
    z = measured(6)
    z[5, 0] += 20.0
    filt = sw.NDRSageHusa(MODEL, Q0, R0, sw.Policy.pretrained("universal"), gate=3.0)
    r = np.asarray(sw.run(filt, X0, P0, z, dt=0.01).r)
    assert r[5, 0] == r[4, 0]
    assert r[5, 1] != r[4, 1]


def test_a_policy_keeps_the_gate_that_it_was_trained_with(tmp_path):
    policy = sw.Policy(POLICY.arch, gate=2.5, key=jax.random.key(0))
    policy.save(tmp_path / "gated")
    loaded = sw.Policy.load(tmp_path / "gated")
    assert loaded.gate == 2.5
    z = measured(5)
    z[4, 0] += 20.0
    of_its_own = sw.run(sw.NDRSageHusa(MODEL, Q0, R0, loaded), X0, P0, z, dt=0.01)
    asked = sw.run(sw.NDRSageHusa(MODEL, Q0, R0, POLICY, gate=2.5), X0, P0, z, dt=0.01)
    np.testing.assert_array_equal(of_its_own.x, asked.x)
