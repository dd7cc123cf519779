/* late_streams STREAMS: random streams of measurements with delays up to a second, duplicates and
 * swaps. Ends with 1 where the estimate of sw_late_step is not, to the bit, that of sw_step on all
 * events that were not refused, in the order of their times. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sagewing_late.h"

enum { MOST = 64, LARGEST = 24 };

typedef struct {
    double t, arrival;
    sw_real z[SW_NZ], u[SW_NU + 1];
    int has_u, taken;
} event;

static uint64_t seed = 88172645463325252u;

static double uniform(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static int drawn(event *stream)
{
    const int n = 2 + (int)(uniform() * (MOST - 2));
    double t = 100 * uniform();
    for (int k = 0; k < n; ++k) {
        event *now = &stream[k];
        if (k > 0 && uniform() < 0.1) { /* the same measurement again */
            *now = stream[k - 1];
        } else {
            t += uniform() < 0.1 ? 0 : 0.1 * uniform();
            now->t = t;
            for (int i = 0; i < SW_NZ; ++i) now->z[i] = (sw_real)(uniform() < 0.1 ? NAN : uniform());
            for (int i = 0; i < SW_NU; ++i) now->u[i] = (sw_real)uniform();
            now->has_u = k == 0 || uniform() < 0.7;
        }
        now->arrival = t + (uniform() < 0.5 ? uniform() : 0);
        now->taken = 0;
    }
    return n;
}

static int by_arrival(const void *a, const void *b)
{
    const double x = ((const event *)a)->arrival, y = ((const event *)b)->arrival;
    return (x > y) - (x < y);
}

/* The estimate of the events that were taken; a stable sort by time. */
static void in_order(event *stream, int n, const sw_real *x0, const sw_real *P0, double t0,
                     sw_estimate *estimate)
{
    for (int k = 1; k < n; ++k) {
        const event moved = stream[k];
        int i = k;
        for (; i > 0 && stream[i - 1].t > moved.t; --i) stream[i] = stream[i - 1];
        stream[i] = moved;
    }
    static sw_state state;
    const sw_real *u = NULL;
    sw_init(&state, x0, P0);
    for (int k = 0; k < n; ++k) {
        if (!stream[k].taken) continue;
        if (stream[k].has_u) u = stream[k].u;
        sw_step(&state, stream[k].z, u, (sw_real)(stream[k].t - t0), estimate);
        t0 = stream[k].t;
    }
}

int main(int argc, char **argv)
{
    static event stream[MOST];
    static sw_event events[LARGEST];
    static sw_late late;
    static sw_estimate made, expected;
    const sw_real x0[SW_NX] = {0}, none[SW_NZ] = {0};
    sw_real P0[SW_NDX * SW_NDX] = {0};
    for (int i = 0; i < SW_NDX; ++i) P0[i * SW_NDX + i] = 1;
    long replayed = 0, refused = 0, streams = argc > 1 ? atol(argv[1]) : 1;
    for (long s = 0; s < streams; ++s) {
        const int n = drawn(stream), size = (int)(uniform() * (LARGEST + 1));
        const double t0 = uniform() < 0.5 ? stream[0].t - 1 : NAN;
        qsort(stream, (size_t)n, sizeof *stream, by_arrival);
        const double start = isnan(t0) ? NAN : t0;
        double first = NAN;
        unsigned long too_late = 0;
        sw_late_init(&late, events, size, x0, P0, start);
        for (int k = 0; k < n; ++k) {
            const double latest = sw_late_time(&late);
            const int said = sw_late_step(&late, stream[k].t, stream[k].z,
                                          stream[k].has_u ? stream[k].u : NULL, &made);
            stream[k].taken = said >= 0;
            too_late += said == SW_TOO_LATE;
            replayed += said >= 0 && stream[k].t < latest;
            if (said >= 0 && isnan(first)) first = stream[k].t;
            if (said == SW_REFUSED && SW_NU == 0) return 1;
            if (sw_late_step(&late, NAN, none, NULL, &made) != SW_REFUSED) return 1;
        }
        if (late.late != too_late) return 1;
        refused += (long)too_late;
        in_order(stream, n, x0, P0, isnan(t0) ? first : t0, &expected);
        if (memcmp(made.x, expected.x, sizeof made.x) || memcmp(made.P, expected.P, sizeof made.P)
            || made.loglik < expected.loglik || made.loglik > expected.loglik) {
            printf("stream %ld: %d events in a buffer of %d\n", s, n, size);
            return 1;
        }
    }
    printf("%ld streams, %ld late measurements replayed, %ld refused\n", streams, replayed, refused);
    return replayed > streams && refused > 0 ? 0 : 1;
}
