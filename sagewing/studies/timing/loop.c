/* loop STEPS ROWS IN OUT: runs the filter over the rows of IN (u, z; again and again), and writes how
 * many nanoseconds every step took. IN and OUT are binary: sw_real and double. Prints the state that
 * the last step gave. */

#define _POSIX_C_SOURCE 199309L

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sagewing_filter.h"

enum { COLUMNS = SW_NU + SW_NZ };

int main(int argc, char **argv)
{
    static sw_state state;
    static sw_estimate estimate;
    static sw_real x0[SW_NX], P0[SW_NDX * SW_NDX];
    if (argc != 5) return 2;
    const long steps = atol(argv[1]), rows = atol(argv[2]);
    sw_real *in = malloc(sizeof(sw_real) * COLUMNS * (size_t)rows);
    double *spent = malloc(sizeof(double) * (size_t)steps);
    FILE *file = fopen(argv[3], "rb");
    if (!in || !spent || !file) return 2;
    size_t read = fread(x0, sizeof(sw_real), SW_NX, file);
    read += fread(P0, sizeof(sw_real), SW_NDX * SW_NDX, file);
    read += fread(in, sizeof(sw_real) * COLUMNS, (size_t)rows, file);
    fclose(file);
    if (read != SW_NX + SW_NDX * SW_NDX + (size_t)rows) return 2;
    for (long k = 0; k < steps; ++k) {
        struct timespec before, after;
        const sw_real *row = in + COLUMNS * (k % rows);
        if (k % rows == 0) sw_init(&state, x0, P0);
        clock_gettime(CLOCK_MONOTONIC, &before);
        (void)sw_step(&state, row + SW_NU, row, (sw_real)0.01, &estimate);
        clock_gettime(CLOCK_MONOTONIC, &after);
        spent[k] = 1e9 * (double)(after.tv_sec - before.tv_sec);
        spent[k] += (double)(after.tv_nsec - before.tv_nsec);
    }
    for (int i = 0; i < SW_NX; ++i) printf("%.9g\n", (double)estimate.x[i]);
    file = fopen(argv[4], "wb");
    if (!file || fwrite(spent, sizeof(double), (size_t)steps, file) != (size_t)steps) return 2;
    return fclose(file);
}
