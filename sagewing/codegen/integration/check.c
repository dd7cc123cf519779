/* Replays vector.h, which JAX recorded in double precision, and compares every estimate. */

#include <math.h>
#include <stdio.h>

#include "sagewing_filter.h"
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
        to_real(z, vector_z[k], SW_NZ);
        to_real(u, vector_u[k], SW_NU);
        for (int i = 0; i < SW_NZ; ++i) {
            if (!vector_arrived[k][i]) z[i] = (sw_real)NAN;
        }
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
    return 0;
}
