"""A record in chunks is smoothed as in one piece, whichever of its steps are kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import Linear, system

import sagewing as sw
from sagewing.filters.chunks import in_chunks

pytestmark = pytest.mark.usefixtures("float64", "unchecked_shapes")

F, H, Q, R = system()
with jax.enable_x64(True):
    LINEAR = Linear(jnp.asarray(F), jnp.asarray(H))
X0, P0 = np.zeros(4), np.eye(4)
STEPS = 45


def record():
    """Most steps have no measurement, and the clock fails for a while: the filter restarts."""
    z = np.random.default_rng(0).normal(size=(STEPS, 2))
    z[np.arange(STEPS) % 3 != 0] = np.nan
    z[6, 0] = np.nan
    dt = np.ones(STEPS)
    dt[24:30] = 1e9
    return z, dt


def smoothed_at(kept, filt=None, **options):
    z, dt = record()
    filt = sw.EKF(LINEAR, Q, R) if filt is None else filt
    whole = sw.run(filt, X0, P0, z, dt=dt, smooth=True)
    assert whole.restarts[-1] == 1.0
    made = sw.smooth_long(filt, X0, P0, z, dt=dt, steps=16, **options)
    np.testing.assert_array_equal(made.steps, np.flatnonzero(kept))
    np.testing.assert_allclose(made.filtered.x, whole.x[kept], atol=1e-12)
    np.testing.assert_allclose(made.smoothed.x, whole.smoothed.x[kept], atol=1e-9)
    np.testing.assert_allclose(made.smoothed.P, whole.smoothed.P[kept], atol=1e-9)


def test_all_steps_are_those_of_the_record_in_one_piece():
    smoothed_at(np.ones(STEPS, bool))


def test_steps_between_those_that_are_kept_count():
    """A chunk without a kept step, two measurements after the last one, a restart between two."""
    kept = np.isin(np.arange(STEPS), [2, 3, 11, 33, 38])
    smoothed_at(kept, keep=kept)


def test_a_filter_with_another_gain_is_smoothed_too():
    kept = np.arange(STEPS) % 4 == 1
    smoothed_at(kept, sw.VBAKF(LINEAR, Q, R, iterations=2), keep=kept)


def test_only_what_is_asked_for_is_kept():
    z, dt = record()
    filt, kept = sw.EKF(LINEAR, Q, R), np.arange(STEPS) % 5 == 0
    shares = []
    made = sw.smooth_long(
        filt,
        X0,
        P0,
        z,
        dt=dt,
        keep=kept,
        save=lambda step, extra: step.x[0],
        save_smoothed=lambda smoothed, extra: jnp.diagonal(smoothed.P),
        steps=16,
        report=shares.append,
    )
    assert made.filtered.shape == (9,)
    assert made.smoothed.shape == (9, 4)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    chunks = in_chunks(filt, X0, P0, z, None, dt, lambda step, extra: step.x[0], steps=16)
    pieces = np.concatenate([values for _, values, _ in chunks])
    np.testing.assert_array_equal(made.filtered, pieces[kept])


def test_what_cannot_be_smoothed_in_chunks_is_said(as_a_user_runs_it):
    filt, (z, dt) = sw.EKF(LINEAR, Q, R), record()
    with pytest.raises(sw.InputError, match="keep must have a flag for each step"):
        sw.smooth_long(filt, X0, P0, z, dt=dt, keep=[1, 2])
    with pytest.raises(sw.InputError, match="keep has no step"):
        sw.smooth_long(filt, X0, P0, z, dt=dt, keep=np.zeros(STEPS, bool))
    with pytest.raises(sw.InputError, match="takes one record"):
        sw.smooth_long(filt, X0, P0, z[None], dt=dt)
