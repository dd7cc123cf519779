"""The error measures, on numbers small enough to do by hand."""

import numpy as np

from sagewing.metrics.errors import crmse, diverged, rmse_over_time, summary


def test_rmse_is_the_root_mean_square_over_the_state():
    x = np.array([[[3.0, 4.0], [0.0, 2.0]]])
    np.testing.assert_allclose(rmse_over_time(x, np.zeros_like(x)), [[np.sqrt(12.5), np.sqrt(2.0)]])


def test_armse_averages_the_runs_that_were_not_lost():
    rmse = np.array([[1.0, 3.0], [1.0, 101.0], [np.nan, 0.0], [4.0, 4.0], [np.inf, 1.0]])
    np.testing.assert_array_equal(diverged(rmse), [False, True, True, False, True])
    armse = summary(rmse)
    assert armse.armse_mean == 3.0
    assert armse.armse_median == 3.0
    assert armse.armse_std == 1.0
    np.testing.assert_allclose(armse.divergence_pct, 60.0)


def test_a_filter_that_lost_every_run_has_no_armse():
    armse = summary(np.full((2, 3), np.nan))
    assert np.isnan(armse.armse_mean)
    assert armse.divergence_pct == 100.0
    assert np.all(np.isnan(crmse(np.full((2, 3), np.nan))))


def test_crmse_is_the_root_mean_square_of_all_errors_so_far():
    rmse = np.array([[1.0, 3.0], [2.0, 1.0], [1.0, np.nan]])
    np.testing.assert_allclose(crmse(rmse), [np.sqrt(5.0 / 2.0), np.sqrt(15.0 / 4.0)])
