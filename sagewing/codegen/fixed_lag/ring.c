
/* The step so many steps before the last one. */
static const sw_kept *ago(const sw_lag *lag, int steps)
{
    const int place = lag->last - steps;
    return &lag->kept[place < 0 ? place + lag->size : place];
}

/* A step that was left out: the error is what it was, and nothing was measured. */
static void stays(sw_kept *now)
{
    memset(now->A, 0, sizeof now->A);
    memset(now->gradient, 0, sizeof now->gradient);
    memset(now->hessian, 0, sizeof now->hessian);
    for (int i = 0; i < SW_NDX; ++i) now->A[i * SW_NDX + i] = 1;
}

void sw_lag_init(sw_lag *lag, sw_kept *kept, int size, const sw_real *x0, const sw_real *P0)
{
    memset(lag, 0, sizeof *lag);
    sw_init(&lag->state, x0, P0);
    lag->kept = kept;
    lag->size = size;
    lag->last = size - 1;
}

int sw_lag_step(sw_lag *lag, const sw_real *measured, const sw_real *u, sw_real dt,
                sw_estimate *estimate)
{
    const int next = lag->last + 1 < lag->size ? lag->last + 1 : 0;
    sw_kept *now = &lag->kept[next];
    int kept = 0;
    const int ok = step(&lag->state, measured, u, dt, &now->estimate, now, &kept);
    if (ok == SW_REFUSED) return ok;
    if (!kept) stays(now);
    lag->last = next;
    if (lag->count < lag->size) ++lag->count;
    if (estimate) *estimate = now->estimate;
    return ok;
}

int sw_lag_smoothed(const sw_lag *lag, int steps, sw_real *x, sw_real *P)
{
    if (steps < 0 || steps >= lag->count) return SW_REFUSED;
    const sw_kept *now = ago(lag, 0);
    if (steps == 0) {
        memcpy(x, now->estimate.x, sizeof now->estimate.x);
        memcpy(P, now->estimate.P, sizeof now->estimate.P);
        return 1;
    }
    adjoint both[2];
    memset(both, 0, sizeof both);
    both[0].restarts = now->estimate.restarts;
    for (int i = 0; i < steps; ++i) before(&both[i % 2], ago(lag, i), &both[(i + 1) % 2]);
    smoothed(&both[steps % 2], ago(lag, steps), x, P);
    return 1;
}
