/* Replays vector.h, which JAX recorded in double precision, and compares every estimate; then once
 * more with measurements that come late. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sagewing_filter.h"
#include "sagewing_late.h"
#include "vector.h"

#ifdef SW_DOUBLE
#define TOLERANCE 1e-9
#else
#define TOLERANCE 1e-3
#endif

static void to_real(sw_real *to, const double *from, int n)
{
    for (int i = 0; i < n; ++i) to[i] = (sw_real)from[i];
}

static void row(int k, sw_real *z, sw_real *u)
{
    to_real(z, vector_z[k], SW_NZ);
    to_real(u, vector_u[k], SW_NU);
    for (int i = 0; i < SW_NZ; ++i) {
        if (!vector_arrived[k][i]) z[i] = (sw_real)NAN;
    }
}

/* The vector with its rows as they are, or with every group of five in reverse order. */
static void with_times(const sw_real *x0, const sw_real *P0, int reversed, sw_estimate *estimate)
{
    enum { GROUP = 5 };
    static sw_event events[GROUP];
    static sw_late late;
    sw_real z[SW_NZ], u[SW_NU + 1];
    sw_late_init(&late, events, GROUP, x0, P0, 0);
    for (int n = 0; n < VECTOR_STEPS; ++n) {
        const int last = n - n % GROUP + GROUP - 1;
        const int k = reversed && last < VECTOR_STEPS ? last - n % GROUP : n;
        double t = 0;
        for (int i = 0; i <= k; ++i) t += vector_dt[i];
        row(k, z, u);
        (void)sw_late_step(&late, t, z, u, estimate);
    }
}

/* Whether measurements that come late give the estimate of those in order, to the bit. */
static int late_is_in_order(const sw_real *x0, const sw_real *P0)
{
    static sw_estimate in_order, late;
    with_times(x0, P0, 0, &in_order);
    with_times(x0, P0, 1, &late);
    return !memcmp(in_order.x, late.x, sizeof late.x) && !memcmp(in_order.P, late.P, sizeof late.P);
}

#ifdef SW_LAG
#include "check_lag.h"
#endif

int main(void)
{
    static sw_state state;
    static sw_estimate estimate;
    sw_real x0[SW_NX], P0[SW_NDX * SW_NDX], z[SW_NZ], u[SW_NU + 1];
    double worst = 0;
    to_real(x0, vector_x0, SW_NX);
    to_real(P0, vector_P0, SW_NDX * SW_NDX);
    sw_init(&state, x0, P0);
    for (int k = 0; k < VECTOR_STEPS; ++k) {
        row(k, z, u);
        (void)sw_step(&state, z, u, (sw_real)vector_dt[k], &estimate);
        for (int i = 0; i < SW_NX; ++i) {
            const double expected = vector_x[k][i];
            const double off = fabs((double)estimate.x[i] - expected) / (1 + fabs(expected));
            if (!(off <= TOLERANCE)) {
                printf("step %d, state %d: %.17g, expected %.17g\n", k, i, (double)estimate.x[i],
                       expected);
                return 1;
            }
            if (off > worst) worst = off;
        }
    }
    printf("%d steps of %d states in %s precision: off by %.1e at most, %.0e allowed\n",
           VECTOR_STEPS, SW_NX, sizeof(sw_real) == sizeof(double) ? "double" : "single", worst,
           TOLERANCE);
    if (!late_is_in_order(x0, P0)) {
        printf("measurements that come late do not give the estimate of those in order\n");
        return 1;
    }
    printf("the same to the bit where measurements come late\n");
#ifdef SW_LAG
    if (!smoothed_is_recorded(x0, P0)) return 1;
#endif
    return 0;
}
