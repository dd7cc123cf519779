#include "sagewing_late.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Event i in the order of time. */
static sw_event *event(const sw_late *late, int i)
{
    return &late->events[(late->first + i) % late->size];
}

static double time_before(const sw_late *late, int i)
{
    return i > 0 ? event(late, i - 1)->t : late->t;
}

/* The inputs that hold before event i; NULL if none are known. */
static const sw_real *inputs_before(const sw_late *late, int i)
{
    while (--i >= 0)
        if (event(late, i)->has_u) return event(late, i)->u;
    return late->has_u ? late->u : NULL;
}

static int in_range(double seconds)
{
    return seconds <= (sizeof(sw_real) == sizeof(double) ? DBL_MAX : (double)FLT_MAX);
}

static void keep_inputs(sw_real *to, int *has_u, const sw_real *u)
{
    if (!u) return;
    memcpy(to, u, SW_NU * sizeof *u);
    *has_u = 1;
}

static void leave(sw_late *late, double t, const sw_real *u)
{
    late->t = t;
    keep_inputs(late->u, &late->has_u, u);
}

/* The oldest event leaves the buffer. */
static void forget_oldest(sw_late *late)
{
    const sw_event *oldest = event(late, 0);
    leave(late, oldest->t, oldest->has_u ? oldest->u : NULL);
    late->first = (late->first + 1) % late->size;
    --late->count;
}

/* Put a measurement at place i; the later ones move by one. The states before them are made anew. */
static void insert(sw_late *late, int i, double t, const sw_real *measured, const sw_real *u)
{
    for (int k = late->count; k > i; --k) {
        sw_event *to = event(late, k);
        const sw_event *from = event(late, k - 1);
        to->t = from->t;
        to->has_u = from->has_u;
        memcpy(to->z, from->z, sizeof to->z);
        memcpy(to->u, from->u, sizeof to->u);
    }
    ++late->count;
    sw_event *here = event(late, i);
    here->t = t;
    here->has_u = 0;
    memcpy(here->z, measured, sizeof here->z);
    keep_inputs(here->u, &here->has_u, u);
}

/* Filter the events from i on again; `state` is the state before them. */
static int replay(sw_late *late, int i, sw_estimate *estimate)
{
    const sw_real *u = inputs_before(late, i);
    int ok = 1;
    for (; i < late->count; ++i) {
        sw_event *now = event(late, i);
        if (now->has_u) u = now->u;
        now->before = late->state;
        ok = sw_step(&late->state, now->z, u, (sw_real)(now->t - time_before(late, i)), estimate);
    }
    return ok;
}

void sw_late_init(sw_late *late, sw_event *events, int size, const sw_real *x0, const sw_real *P0,
                  double t0)
{
    memset(late, 0, sizeof *late);
    sw_init(&late->state, x0, P0);
    late->events = events;
    late->size = size;
    late->t = t0;
}

int sw_late_step(sw_late *late, double t, const sw_real *measured, const sw_real *u,
                 sw_estimate *estimate)
{
    if (!isfinite(t)) return SW_REFUSED;
    if (t < late->t) {
        ++late->late;
        return SW_TOO_LATE;
    }
    int i = late->count;
    while (i > 0 && event(late, i - 1)->t > t) --i;
    const sw_real *held = u ? u : inputs_before(late, i);
    if (SW_NU > 0 && !held) return SW_REFUSED;
    const double last = isnan(late->t) ? t : time_before(late, i);
    if (!in_range(t - last)) return SW_REFUSED;

    if (isnan(late->t)) late->t = t;
    if (i < late->count) late->state = event(late, i)->before;
    if (late->count == late->size && i == 0) { /* it leaves the buffer at once */
        const int ok = sw_step(&late->state, measured, held, (sw_real)(t - last), estimate);
        leave(late, t, u);
        return late->count ? replay(late, 0, estimate) : ok;
    }
    if (late->count == late->size) {
        forget_oldest(late);
        --i;
    }
    insert(late, i, t, measured, u);
    return replay(late, i, estimate);
}

double sw_late_time(const sw_late *late) { return time_before(late, late->count); }
