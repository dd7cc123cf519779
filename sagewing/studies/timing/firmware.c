/* The smallest program that flies the filter: what it needs beside the filter is not much. */

#include "sagewing_filter.h"

static sw_state state;
static sw_estimate estimate;
static volatile sw_real sensors[SW_NZ + SW_NU], start[SW_NX + SW_NDX * SW_NDX];
volatile sw_real said[SW_NX];

int main(void)
{
    sw_real x0[SW_NX], P0[SW_NDX * SW_NDX], z[SW_NZ], u[SW_NU + 1];
    for (int i = 0; i < SW_NX; ++i) x0[i] = start[i];
    for (int i = 0; i < SW_NDX * SW_NDX; ++i) P0[i] = start[SW_NX + i];
    sw_init(&state, x0, P0);
    for (;;) {
        for (int i = 0; i < SW_NZ; ++i) z[i] = sensors[i];
        for (int i = 0; i < SW_NU; ++i) u[i] = sensors[SW_NZ + i];
        (void)sw_step(&state, z, u, (sw_real)0.01, &estimate);
        for (int i = 0; i < SW_NX; ++i) said[i] = estimate.x[i];
    }
}
