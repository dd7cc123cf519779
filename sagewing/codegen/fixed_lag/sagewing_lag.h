/* A fixed-lag smoother beside the filter of sagewing_filter.h: the estimate of some steps ago by all
 * measurements up to now.
 *
 * A ring of `size` steps keeps the estimate of each step, and what the smoother needs of it. A step
 * takes the place of sw_step, and gives the same estimate.
 *
 *     static sw_kept kept[21];
 *     static sw_lag lag;
 *     sw_lag_init(&lag, kept, 21, x0, P0);
 *     sw_lag_step(&lag, measured, u, dt, &estimate);
 *     if (sw_lag_smoothed(&lag, 20, x, P) > 0) ...
 *
 * Nothing is allocated.
 */
#ifndef SAGEWING_LAG_H
#define SAGEWING_LAG_H

#include "sagewing_filter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A step that is kept. `A` is the derivative of the error after it by that before it; `gradient` and
 * `hessian` are those of the negative log-likelihood of its measurement, by the error before it. */
typedef struct {
    sw_estimate estimate;
    sw_real A[SW_NDX * SW_NDX];
    sw_real gradient[SW_NDX];
    sw_real hessian[SW_NDX * SW_NDX];
} sw_kept;

/* A filter with the steps that are kept. `state` is the state after all of them. */
typedef struct {
    sw_state state;
    sw_kept *kept; /* a ring: the last step is kept[last] */
    int size;
    int last;
    int count;
} sw_lag;

/* Start from x0 [SW_NX] and P0 [SW_NDX * SW_NDX]. `kept` is memory for `size` steps, at least 1: for
 * lags up to size - 1. */
void sw_lag_init(sw_lag *lag, sw_kept *kept, int size, const sw_real *x0, const sw_real *P0);

/* sw_step, with what is to be kept of it; to predict only let all of `measured` be NaN. */
int sw_lag_step(sw_lag *lag, const sw_real *measured, const sw_real *u, sw_real dt,
                sw_estimate *estimate);

/* The state x [SW_NX] and its covariance P [SW_NDX * SW_NDX] after the step `steps` steps before the
 * last one, by all measurements up to now; 0: the filter's own estimate. Where the arithmetic fails it
 * is the filter's own, too. Returns 1, or SW_REFUSED if that step is not kept: then nothing is
 * written. */
int sw_lag_smoothed(const sw_lag *lag, int steps, sw_real *x, sw_real *P);

#ifdef __cplusplus
}
#endif

#endif
