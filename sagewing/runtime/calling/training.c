/* Training called by XLA: records run forward, and backward through what the forward pass kept. */

#include <pthread.h>

#include "sagewing_training.h"
#include "xla/ffi/api/c_api.h"

/* The gradient is the sum of so many parts at most, in a fixed order whatever thread computes which.
 * That by the weights is added up for blocks of steps. */
enum { PARTS = 16, MOST_THREADS = 256, BLOCK = 32 };
/* The memory of a thread, in vectors. */
enum { WORK = BLOCK * (SW_VECTORS + SW_RESULTS) + SW_SUMMED };

typedef struct {
    long parameters; /* the place of W, or -1 where it is not trained */
    int rows, inner, columns;
} product;
static const product products[] = SW_PRODUCTS;
static const int places[] = SW_SUMMED_PLACES;

typedef struct {
    long steps, records, groups, parts;
    const sw_real *parameters, *start, *z, *u, *dt, *saved_bar;
    const unsigned char *arrived;
    sw_real *saved, *gradient, *start_bar;
    sw_lanes *kept, *memory;
    sw_real *partial;
    void (*work)(void *, long, int);
    long count, next, threads;
    int started;
} task;

static inline sw_lanes load(const sw_real *from)
{
    sw_lanes all;
    memcpy(&all, from, sizeof all);
    return all;
}

static inline void store(sw_real *to, sw_lanes all) { memcpy(to, &all, sizeof all); }

typedef struct {
    sw_lanes z[SW_Z + 1], u[SW_U + 1], dt;
    sw_ints arrived[SW_Z + 1];
} measured;

static void read_step(const task *t, long group, long step, measured *m)
{
    const long at = group * SW_LANES, B = t->records;
    for (int i = 0; i < SW_Z; ++i) {
        m->z[i] = load(t->z + (step * SW_Z + i) * B + at);
        const unsigned char *flags = t->arrived + (step * SW_Z + i) * B + at;
        for (int l = 0; l < SW_LANES; ++l) m->arrived[i][l] = -(sw_int)(flags[l] != 0);
    }
    for (int i = 0; i < SW_U; ++i) m->u[i] = load(t->u + (step * SW_U + i) * B + at);
    m->dt = load(t->dt + step * B + at);
}

static void forward_group(void *given, long group, int thread)
{
    (void)thread;
    task *t = given;
    const long at = group * SW_LANES, B = t->records;
    sw_lanes states[2][SW_CARRY], saved[SW_SAVED + 1];
    measured m;
    for (int i = 0; i < SW_CARRY; ++i) states[0][i] = load(t->start + i * B + at);
    for (long k = 0; k < t->steps; ++k) {
        read_step(t, group, k, &m);
        sw_forward(t->parameters, states[k % 2], m.z, m.arrived, m.u, m.dt, states[(k + 1) % 2],
                   saved, t->kept + (group * t->steps + k) * SW_KEPT);
        for (int i = 0; i < SW_SAVED; ++i) store(t->saved + (k * SW_SAVED + i) * B + at, saved[i]);
    }
}

/* The derivative by the weights: sums over lanes and steps of products of results and vectors. */
static void add_products(sw_real *gradient, const sw_lanes *vectors, const sw_lanes *results,
                         int steps)
{
    long v = 0, r = 0;
    for (const product *p = products; p->rows; ++p) {
        if (p->parameters >= 0)
            sw_add_outer(gradient + p->parameters, vectors + v, SW_VECTORS, results + r, SW_RESULTS,
                         p->rows, p->inner, p->columns, steps);
        v += (long)p->inner * p->columns;
        r += (long)p->rows * p->columns;
    }
}

static void reverse_part(void *given, long part, int thread)
{
    task *t = given;
    const long B = t->records, first = part * t->groups / t->parts;
    const long last = (part + 1) * t->groups / t->parts;
    sw_real *gradient = t->partial + part * SW_PARAMETERS;
    sw_lanes *memory = t->memory + (size_t)thread * WORK;
    sw_lanes *vectors = memory + SW_SUMMED, *results = vectors + (size_t)BLOCK * SW_VECTORS;
    memset(gradient, 0, SW_PARAMETERS * sizeof *gradient);
    memset(memory, 0, SW_SUMMED * sizeof *memory);
    for (long group = first; group < last; ++group) {
        const long at = group * SW_LANES;
        sw_lanes bars[2][SW_CARRY], saved_bar[SW_SAVED + 1];
        measured m;
        memset(bars, 0, sizeof bars);
        int now = 0, filled = 0;
        for (long k = t->steps - 1; k >= 0; --k) {
            const sw_lanes *kept = t->kept + (group * t->steps + k) * SW_KEPT;
            read_step(t, group, k, &m);
            for (int i = 0; i < SW_SAVED; ++i)
                saved_bar[i] = load(t->saved_bar + (k * SW_SAVED + i) * B + at);
            if (SW_RESTARTED >= 0) {
                const sw_ints stays = (sw_ints)kept[SW_RESTARTED < 0 ? 0 : SW_RESTARTED];
                if (sw_lanes_any(~stays))
                    for (int i = 0; i < SW_CARRY; ++i)
                        bars[now][i] = sw_lanes_select(stays, bars[now][i], SW_ALL((sw_real)0));
            }
            sw_reverse(t->parameters, kept, m.z, m.arrived, m.u, m.dt, saved_bar, bars[now],
                       bars[!now], memory, vectors + (size_t)filled * SW_VECTORS,
                       results + (size_t)filled * SW_RESULTS);
            now = !now;
            if (++filled == BLOCK || k == 0) {
                add_products(gradient, vectors, results, filled);
                filled = 0;
            }
        }
        for (int i = 0; i < SW_CARRY; ++i) store(t->start_bar + i * B + at, bars[now][i]);
    }
    for (int i = 0; i < SW_SUMMED; ++i) gradient[places[i]] += sw_total(memory[i]);
}

static void *run_tasks(void *given)
{
    task *t = given;
    const int thread = __atomic_fetch_add(&t->started, 1, __ATOMIC_RELAXED);
    for (;;) {
        const long i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);
        if (i >= t->count) return NULL;
        t->work(t, i, thread);
    }
}

/* The calling thread works, too, and takes over what a thread that cannot be started would do. */
static void in_threads(task *t, void (*work)(void *, long, int), long count)
{
    pthread_t others[MOST_THREADS];
    int started = 0;
    t->work = work;
    t->count = count;
    t->next = t->started = 0;
    const long threads = t->threads < count ? t->threads : count;
    for (; started < threads - 1 && started < MOST_THREADS; ++started)
        if (pthread_create(&others[started], NULL, run_tasks, t)) break;
    run_tasks(t);
    for (int i = 0; i < started; ++i) pthread_join(others[i], NULL);
}

static int is_query(XLA_FFI_CallFrame *frame)
{
    for (XLA_FFI_Extension_Base *e = frame->extension_start; e; e = e->next)
        if (e->type == XLA_FFI_Extension_Metadata) {
            XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)e)->metadata;
            metadata->api_version.major_version = XLA_FFI_API_MAJOR;
            metadata->api_version.minor_version = XLA_FFI_API_MINOR;
            return 1;
        }
    return 0;
}

static XLA_FFI_Buffer *given(XLA_FFI_CallFrame *frame, int i) { return frame->args.args[i]; }
static void *made(XLA_FFI_CallFrame *frame, int i)
{
    return ((XLA_FFI_Buffer *)frame->rets.rets[i])->data;
}

static task task_of(XLA_FFI_CallFrame *frame)
{
    task t = {0};
    t.parameters = given(frame, 0)->data;
    t.z = given(frame, 2)->data;
    t.arrived = given(frame, 3)->data;
    t.u = given(frame, 4)->data;
    t.dt = given(frame, 5)->data;
    t.steps = given(frame, 5)->dims[0];
    t.records = given(frame, 5)->dims[1];
    t.groups = t.records / SW_LANES;
    t.parts = t.groups < PARTS ? t.groups : PARTS;
    t.threads = given(frame, 6)->dims[0];
    return t;
}

XLA_FFI_Error *sw_training_forward(XLA_FFI_CallFrame *frame)
{
    if (is_query(frame)) return NULL;
    task t = task_of(frame);
    t.start = given(frame, 1)->data;
    t.saved = made(frame, 0);
    t.kept = made(frame, 1);
    in_threads(&t, forward_group, t.groups);
    return NULL;
}

XLA_FFI_Error *sw_training_reverse(XLA_FFI_CallFrame *frame)
{
    if (is_query(frame)) return NULL;
    task t = task_of(frame);
    t.kept = given(frame, 1)->data;
    t.saved_bar = given(frame, 7)->data;
    t.gradient = made(frame, 0);
    t.start_bar = made(frame, 1);
    t.partial = made(frame, 2);
    t.memory = made(frame, 3);
    in_threads(&t, reverse_part, t.parts);
    for (long i = 0; i < SW_PARAMETERS; ++i) {
        sw_real sum = 0;
        for (long p = 0; p < t.parts; ++p) sum += t.partial[p * SW_PARAMETERS + i];
        t.gradient[i] = sum;
    }
    return NULL;
}

int sw_training_lanes(void) { return SW_LANES; }
long sw_training_parts(void) { return PARTS; }
long sw_training_work(void) { return (long)WORK * SW_LANES; }
