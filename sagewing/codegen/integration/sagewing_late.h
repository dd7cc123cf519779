/* Measurements with time stamps that come late and out of order, for any filter of sagewing_filter.h.
 *
 * A buffer of `size` events keeps each measurement with the state before it. A late one goes to its
 * place in time, and it and all later ones are filtered again. The estimate is that of all events in
 * the order of their times, to the bit; events of the same time stay in the order in which they came.
 * What is older than the last event that has left the buffer is refused and counted.
 *
 *     static sw_event events[64];
 *     static sw_late late;
 *     sw_late_init(&late, events, 64, x0, P0, t0);
 *     sw_late_step(&late, t, measured, u, &estimate);
 *
 * Nothing is allocated. The worst case of a step is `size` + 1 steps of the filter.
 */
#ifndef SAGEWING_LATE_H
#define SAGEWING_LATE_H

#include "sagewing_filter.h"

#define SW_TOO_LATE (-2)

#ifdef __cplusplus
extern "C" {
#endif

/* A measurement: when, what, with which inputs, and the state before it. */
typedef struct {
    double t;
    sw_real z[SW_NZ];
    sw_real u[SW_NU + 1];
    int has_u; /* 0: the inputs are those of the event before it */
    sw_state before;
} sw_event;

/* A filter with its buffer. `state` is the state after all events, `late` counts the refused ones. */
typedef struct {
    sw_state state;
    unsigned long late;
    sw_event *events; /* a ring: the oldest is events[first] */
    int size;
    int first;
    int count;
    double t; /* of the last event that has left the buffer, before that of x0 */
    sw_real u[SW_NU + 1]; /* its inputs */
    int has_u;
} sw_late;

/* Start from x0 [SW_NX] and P0 [SW_NDX * SW_NDX] at the time t0 in seconds; if t0 is NaN, at the
 * time of the event that comes first. `events` is memory for `size` events, at least 0. */
void sw_late_init(sw_late *late, sw_event *events, int size, const sw_real *x0, const sw_real *P0,
                  double t0);

/* The measurement of the time t, as in sw_step. With u NULL the inputs are those of the event before
 * it in time. The estimate, which may be NULL, is that of the latest event.
 * Returns the estimate's `ok`; SW_TOO_LATE for an event that is older than the buffer reaches; or
 * SW_REFUSED if t is no finite number, too far from the event before it for sw_real, or if no inputs
 * are known. In both of these cases nothing but the counter changes. */
int sw_late_step(sw_late *late, double t, const sw_real *measured, const sw_real *u,
                 sw_estimate *estimate);

/* The time of the latest event; t0 before the first one. */
double sw_late_time(const sw_late *late);

#ifdef __cplusplus
}
#endif

#endif
