/* fuzzed_steps STEPS IN: takes the steps of IN (rows of z and dt, sw_real) from x0 and P0 (its first
 * numbers). Ends with 1, and says why, where a number of the state or of the estimate is not finite, a
 * variance is negative, or q or r is out of bounds. `limits.h` is written by the test. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sagewing_filter.h"

static int fail(long k, const char *what, int i, sw_real value)
{
    printf("step %ld: %s[%d] is %g\n", k, what, i, (double)value);
    return 1;
}

static int finite(long k, const char *what, const sw_real *a, int n)
{
    for (int i = 0; i < n; ++i)
        if (!isfinite(a[i])) return fail(k, what, i, a[i]);
    return 0;
}

static int positive(long k, const char *what, const sw_real *P)
{
    for (int i = 0; i < SW_NX; ++i)
        if (!(P[i * SW_NX + i] >= 0)) return fail(k, what, i, P[i * SW_NX + i]);
    return 0;
}

static int within(long k, const char *what, const sw_real *a, const double *low, const double *high,
                  int n)
{
    for (int i = 0; i < n; ++i)
        if (!((double)a[i] >= low[i] && (double)a[i] <= high[i])) return fail(k, what, i, a[i]);
    return 0;
}

#include "limits.h" /* q_low, q_high, r_low, r_high, and wrong(): what is wrong with a state */

int main(int argc, char **argv)
{
    static sw_state state;
    static sw_estimate said;
    sw_real x0[SW_NX], P0[SW_NX * SW_NX], row[SW_NZ + 1];
    if (argc != 3) return 2;
    const long steps = atol(argv[1]);
    FILE *in = fopen(argv[2], "rb");
    if (!in || fread(x0, sizeof *x0, SW_NX, in) != SW_NX) return 2;
    if (fread(P0, sizeof *P0, SW_NX * SW_NX, in) != SW_NX * SW_NX) return 2;
    sw_init(&state, x0, P0);
    long ok = 0;
    for (long k = 0; k < steps; ++k) {
        if (fread(row, sizeof *row, SW_NZ + 1, in) != SW_NZ + 1) return 2;
        const int good = sw_step(&state, row, x0, row[SW_NZ], &said);
        if (good == SW_REFUSED) return 3;
        ok += good;
        if (wrong(k, &state) || finite(k, "said.x", said.x, SW_NX)) return 1;
        if (finite(k, "said.P", said.P, SW_NX * SW_NX) || positive(k, "said.P", said.P)) return 1;
        if (finite(k, "nis", &said.nis, 1) || finite(k, "loglik", &said.loglik, 1)) return 1;
        if (within(k, "q", said.q, q_low, q_high, SW_NX)) return 1;
        if (within(k, "r", said.r, r_low, r_high, SW_NZ)) return 1;
    }
    printf("%ld of %ld steps ok, %g restarts\n", ok, steps, (double)said.restarts);
    if (ok < steps / 2) return 4; /* most have no trouble of their own */
    return 0;
}
