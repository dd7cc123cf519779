/* Compares every smoothed estimate of vector.h with that of vector_lag.h, which JAX recorded in double
 * precision. A part of check.c. */

#include "sagewing_lag.h"
#include "vector_lag.h"

/* The vector, with the last `size` steps in the ring. */
static void kept_steps(sw_lag *lag, sw_kept *kept, int size, const sw_real *x0, const sw_real *P0)
{
    sw_real z[SW_NZ], u[SW_NU + 1];
    sw_lag_init(lag, kept, size, x0, P0);
    for (int k = 0; k < VECTOR_STEPS; ++k) {
        row(k, z, u);
        (void)sw_lag_step(lag, z, u, (sw_real)vector_dt[k], NULL);
    }
}

/* The larger of `worst` and how far a number is off, in parts of `scale`. */
static double worse(double worst, sw_real found, double expected, double scale)
{
    const double off = fabs((double)found - expected) / scale;
    return off <= worst ? worst : off; /* NaN, too */
}

/* Whether a ring of all steps gives the recorded estimates, and a small one the same to the bit. */
static int smoothed_is_recorded(const sw_real *x0, const sw_real *P0)
{
    enum { SMALL = 7 };
    static sw_kept all[VECTOR_STEPS], few[SMALL];
    static sw_lag whole, last;
    static sw_real x[SW_NX], P[SW_NDX * SW_NDX], same_x[SW_NX], same_P[SW_NDX * SW_NDX];
    double worst = 0;
    kept_steps(&whole, all, VECTOR_STEPS, x0, P0);
    kept_steps(&last, few, SMALL, x0, P0);
    for (int lag = 0; lag < VECTOR_STEPS; ++lag) {
        const double *expected = vector_smoothed_x[VECTOR_STEPS - 1 - lag];
        const double *variances = vector_smoothed_P[VECTOR_STEPS - 1 - lag];
        const int found = sw_lag_smoothed(&whole, lag, x, P);
        const int again = sw_lag_smoothed(&last, lag, same_x, same_P);
        if (found != 1 || again != (lag < SMALL ? 1 : SW_REFUSED)) {
            printf("a lag of %d: returned %d and %d\n", lag, found, again);
            return 0;
        }
        for (int i = 0; i < SW_NX; ++i)
            worst = worse(worst, x[i], expected[i], 1 + fabs(expected[i]));
        for (int i = 0; i < SW_NDX; ++i) /* a variance may be zero */
            worst = worse(worst, P[i * SW_NDX + i], variances[i], 1e-30 + variances[i]);
        if (!(worst <= TOLERANCE)) {
            printf("the smoothed estimate %d steps ago is off by %.1e\n", lag, worst);
            return 0;
        }
        if (lag < SMALL && (memcmp(x, same_x, sizeof x) || memcmp(P, same_P, sizeof P))) {
            printf("the smoothed estimate %d steps ago depends on the size of the ring\n", lag);
            return 0;
        }
    }
    printf("smoothed estimates: off by %.1e at most\n", worst);
    return 1;
}
