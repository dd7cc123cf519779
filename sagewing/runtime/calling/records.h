/* What Python calls besides the filter; cffi reads these lines, too. */

/* One record, step by step: the measurement and inputs of a step, the state and the estimate. */
typedef struct {
    sw_real z[SW_NZ];
    sw_real u[SW_NU + 1];
    sw_state state;
    sw_estimate estimate;
} sw_record;

/* The same for measurements with time stamps. */
typedef struct {
    sw_real z[SW_NZ];
    sw_real u[SW_NU + 1];
    sw_late late;
    sw_estimate estimate;
} sw_late_record;

/* Whole records: step k of record i is entry i * steps + k. The inputs u and the durations dt may be
 * shared: then their stride from one record, or from one step, to the next is 0. */
typedef struct {
    long steps;
    sw_state *states;
    sw_estimate *estimates;
    const sw_real *z;
    const sw_real *u;
    long u_record;
    const sw_real *dt;
    long dt_record;
    long dt_step;
} sw_records;

void sw_record_step(sw_record *record, double dt);
int sw_late_record_step(sw_late_record *record, double t, int has_u);
void sw_records_run(const sw_records *records, long first, long last);
/* How many records are run at once. */
int sw_records_together(void);
