"""Several predictions to a measurement: what a correction shows of q is shared by them."""

import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.filters import Fading, PerPredictionStep, StepInfo, per_prediction_step
from sagewing.filters.attenuation import innermost

MODEL, Q0, R0 = sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0]


def test_d_of_q_is_divided_by_the_predictions_and_d_of_r_is_not():
    q, r = jnp.ones(19), jnp.ones(6)
    info = StepInfo(r, r, jnp.eye(6), jnp.eye(6), jnp.ones((19, 6)), q, r, r > 0)
    fading = Fading(jnp.asarray(0.99))
    once, k, _ = fading(fading.init(q, r), info)
    spread = PerPredictionStep(fading, jnp.asarray(4.0))
    shared, k_shared, _ = spread(spread.init(q, r), info)
    np.testing.assert_allclose(shared.q, once.q / 4.0)
    np.testing.assert_allclose(shared.r, once.r)
    assert k == k_shared == 1.0


def test_a_filter_built_for_four_predictions_moves_q_a_quarter_as_far():
    def after_one_step(filt):
        made = sw.run(filt, np.ones(3), np.eye(3), np.array([[3.0, -2.0]]), dt=0.01)
        return made.q[0] - np.float32(Q0), made.r[0]

    filt = sw.SageHusa(MODEL, Q0, R0, bounds=(1e-6, 1e6))
    (q, r), (q_shared, r_shared) = map(after_one_step, (filt, per_prediction_step(filt, 4)))
    assert np.all(np.abs(q) > 1e-4)
    np.testing.assert_allclose(q_shared, q / 4.0, rtol=1e-4)
    np.testing.assert_array_equal(r_shared, r)


def test_the_gate_and_the_policy_of_the_filter_stay():
    filt = per_prediction_step(sw.SageHusa(MODEL, Q0, R0, b=0.98, gate=3.0), 4)
    assert innermost(filt.rule.policy).b == np.float32(0.98)
    assert filt.rule.policy.policy.sigmas == 3.0


def test_a_filter_of_another_rule_is_returned_as_it_is():
    filt = sw.VBAKF(MODEL, Q0, R0)
    assert per_prediction_step(filt, 4) is filt


@pytest.mark.parametrize("steps", [0, -1.0, np.nan, [4.0]])
def test_a_number_of_predictions_is_positive(steps):
    with pytest.raises(sw.InputError, match="steps_per_measurement must be a positive number"):
        per_prediction_step(sw.SageHusa(MODEL, Q0, R0), steps)
